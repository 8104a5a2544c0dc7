// Takes: batches. Gives: losses, and parameters that fit them better.
//
// The flat memory of parameters, gradients and moments is cut into pieces of some thousand elements, which fit the
// cache. Each piece goes through the program's update function (passes/gradient/Optimizers.cpp), whose results come to a small
// buffer and are copied back from there, as kernels may not write to what they read: memory sees one pass. Sums over
// pieces are added in the order of pieces, so that results do not depend on the number of threads.
#include "runtime/training/Trainer.h"

#include "runtime/Error.h"
#include "runtime/machine/ThreadPool.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace quern::runtime {

namespace {

constexpr size_t pieceElements = 8192;
constexpr size_t piecesPerTask = 32;

/// So that every parameter begins at a whole cache line.
size_t alignedElements(size_t count) {
  return (count + 15) / 16 * 16;
}

} // namespace

/// One of the program's functions on `elements` numbers: where its tensors begin in the flat memory, its plain numbers.
struct Trainer::Flat {
  int number;
  std::map<std::string, const float *> tensors;
  std::map<std::string, float> numbers;
  std::function<void(size_t piece, const std::vector<float *> &results)> take; // results of a piece, in order
  double decay = 0; // the number of that name, for pieces that decay
};

Trainer::Trainer(const Program &program, const OptimizerOptions &options, uint64_t seed)
    : program(program), what(readTraining(program)), options(options) {
  const Description &d = program.description;
  int update = d.findFunction("update." + options.kind);
  if (update < 0)
    throw UserError("there is no optimizer " + quote(options.kind) +
                    "; there are sgd, momentum, nesterov, adam and adamw");
  for (const TensorInfo &output : d.functions[size_t(update)].outputs)
    if (output.storage == Storage::F32 && output.name != "p")
      momentNames.push_back(output.name);
  layOut();
  uint64_t bytes = uint64_t(total) * 4;
  bool narrows = std::any_of(d.slots.begin(), d.slots.end(), [](const SlotInfo &slot) {
    return std::holds_alternative<NarrowLayout>(slot.layouts[0]);
  });
  requireMemory(bytes * (2 + momentNames.size()) + narrows * bytes / 2, "parameters, gradients and moments");
  if (narrows)
    narrow.reset(bytes / 2);
  masters.reset(bytes);
  gradients.reset(bytes);
  for (size_t i = 0; i < momentNames.size(); ++i)
    moments.emplace_back(bytes);
  for (size_t i = 0; i < d.parameters.size(); ++i) {
    const ParameterInfo &parameter = d.parameters[i];
    float *to = data(i);
    int64_t elements = parameter.elements(), step = 1 << 16;
    ThreadPool::instance().forEach(int((elements + step - 1) / step), [&](int task) {
      for (int64_t k = task * step; k < std::min(elements, (task + 1) * step); ++k)
        to[k] = randomElement(parameter, seed, i, uint64_t(k));
    });
  }
  outputs.push_back(&lossValue);
  for (const Training::Gradient &gradient : what.gradients)
    outputs.push_back(gradients.as<float>() + places[gradient.parameters.front()]);
  // U is random, V zero: the model begins as it is.
  for (size_t k = 0; k < adapters.size(); ++k) {
    ParameterInfo normal;
    normal.initValue = 1 / std::sqrt(double(adapters[k].matrix.rows));
    for (int64_t i = 0; i < adapters[k].matrix.rows * adapters[k].matrix.rank; ++i)
      masters.as<float>()[adapters[k].u + size_t(i)] =
          randomElement(normal, seed, d.parameters.size() + k, uint64_t(i));
  }
  takeBases();
  cutPieces();
}

size_t Trainer::Variable::elements() const {
  size_t count = 1;
  for (int64_t length : shape)
    count *= size_t(length);
  return count;
}

/// Parameters in the order of the gradient's results; what the loss does not use comes last and has no gradient.
void Trainer::layOut() {
  const Description &d = program.description;
  constexpr size_t nowhere = SIZE_MAX;
  places.assign(d.parameters.size(), nowhere);
  std::vector<size_t> chosen;
  bool loops =
      std::any_of(what.gradients.begin(), what.gradients.end(), [](auto &g) { return g.parameters.size() > 1; });
  for (const Training::Gradient &gradient : what.gradients) {
    total = alignedElements(total);
    for (size_t i : gradient.parameters) {
      const ParameterInfo &parameter = d.parameters[i];
      bool wanted = options.wanted ? std::any_of(parameter.names.begin(), parameter.names.end(), options.wanted)
                                   : !options.lora || gradient.parameters.size() > 1 || !loops;
      if (wanted && (!options.lora || parameter.shape.size() == 2))
        chosen.push_back(i);
      places[i] = total;
      total += size_t(parameter.elements());
    }
  }
  for (size_t i = 0; i < places.size(); ++i) {
    names.push_back(d.parameters[i].names.front());
    parameters += d.parameters[i].elements();
    active += double(d.parameters[i].elements()) * d.parameters[i].picked;
    if (places[i] != nowhere)
      continue;
    places[i] = total = alignedElements(total);
    total += size_t(d.parameters[i].elements());
  }
  total = alignedElements(total);
  if (chosen.empty())
    throw UserError(options.wanted ? "--train-only names no parameter that can be trained so"
                                   : "the model has no parameter that can be trained so");
  if (options.lora)
    addAdapters(chosen);
  else
    for (size_t i : chosen)
      variables.push_back({names[i], places[i], d.parameters[i].shape});
}

