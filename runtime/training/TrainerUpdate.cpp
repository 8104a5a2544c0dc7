// Takes: the gradient's sum. Gives: parameters after a step.
//
// The flat memory of parameters, gradients and moments is cut into pieces, each of which goes through the program's update
// function (passes/gradient/Optimizers.cpp). Results replace what they are made of: its kernel gives all of them, computes all
// of an element before it stores any, and stores each once (no schedule computes a tail twice); what an update replaces nobody
// reads again. So memory sees one pass. On the processor a piece has some thousand elements, on a device as many as make a
// launch worth its while. Sums over pieces are added in the order of pieces, so that results do not depend on the number of
// threads.
#include "runtime/Error.h"
#include "runtime/machine/ThreadPool.h"
#include "runtime/training/Trainer.h"

#include <algorithm>
#include <cmath>

namespace quern::runtime {

namespace {

constexpr size_t pieceOfProcessor = 8192, pieceOfDevice = size_t(1) << 22;
constexpr size_t piecesPerTask = 32;

} // namespace

/// One of the program's functions on `elements` numbers: where its tensors begin in the flat memory, its plain numbers.
struct Trainer::Flat {
  int number;
  std::map<std::string, const float *> tensors; // where kernels see them
  std::map<std::string, float> numbers;
  std::function<std::vector<void *>(size_t piece)> places; // where results go, in order
  double decay = 0;                                        // the number of that name, for pieces that decay
};

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
    for (size_t at = 0, step = where.isHost() ? pieceOfProcessor : pieceOfDevice; at < run.count; at += step)
      pieces.push_back({run.at + at, std::min(step, run.count - at), run.decays});
}

/// accumulated += scale * gradients.
void Trainer::addGradients(double scale) {
  Flat flat{program.description.findFunction("gradient.add"),
            {{"a", accumulated.seen()}, {"g", gradients.seen()}},
            {{"scale", float(scale)}},
            nullptr};
  float *to = accumulated.filled();
  flat.places = [&](size_t piece) { return std::vector<void *>{to + pieces[piece].at}; };
  forPieces(flat);
}

/// Calls a flat function on every piece, pieces in parallel.
void Trainer::forPieces(const Flat &flat) {
  if (!where.isHost())
    return forPiecesOfDevice(flat);
  const FunctionInfo &function = program.description.functions[size_t(flat.number)];
  const quern_entry &entry = program.table.entries[flat.number];
  const std::vector<std::string> &symbols = program.description.symbols;
  size_t elements = size_t(std::find(symbols.begin(), symbols.end(), "elements") - symbols.begin());
  std::vector<int64_t> largest(symbols.size(), 0);
  largest[elements] = int64_t(pieceOfProcessor);
  size_t arenaBytes = size_t(entry.arenaBytes(largest.data()));
  int tasks = int((pieces.size() + piecesPerTask - 1) / piecesPerTask);
  ThreadPool::instance().forEach(tasks, [&](int task) {
    std::vector<uint8_t> arena(arenaBytes + 1);
    std::vector<int64_t> sizes(symbols.size(), 0);
    std::map<std::string, float> numbers = flat.numbers;
    float &decay = numbers["decay"];
    std::vector<const void *> inputs;
    std::vector<const float *> begins; // of those that are cut
    for (const TensorInfo &input : function.inputs) {
      auto tensor = flat.tensors.find(input.name);
      begins.push_back(tensor != flat.tensors.end() ? tensor->second : nullptr);
      inputs.push_back(begins.back() ? nullptr : &numbers.at(input.name));
    }
    size_t from = size_t(task) * piecesPerTask;
    for (size_t i = from; i < std::min(pieces.size(), from + piecesPerTask); ++i) {
      const Piece &piece = pieces[i];
      sizes[elements] = int64_t(piece.count);
      decay = piece.decays ? float(flat.decay) : 0;
      for (size_t k = 0; k < inputs.size(); ++k)
        if (begins[k])
          inputs[k] = begins[k] + piece.at;
      std::vector<void *> outputs = flat.places(i);
      quern_call call{sizes.data(), inputs.data(), outputs.data(), nullptr, nullptr, arena.data(), 1,
                      nullptr,      nullptr,       nullptr};
      if (int32_t status = entry.run(&call))
        throw MachineError(format("function %s failed with status %d", function.name.c_str(), status));
    }
  });
}

