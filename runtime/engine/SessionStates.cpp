// Takes: lengths. Gives: caches with room for them, kept while a text grows.
#include "runtime/Error.h"
#include "runtime/engine/Session.h"
#include "runtime/machine/ThreadPool.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace quern::runtime {

bool Session::usesState(const StateInfo &state, int number) const {
  return state.functions.empty() || std::count(state.functions.begin(), state.functions.end(), number);
}

namespace {

/// Copies a tensor into one that is longer along some dimensions.
void copyInto(const uint8_t *from, const std::vector<int64_t> &small, uint8_t *to, const std::vector<int64_t> &large,
              size_t element) {
  size_t inner = small.size(); // dimensions from here on are equal: copied as one run
  size_t run = element;
  while (inner > 0 && small[inner - 1] == large[inner - 1])
    run *= size_t(small[--inner]);
  if (inner > 0)
    --inner;
  size_t fromRow = run, toRow = run;
  if (inner < small.size()) {
    fromRow = run * size_t(small[inner]);
    toRow = run * size_t(large[inner]);
  }
  int64_t rows = 1;
  for (size_t i = 0; i < inner; ++i)
    rows *= small[i];
  std::vector<int64_t> index(inner, 0);
  for (int64_t row = 0; row < rows; ++row) {
    int64_t place = 0;
    for (size_t i = 0; i < inner; ++i)
      place = place * large[i] + index[i];
    std::memcpy(to + size_t(place) * toRow, from + size_t(row) * fromRow, std::min(fromRow, toRow));
    for (size_t i = inner; i-- > 0 && ++index[i] == small[i];)
      index[i] = 0;
  }
}

/// For tests: caches begin as NaN, so that reading what was never written shows.
bool poisoned() {
  static const bool is = std::getenv("QUERN_POISON") != nullptr;
  return is;
}

int64_t count(const std::vector<int64_t> &shape) {
  int64_t result = 1;
  for (int64_t length : shape)
    result = checkedMultiply(result, length);
  return result;
}

} // namespace

void Session::ensureStates(int number, const std::vector<int64_t> &sizes) {
  const Description &d = program.description;
  states.resize(d.states.size());
  for (size_t i = 0; i < d.states.size(); ++i) {
    const StateInfo &info = d.states[i];
    if (!usesState(info, number))
      continue;
    State &state = states[i];
    std::vector<int64_t> shape;
    bool onlyGrown = !state.shape.empty();
    for (size_t k = 0; k < info.dims.size(); ++k) {
      shape.push_back(info.dims[k].evaluate(sizes));
      if (onlyGrown && shape[k] != state.shape[k])
        onlyGrown = d.isCapacity(info.dims[k]) && shape[k] > state.shape[k];
    }
    if (state.memory.data() && shape == state.shape)
      continue;
    size_t element = elementBytes(info.kind);
    Buffer memory(size_t(std::max<int64_t>(1, count(shape))) * element);
    bool isCache =
        std::any_of(info.dims.begin(), info.dims.end(), [&](const SizeExpr &dim) { return d.isCapacity(dim); });
    if (poisoned() && isCache && info.kind == Kind::Real)
      std::memset(memory.data(), 0xff, memory.size()); // NaN, all of them
    if (onlyGrown && state.memory.data())
      copyInto(state.memory.data(), state.shape, memory.data(), shape, element);
    state.memory = std::move(memory);
    state.shape = std::move(shape);
  }
}

uint64_t Session::plannedScratch(int number, const std::vector<int64_t> &sizes) const {
  const quern_entry &entry = program.table.entries[number];
  if (!entry.callerScratch)
    return 0;
  return uint64_t(entry.callerScratch(sizes.data()) +
                  (ThreadPool::instance().threads() - 1) * entry.workerScratch(sizes.data()));
}

uint64_t Session::plannedBytes(int number, const std::vector<int64_t> &sizes) const {
  const quern_entry &entry = program.table.entries[number];
  uint64_t bytes =
      uint64_t(entry.arenaBytes(sizes.data()) + entry.keptBytes(sizes.data())) + plannedScratch(number, sizes);
  for (const StateInfo &state : program.description.states) {
    if (!usesState(state, number))
      continue;
    int64_t elements = 1;
    for (const SizeExpr &dim : state.dims)
      elements = checkedMultiply(elements, dim.evaluate(sizes));
    bytes += uint64_t(elements) * elementBytes(state.kind);
  }
  return bytes;
}

uint64_t Session::touchedBytes() const {
  uint64_t bytes = arena.touched() + kept.touched();
  for (const State &state : states)
    bytes += state.memory.touched();
  return bytes;
}

/// A text begins: its running sums do, too. Caches are written before they are read.
void Session::clearSums() {
  const Description &d = program.description;
  for (size_t i = 0; i < states.size(); ++i) {
    const std::vector<SizeExpr> &dims = d.states[i].dims;
    bool isCache = std::any_of(dims.begin(), dims.end(), [&](const SizeExpr &dim) { return d.isCapacity(dim); });
    if (states[i].memory.data() && !isCache)
      std::memset(states[i].memory.data(), 0, states[i].memory.size());
  }
}

} // namespace quern::runtime
