// Takes: batches. Gives: losses and their gradients, and what is stored of a run.
#include "runtime/training/Trainer.h"

#include "runtime/Error.h"
#include "runtime/machine/ThreadPool.h"
#include "runtime/weights/Adapter.h"
#include "runtime/weights/FillWeights.h"
#include "support/numbers/SmallFloats.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace quern::runtime {

namespace {

/// So that every parameter begins at a whole cache line.
size_t alignedElements(size_t count) {
  return (count + 15) / 16 * 16;
}

} // namespace

Trainer::Trainer(const Program &program, const OptimizerOptions &options, uint64_t seed)
    : program(program), what(readTraining(program)), options(options), seed(seed), where(program.device()),
      masters(where), gradients(where), accumulated(where), narrow(where), flatArena(where), flatSums(where),
      flatNumbers(where) {
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
    narrow.reset(total);
  masters.reset(total);
  gradients.reset(total);
  for (size_t i = 0; i < momentNames.size(); ++i)
    moments.emplace_back(where).reset(total);
  for (size_t i = 0; i < d.parameters.size(); ++i) {
    if (places[i] == nowhere)
      continue;
    const ParameterInfo &parameter = d.parameters[i];
    float *to = masters.write() + places[i];
    int64_t elements = parameter.elements(), step = 1 << 16;
    ThreadPool::instance().forEach(int((elements + step - 1) / step), [&](int task) {
      for (int64_t k = task * step; k < std::min(elements, (task + 1) * step); ++k)
        to[k] = randomElement(parameter, seed, i, uint64_t(k));
    });
  }
  outputs.push_back(&lossValue);
  for (const Training::Gradient &gradient : what.gradients)
    outputs.push_back(gradients.seen() + places[gradient.parameters.front()]);
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
  places.assign(d.parameters.size(), nowhere);
  for (const Training::Gradient &gradient : what.gradients) {
    total = alignedElements(total);
    for (size_t i : gradient.parameters) {
      const ParameterInfo &parameter = d.parameters[i];
      if (!options.wanted || std::any_of(parameter.names.begin(), parameter.names.end(), options.wanted))
        variables.push_back({parameter.names.front(), total, parameter.shape});
      places[i] = total;
      total += size_t(parameter.elements());
    }
  }
  for (size_t i = 0; i < places.size(); ++i) {
    const ParameterInfo &parameter = d.parameters[i];
    bool frozen = trainsAdapters() && !parameter.adapter;
    names.push_back(parameter.names.front());
    parameters += parameter.elements();
    const double used = double(parameter.elements()) * parameter.routedShare;
    active += used;
    work += used * (frozen ? 4 : 6);
    if (places[i] != nowhere || frozen)
      continue;
    places[i] = total = alignedElements(total);
    total += size_t(parameter.elements());
  }
  total = alignedElements(total);
  if (variables.empty())
    throw UserError(options.wanted ? "--train-only names no parameter that is trained"
                                   : "the model has no parameter that can be trained");
}

void Trainer::load(std::unique_ptr<TensorSource> given) {
  const Description &d = program.description;
  std::vector<const StoredTensor *> found = matchParameters(d, *given);
  for (size_t i = 0; i < found.size(); ++i) {
    if (places[i] == nowhere)
      continue;
    if (!found[i] && d.parameters[i].adapter)
      continue;      // it begins
    if (!found[i]) { // it may be absent
      std::fill_n(masters.write() + places[i], d.parameters[i].elements(), randomElement(d.parameters[i], 0, i, 0));
      continue;
    }
    toFloat(*found[i], 0, found[i]->elements(), masters.write() + places[i]);
    for (const std::string &name : d.parameters[i].names)
      if (given->find(name) == found[i])
        names[i] = name;
  }
  if (trainsAdapters()) {
    source = std::move(given);
    stored = std::move(found);
    nameAdapters();
  }
  for (Variable &variable : variables)
    for (size_t i = 0; i < places.size(); ++i)
      if (places[i] == variable.place)
        variable.name = names[i];
  stale = narrowStale = true;
}

