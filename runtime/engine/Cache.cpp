// Takes: lengths. Gives: caches with room for them, kept while a text grows, and moved when texts join or leave a batch.
//
// Where a text's position p is follows from its row's shift alone: in slot shift + p, of a ring of W positions in slot
// (shift + p) mod W. What is stored there does not depend on the shift. So a row is moved by copying.
#include "runtime/engine/Cache.h"

#include "runtime/Error.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace quern::runtime {

namespace {

bool usesState(const StateInfo &state, int number) {
  return state.functions.empty() || std::count(state.functions.begin(), state.functions.end(), number);
}

/// Numbers of dimensions, -1 where a state has none; and of a ring the positions that it keeps.
struct Form {
  int rows = -1, positions = -1;
  int64_t window = 0;
};

Form formOf(const Description &d, const StateInfo &state) {
  Form form;
  for (size_t k = 0; k < state.dims.size(); ++k) {
    int symbol = state.dims[k].asSymbol();
    if (symbol >= 0 && symbol == d.batch)
      form.rows = int(k);
    if (!d.isCapacity(state.dims[k]))
      continue;
    form.positions = int(k);
    for (const WindowInfo &window : d.windows)
      if (symbol >= 0 && window.cap == symbol)
        form.window = window.size;
  }
  return form;
}

/// Copies a tensor into one that is longer along some dimensions.
void copyInto(Device &device, const uint8_t *from, const std::vector<int64_t> &small, uint8_t *to,
              const std::vector<int64_t> &large, size_t element) {
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
    device.copy(to + size_t(place) * toRow, from + size_t(row) * fromRow, std::min(fromRow, toRow));
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

void Cache::ensure(const Description &d, int number, const std::vector<int64_t> &sizes) {
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
    size_t element = elementBytes(info.storage);
    Buffer memory(size_t(std::max<int64_t>(1, count(shape))) * element, *device);
    if (poisoned() && formOf(d, info).positions >= 0 && support::kindOf(info.storage) == Kind::Real)
      device->fill(memory.data(), 0xff, memory.size()); // NaN, all of them
    if (onlyGrown && state.memory.data())
      copyInto(*device, state.memory.data(), state.shape, memory.data(), shape, element);
    state.memory = std::move(memory);
    state.shape = std::move(shape);
  }
}

void Cache::clearSums(const Description &d) {
  for (size_t i = 0; i < states.size(); ++i)
    if (states[i].memory.data() && formOf(d, d.states[i]).positions < 0)
      device->fill(states[i].memory.data(), 0, states[i].memory.size());
}

Cache Cache::gather(Device &device, const Description &d, int number, const std::vector<int64_t> &sizes,
                    const std::vector<CacheRow> &rows, int64_t end) {
  Cache result(device);
  result.ensure(d, number, sizes);
  for (size_t i = 0; i < d.states.size(); ++i) {
    if (!usesState(d.states[i], number))
      continue;
    Form form = formOf(d, d.states[i]);
    const std::vector<int64_t> &shape = result.states[i].shape;
    size_t last = size_t(std::max(form.rows, form.positions)) + 1;
    size_t inner = elementBytes(d.states[i].storage); // bytes of one position, or of a row without positions
    for (size_t k = last; k < shape.size(); ++k)
      inner *= size_t(shape[k]);
    int64_t iterations = form.rows > 0 ? shape[0] : 1;
    auto begin = [&](const State &state, int64_t iteration, int64_t row) {
      int64_t at = iteration * state.shape[size_t(form.rows)] + row;
      return state.memory.data() + size_t(form.positions < 0 ? at : at * state.shape[size_t(form.positions)]) * inner;
    };
    for (int64_t iteration = 0; iteration < iterations; ++iteration)
      for (size_t r = 0; r < rows.size(); ++r) {
        const CacheRow &row = rows[r];
        const uint8_t *from = begin(row.from->states[i], iteration, row.row);
        uint8_t *to = begin(result.states[i], iteration, int64_t(r));
        int64_t shift = end - row.length;
        if (form.positions < 0) {
          device.copy(to, from, inner);
          continue;
        }
        // Slots before the text have no weight, but what has none must still be a number: 0 times NaN is none.
        device.fill(to, 0, size_t(form.window ? std::min(end, form.window) : shift) * inner);
        if (!form.window)
          device.copy(to + size_t(shift) * inner, from + size_t(row.shift) * inner, size_t(row.length) * inner);
        else
          for (int64_t p = std::max<int64_t>(0, row.length - form.window); p < row.length; ++p)
            device.copy(to + size_t((shift + p) % form.window) * inner,
                        from + size_t((row.shift + p) % form.window) * inner, inner);
      }
  }
  return result;
}

void Cache::copyRow(const Description &d, int64_t from, int64_t to, int64_t length) {
  for (size_t i = 0; i < states.size(); ++i) {
    const State &state = states[i];
    if (!state.memory.data())
      continue;
    Form form = formOf(d, d.states[i]);
    int64_t iterations = form.rows > 0 ? state.shape[0] : 1;
    size_t row = elementBytes(d.states[i].storage);
    for (size_t k = size_t(form.rows) + 1; k < state.shape.size(); ++k)
      row *= size_t(state.shape[k]);
    int64_t room = form.positions < 0 ? 1 : state.shape[size_t(form.positions)];
    size_t used = form.positions < 0 ? row : row / size_t(room) * size_t(std::min(length, room));
    for (int64_t iteration = 0; iteration < iterations; ++iteration) {
      uint8_t *begin = state.memory.data() + size_t(iteration * state.shape[size_t(form.rows)]) * row;
      device->copy(begin + size_t(to) * row, begin + size_t(from) * row, used);
    }
  }
}

Cache Cache::clone(const Description &d, int64_t length) const {
  Cache result(*device);
  result.kept.reset(kept.size());
  if (kept.size())
    device->copy(result.kept.data(), kept.data(), kept.size());
  result.states.resize(states.size());
  for (size_t i = 0; i < states.size(); ++i) {
    const State &state = states[i];
    result.states[i].shape = state.shape;
    if (!state.memory.data())
      continue;
    Buffer memory(state.memory.size(), *device);
    int positions = formOf(d, d.states[i]).positions;
    int64_t parts = 1;
    size_t run = elementBytes(d.states[i].storage); // bytes of all positions of a part
    for (int k = 0; k < int(state.shape.size()); ++k) {
      if (k < positions)
        parts *= state.shape[size_t(k)];
      else
        run *= size_t(state.shape[size_t(k)]);
    }
    int64_t room = positions < 0 ? 1 : state.shape[size_t(positions)];
    size_t copied = positions < 0 ? run : run / size_t(room) * size_t(std::min(length, room));
    for (int64_t part = 0; part < parts; ++part)
      device->copy(memory.data() + size_t(part) * run, state.memory.data() + size_t(part) * run, copied);
    result.states[i].memory = std::move(memory);
  }
  return result;
}

uint64_t Cache::plannedBytes(const Description &d, int number, const std::vector<int64_t> &sizes) {
  uint64_t bytes = 0;
  for (const StateInfo &state : d.states) {
    if (!usesState(state, number))
      continue;
    int64_t elements = 1;
    for (const SizeExpr &dim : state.dims)
      elements = checkedMultiply(elements, dim.evaluate(sizes));
    bytes += uint64_t(elements) * elementBytes(state.storage);
  }
  return bytes;
}

bool Cache::movesRows(const Description &d, int number) {
  for (const StateInfo &state : d.states) {
    Form form = formOf(d, state);
    if (usesState(state, number) &&
        (form.rows < 0 || form.rows > 1 || (form.positions >= 0 && form.positions != form.rows + 1)))
      return false;
  }
  return true;
}

bool Cache::sameStates(const Description &d, int one, int other) {
  return std::all_of(d.states.begin(), d.states.end(),
                     [&](const StateInfo &state) { return usesState(state, one) == usesState(state, other); });
}

bool Cache::rewinds(const Description &d, int number) {
  return std::all_of(d.states.begin(), d.states.end(), [&](const StateInfo &state) {
    Form form = formOf(d, state);
    return !usesState(state, number) || (form.positions >= 0 && !form.window);
  });
}

std::vector<void *> Cache::pointers() const {
  std::vector<void *> result;
  for (const State &state : states)
    result.push_back(state.memory.data());
  return result;
}

uint64_t Cache::touched() const {
  uint64_t bytes = kept.touched();
  for (const State &state : states)
    bytes += state.memory.touched();
  return bytes;
}

} // namespace quern::runtime