void Trainer::addAdapters(const std::vector<size_t> &matrices) {
  size_t base = 0;
  for (size_t i : matrices) {
    const std::vector<int64_t> &shape = program.description.parameters[i].shape;
    Adapter adapter{i,
                    total,
                    0,
                    base,
                    {shape[0], shape[1], std::min({options.lora, shape[0], shape[1]}), float(options.loraScale)}};
    int64_t rank = adapter.matrix.rank;
    variables.push_back({names[i] + ".lora_u", total, {shape[0], rank}});
    total = adapter.v = alignedElements(total + size_t(shape[0] * rank));
    variables.push_back({names[i] + ".lora_v", total, {rank, shape[1]}});
    total = alignedElements(total + size_t(rank * shape[1]));
    base += size_t(shape[0] * shape[1]);
    adapters.push_back(adapter);
  }
  bases.reset(base * 4);
}

/// Pieces of the variables' memory; neighbours that decay alike are one run.
void Trainer::cutPieces() {
  std::vector<Piece> runs;
  for (const Variable &variable : variables) {
    bool decays = options.decayAll || variable.shape.size() >= 2;
    size_t count = variable.elements();
    trained += int64_t(count);
    if (!runs.empty() && runs.back().decays == decays && runs.back().at + runs.back().count == variable.place)
      runs.back().count += count;
    else
      runs.push_back({variable.place, count, decays});
  }
  for (const Piece &run : runs)
    for (size_t at = 0; at < run.count; at += pieceElements)
      pieces.push_back({run.at + at, std::min(pieceElements, run.count - at), run.decays});
}

void Trainer::takeBases() {
  for (const Adapter &a : adapters)
    std::memcpy(bases.as<float>() + a.base, data(a.parameter), size_t(a.matrix.rows * a.matrix.columns) * 4);
}

void Trainer::mergeAdapters() {
  float *all = masters.as<float>();
  for (const Adapter &a : adapters)
    loraMerge(a.matrix, bases.as<float>() + a.base, all + a.u, all + a.v, data(a.parameter));
}

void Trainer::load(const TensorSource &source) {
  const Description &d = program.description;
  std::vector<const StoredTensor *> found = matchParameters(d, source);
  for (size_t i = 0; i < found.size(); ++i) {
    toFloat(*found[i], 0, found[i]->elements(), data(i));
    for (const std::string &name : d.parameters[i].names)
      if (source.find(name) == found[i])
        names[i] = name;
  }
  for (Variable &variable : variables)
    for (size_t i = 0; i < places.size(); ++i)
      if (places[i] == variable.place)
        variable.name = names[i];
  for (size_t i = 0; i < adapters.size(); ++i) {
    variables[2 * i].name = names[adapters[i].parameter] + ".lora_u";
    variables[2 * i + 1].name = names[adapters[i].parameter] + ".lora_v";
  }
  takeBases();
  stale = narrowStale = true;
}

/// The copies that kernels read follow all parameters; `update` keeps them so by itself.
void Trainer::narrowAll() {
  constexpr size_t step = 1 << 16;
  const float *from = masters.as<float>();
  uint16_t *to = narrow.as<uint16_t>();
  ThreadPool::instance().forEach(int((total + step - 1) / step), [&](int task) {
    for (size_t i = size_t(task) * step; i < std::min(total, (size_t(task) + 1) * step); ++i)
      to[i] = floatToBF16(from[i]);
  });
  narrowStale = false;
}

Session &Trainer::session() {
  dense();
  if (stale)
    weights->update();
  stale = false;
  return *memory;
}

Session &Trainer::dense() {
  if (!weights) {
    std::vector<const float *> tensors;
    std::vector<const uint16_t *> copies;
    for (size_t i = 0; i < places.size(); ++i) {
      tensors.push_back(data(i));
      if (narrow.size())
        copies.push_back(narrow.as<uint16_t>() + places[i]);
    }
    weights = Weights::over(program.description, tensors, copies);
    memory = std::make_unique<Session>(program, *weights);
    stale = false;
  }
  if (narrowStale && narrow.size())
    narrowAll();
  if (stale && weights->copiesDense()) {
    weights->update();
    stale = false;
  }
  return *memory;
}