/// An adapter's file names it as the checkpoint names its matrix.
void Trainer::nameAdapters() {
  for (size_t i = 0; i < places.size(); ++i)
    for (const std::string &name : program.description.parameters[i].names)
      if (std::string stem = name.substr(0, name.rfind(".lora_"));
          places[i] != nowhere && (source->find(stem + ".weight") || source->find(stem))) {
        names[i] = name;
        break;
      }
}

/// The copies that kernels read follow all parameters; `update` keeps them so by itself.
void Trainer::narrowAll() {
  constexpr size_t step = 1 << 16;
  const float *from = masters.read();
  uint16_t *to = narrow.write();
  ThreadPool::instance().forEach(int((total + step - 1) / step), [&](int task) {
    for (size_t i = size_t(task) * step; i < std::min(total, (size_t(task) + 1) * step); ++i)
      to[i] = support::floatToBF16(from[i]);
  });
  narrowStale = false;
}

Session &Trainer::session() {
  dense();
  if (stale)
    packAgain();
  return *memory;
}

void Trainer::packAgain() {
  masters.read(); // what is packed is in the host's memory
  weights->update();
  memory->resendWeights();
  stale = false;
}

Session &Trainer::dense() {
  if (!weights) {
    std::vector<const float *> tensors;
    std::vector<const uint16_t *> copies;
    for (size_t i = 0; i < places.size(); ++i) {
      bool frozen = places[i] == nowhere;
      tensors.push_back(frozen ? nullptr : masters.read() + places[i]);
      if (narrow.size())
        copies.push_back(frozen ? nullptr : narrow.place() + places[i]);
    }
    weights = Weights::over(program.description, tensors, copies, stored, seed);
    memory = std::make_unique<Session>(program, *weights);
    memory->useMirrors({masters.mirror(), narrow.mirror()});
    stale = false;
  }
  if (narrowStale && narrow.size())
    narrowAll();
  if (stale && weights->copiesDense())
    packAgain();
  masters.seen();
  narrow.seen();
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

double Trainer::accumulate(const Values &inputs) {
  double rows = countLabels(inputs);
  if (weight > 0 && !several) { // the first gradient makes room
    several = true;
    if (accumulated.size())
      where.fill(accumulated.filled(), 0, total * 4);
    else
      accumulated.reset(total);
    addGradients(weight);
  }
  checkLength(dense(), what.function, inputs);
  gradients.filled();
  dense().evaluateInto(what.function, inputs, outputs);
  // Means of several batches are added by their numbers of labels; `update` divides by all of them.
  if (several)
    addGradients(rows);
  weight += rows;
  return lossValue;
}

std::string Trainer::brokenGradient() const {
  for (const Variable &variable : variables) {
    const float *g = sum().read() + variable.place;
    if (!std::all_of(g, g + variable.elements(), [](float x) { return std::isfinite(x); }))
      return variable.name;
  }
  return "";
}

std::string Trainer::brokenParameter() const {
  for (size_t i = 0; i < places.size(); ++i) {
    if (places[i] == nowhere)
      continue;
    const float *p = masters.read() + places[i];
    if (!std::all_of(p, p + program.description.parameters[i].elements(), [](float x) { return std::isfinite(x); }))
      return "; the parameter " + names[i] + " was not finite before";
  }
  return "; all parameters were finite";
}

// ---- what is stored

std::vector<OutputTensor> Trainer::tensors() const {
  std::vector<OutputTensor> result;
  for (size_t i = 0; i < places.size(); ++i)
    if (places[i] != nowhere)
      result.push_back({(trainsAdapters() ? adapterPrefix : "") + names[i], Dtype::F32,
                        program.description.parameters[i].shape, masters.read() + places[i]});
  return result;
}

std::vector<OutputTensor> Trainer::optimizerTensors() const {
  std::vector<OutputTensor> result;
  result.push_back({"step", Dtype::I64, {}, &count});
  for (size_t k = 0; k < moments.size(); ++k)
    for (const Variable &variable : variables)
      result.push_back(
          {momentNames[k] + "." + variable.name, Dtype::F32, variable.shape, moments[k].read() + variable.place});
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
  for (FlatMemory<float> &moment : moments)
    moment.write();
  std::memcpy(&count, step->second.data, 8);
}

} // namespace quern::runtime