/// The same, one launch after the other. Numbers are sent once: "decay" twice, as pieces have it and as others do not.
void Trainer::forPiecesOfDevice(const Flat &flat) {
  const FunctionInfo &function = program.description.functions[size_t(flat.number)];
  const quern_entry &entry = program.table.entries[flat.number];
  const std::vector<std::string> &symbols = program.description.symbols;
  std::vector<int64_t> sizes(symbols.size(), 0);
  int64_t &elements = sizes[size_t(std::find(symbols.begin(), symbols.end(), "elements") - symbols.begin())];
  elements = int64_t(pieceOfDevice);
  flatArena.ensure(size_t(entry.arenaBytes(sizes.data())) + 1);
  constexpr size_t apart = 32; // floats: each begins at a whole cache line
  std::vector<float> numbers(apart * (function.inputs.size() + 1));
  for (size_t i = 0; i < function.inputs.size(); ++i)
    if (auto number = flat.numbers.find(function.inputs[i].name); number != flat.numbers.end())
      numbers[apart * i] = number->second;
  numbers.end()[-ptrdiff_t(apart)] = float(flat.decay);
  flatNumbers.ensure(numbers.size() * 4);
  where.copy(flatNumbers.data(), numbers.data(), numbers.size() * 4);
  Scratch none;
  for (size_t i = 0; i < pieces.size(); ++i) {
    elements = int64_t(pieces[i].count);
    std::vector<const void *> inputs;
    for (size_t k = 0; k < function.inputs.size(); ++k) {
      const std::string &name = function.inputs[k].name;
      auto tensor = flat.tensors.find(name);
      size_t number = name == "decay" && pieces[i].decays ? function.inputs.size() : k;
      inputs.push_back(tensor != flat.tensors.end() ? tensor->second + pieces[i].at
                                                    : flatNumbers.as<float>() + apart * number);
    }
    std::vector<void *> outputs = flat.places(i);
    quern_call call{sizes.data(), inputs.data(), outputs.data(),  nullptr, nullptr, flatArena.data(), 1,
                    nullptr,      nullptr,       where.services()};
    if (int32_t status = where.run(none, entry.run, call))
      throw MachineError(format("function %s failed with status %d", function.name.c_str(), status));
  }
  where.synchronise();
}

double Trainer::squares() {
  std::vector<float> sums(pieces.size());
  Flat flat{program.description.findFunction("gradient.squares"), {{"g", sum().seen()}}, {}, nullptr};
  if (!where.isHost())
    flatSums.ensure(sums.size() * 4);
  float *to = where.isHost() ? sums.data() : flatSums.as<float>();
  flat.places = [&](size_t piece) { return std::vector<void *>{to + piece}; };
  forPieces(flat);
  if (!where.isHost())
    where.copy(sums.data(), flatSums.data(), sums.size() * 4);
  double total = 0;
  for (float part : sums)
    total += double(part);
  return total;
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
            {{"p", masters.seen()}, {"g", sum().seen()}},
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
  if (narrow.size() && narrowStale)
    narrowAll(); // what is not trained
  std::vector<float *> results = {masters.filled()};
  for (size_t i = 0; i < moments.size(); ++i) {
    results.push_back(moments[i].filled());
    flat.tensors[momentNames[i]] = results.back();
  }
  uint16_t *copies = narrow.size() ? narrow.filled() : nullptr;
  flat.places = [&](size_t number) {
    std::vector<void *> places;
    for (float *result : results)
      places.push_back(result + pieces[number].at);
    if (copies)
      places.push_back(copies + pieces[number].at);
    return places;
  };
  forPieces(flat);
  forget();
  stale = true;
  return step;
}

} // namespace quern::runtime