double Trainer::loss(const Values &inputs) {
  const Description &d = program.description;
  if (what.loss < 0)
    throw UserError("the program has no function 'loss'");
  checkLength(dense(), what.loss, inputs);
  Values results = dense().evaluate(what.loss, inputs);
  return results.at(d.functions[size_t(what.loss)].outputs.at(0).name).reals()[0];
}

/// accumulated += scale * gradients.
void Trainer::addGradients(double scale) {
  Flat flat{program.description.findFunction("gradient.add"),
            {{"a", accumulated.as<float>()}, {"g", gradients.as<float>()}},
            {{"scale", float(scale)}},
            nullptr};
  flat.take = [&](size_t piece, const std::vector<float *> &results) {
    std::memcpy(accumulated.as<float>() + pieces[piece].at, results[0], pieces[piece].count * 4);
  };
  forPieces(flat);
}

double Trainer::accumulate(const Values &inputs) {
  double rows = countLabels(inputs);
  if (weight > 0 && !several) { // the first gradient makes room
    several = true;
    accumulated.ensure(gradients.size());
    std::memset(accumulated.data(), 0, accumulated.size());
    addGradients(weight);
  }
  checkLength(dense(), what.function, inputs);
  dense().evaluateInto(what.function, inputs, outputs);
  float *all = masters.as<float>(), *slopes = gradients.as<float>();
  for (const Adapter &a : adapters)
    loraGradients(a.matrix, slopes + places[a.parameter], all + a.u, all + a.v, slopes + a.u, slopes + a.v);
  // Means of several batches are added by their numbers of labels; `update` divides by all of them.
  if (several)
    addGradients(rows);
  weight += rows;
  return lossValue;
}

/// Calls a flat function on every piece, pieces in parallel.
void Trainer::forPieces(const Flat &flat) {
  const FunctionInfo &function = program.description.functions[size_t(flat.number)];
  const quern_entry &entry = program.table.entries[flat.number];
  const std::vector<std::string> &symbols = program.description.symbols;
  size_t elements = size_t(std::find(symbols.begin(), symbols.end(), "elements") - symbols.begin());
  std::vector<int64_t> largest(symbols.size(), 0);
  largest[elements] = int64_t(pieceElements);
  size_t arenaBytes = size_t(entry.arenaBytes(largest.data()));
  int tasks = int((pieces.size() + piecesPerTask - 1) / piecesPerTask);
  ThreadPool::instance().forEach(tasks, [&](int task) {
    std::vector<uint8_t> arena(arenaBytes + 1);
    std::vector<float> scratch(function.outputs.size() * pieceElements);
    std::vector<int64_t> sizes(symbols.size(), 0);
    std::vector<float *> results;
    std::vector<void *> outputs;
    for (size_t i = 0; i < function.outputs.size(); ++i) {
      results.push_back(scratch.data() + i * pieceElements);
      outputs.push_back(results.back());
    }
    std::map<std::string, float> numbers = flat.numbers;
    size_t from = size_t(task) * piecesPerTask;
    for (size_t i = from; i < std::min(pieces.size(), from + piecesPerTask); ++i) {
      const Piece &piece = pieces[i];
      sizes[elements] = int64_t(piece.count);
      numbers["decay"] = piece.decays ? float(flat.decay) : 0;
      std::vector<const void *> inputs;
      for (const TensorInfo &input : function.inputs)
        if (auto tensor = flat.tensors.find(input.name); tensor != flat.tensors.end())
          inputs.push_back(tensor->second + piece.at);
        else
          inputs.push_back(&numbers.at(input.name));
      quern_call call{sizes.data(), inputs.data(), outputs.data(), nullptr, nullptr, arena.data(), 1,
                      nullptr,      nullptr,       nullptr};
      if (int32_t status = entry.run(&call))
        throw MachineError(format("function %s failed with status %d", function.name.c_str(), status));
      flat.take(i, results);
    }
  });
}

double Trainer::squares() {
  std::vector<double> sums(pieces.size());
  Flat flat{program.description.findFunction("gradient.squares"), {{"g", sum().as<float>()}}, {}, nullptr};
  flat.take = [&](size_t piece, const std::vector<float *> &results) { sums[piece] = double(*results[0]); };
  forPieces(flat);
  double total = 0;
  for (double part : sums)
    total += part;
  return total;
}

std::string Trainer::brokenGradient() const {
  for (const Variable &variable : variables) {
    const float *g = sum().as<float>() + variable.place;
    if (!std::all_of(g, g + variable.elements(), [](float x) { return std::isfinite(x); }))
      return variable.name;
  }
  return "";
}

std::string Trainer::brokenParameter() const {
  for (size_t i = 0; i < places.size(); ++i) {
    const float *p = masters.as<float>() + places[i];
    if (!std::all_of(p, p + program.description.parameters[i].elements(), [](float x) { return std::isfinite(x); }))
      return "; the parameter " + names[i] + " was not finite before";
  }
  return "; all parameters were finite";
}

Trainer::Step Trainer::update(double rate) {
  Step step;
  double mean = several ? 1 / std::max(weight, 1.0) : 1;
  step.norm = std::sqrt(squares()) * mean;
  if (!std::isfinite(step.norm)) {
    std::string tensor = brokenGradient();
    step.broken = tensor.empty() ? "sum of the gradient's squares is too large for 32 bits: a smaller --rate may help"
                                 : "gradient of " + tensor + " is not";
    forget();
    return step;
  }
  double clipped = options.clip > 0 ? std::min(1.0, options.clip / (step.norm + 1e-6)) : 1;
  ++count;
  Flat flat{program.description.findFunction("update." + options.kind),
            {{"p", masters.as<float>()}, {"g", sum().as<float>()}},
            {{"rate", float(rate)},
             {"scale", float(mean * clipped)},
             {"momentum", float(options.momentum)},
             {"beta1", float(options.beta1)},
             {"beta2", float(options.beta2)},
             {"epsilon", float(options.epsilon)},
             {"correct1", float(1 / (1 - std::pow(options.beta1, double(count))))},
             {"correct2", float(1 / (1 - std::pow(options.beta2, double(count))))}},
            nullptr,
            options.decay};
  for (size_t i = 0; i < moments.size(); ++i)
    flat.tensors[momentNames[i]] = moments[i].as<float>();
  flat.take = [&](size_t number, const std::vector<float *> &results) {
    const Piece &piece = pieces[number];
    std::memcpy(masters.as<float>() + piece.at, results[0], piece.count * 4);
    for (size_t i = 0; i < moments.size(); ++i)
      std::memcpy(moments[i].as<float>() + piece.at, results[i + 1], piece.count * 4);
    if (narrow.size())
      std::memcpy(narrow.as<uint16_t>() + piece.at, results[moments.size() + 1], piece.count * 2);
  };
  if (narrow.size() && narrowStale)
    narrowAll(); // what is not trained
  forPieces(flat);
  mergeAdapters();
  narrowStale = !adapters.empty();
  forget();
  stale = true;
  return step;
}

// ---- what is stored

std::vector<OutputTensor> Trainer::tensors() const {
  std::vector<OutputTensor> result;
  for (size_t i = 0; i < places.size(); ++i)
    result.push_back({names[i], Dtype::F32, program.description.parameters[i].shape, masters.as<float>() + places[i]});
  return result;
}

std::vector<OutputTensor> Trainer::adapterTensors() const {
  std::vector<OutputTensor> result;
  for (const Variable &variable : variables)
    if (!adapters.empty())
      result.push_back({variable.name, Dtype::F32, variable.shape, masters.as<float>() + variable.place});
  return result;
}

std::vector<OutputTensor> Trainer::optimizerTensors() const {
  std::vector<OutputTensor> result = adapterTensors();
  result.push_back({"step", Dtype::I64, {}, &count});
  for (size_t k = 0; k < moments.size(); ++k)
    for (const Variable &variable : variables)
      result.push_back(
          {momentNames[k] + "." + variable.name, Dtype::F32, variable.shape, moments[k].as<float>() + variable.place});
  for (const Adapter &a : adapters)
    result.push_back(
        {"base." + names[a.parameter], Dtype::F32, {a.matrix.rows, a.matrix.columns}, bases.as<float>() + a.base});
  return result;
}

void Trainer::restore(const std::map<std::string, StoredTensor> &stored, const std::string &path) {
  auto step = stored.find("step");
  if (step == stored.end() || step->second.dtype != Dtype::I64 || step->second.bytes != 8)
    throw UserError(path + " is no optimizer's state: it has no step");
  for (const OutputTensor &tensor : optimizerTensors()) {
    if (tensor.name == "step")
      continue;
    auto found = stored.find(tensor.name);
    if (found == stored.end() || found->second.dtype != Dtype::F32 || found->second.shape != tensor.shape)
      throw UserError(path + " has no " + tensor.name + " " + shapeText(tensor.shape) +
                      ": it was made by another optimizer, or for other parameters");
    std::memcpy(const_cast<void *>(tensor.data), found->second.data, found->second.bytes);
  }
  std::memcpy(&count, step->second.data, 8);
}

} // namespace quern::runtime
