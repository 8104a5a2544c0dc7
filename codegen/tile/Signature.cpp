// Takes: a launch. Gives: its parameters and its grid.
#include "codegen/tile/Signature.h"

#include <algorithm>
#include <set>

namespace quern::codegen::tile {

std::vector<Parameter> parametersOf(const Program &program, const Stage &stage) {
  std::set<int> buffers, seen;
  auto need = [&](auto &&self, int value) -> void {
    if (!seen.insert(value).second)
      return;
    const Value &v = program.values[value];
    if (v.form == Value::Form::Load)
      buffers.insert(int(v.integer));
    for (int operand : v.operands)
      self(self, operand);
  };
  auto place = [&](int buffer, const std::vector<int> &at) {
    buffers.insert(buffer);
    for (int position : at)
      need(need, position);
  };
  if (stage.form == Stage::Form::Product)
    place(stage.x.buffer, stage.x.at);
  const size_t boxes = tensorsOf(stage);
  for (const Operand &w : stage.w)
    if (!boxes)
      place(w.buffer, w.at);
  for (size_t i = 0; i < boxes; ++i)
    for (const TensorDim &dim : operandOf(stage, i).tensor.dims)
      if (dim.at >= 0)
        need(need, dim.at);
  if (stage.form == Stage::Form::Dots) {
    need(need, stage.xValue);
    for (const Statistic &one : stage.statistics)
      need(need, one.value);
    if (stage.sums >= 0)
      buffers.insert(stage.sums);
  }
  auto put = [&](const std::vector<Store> &stores) {
    for (const Store &store : stores) {
      place(store.buffer, store.at);
      need(need, store.value);
    }
  };
  put(stage.stores);
  const Attend &attend = stage.attend;
  auto factor = [&](const Factor &one) {
    if (!one.copied)
      need(need, one.value);
    else if (!boxes)
      place(one.copied->buffer, one.copied->at);
  };
  for (const Attend::Dot &dot : attend.dots)
    factor(dot.q), factor(dot.k);
  for (const Attend::Total &total : attend.totals) {
    factor(total.v), put(total.stores);
    if (total.weights >= 0)
      need(need, total.weights), need(need, total.whole);
  }
  put(attend.rowStores);
  for (int value : attend.sinks)
    need(need, value);
  for (int value : {attend.score, attend.whole, attend.from, attend.to})
    if (value >= 0)
      need(need, value);
  std::vector<Parameter> parameters;
  for (int buffer : buffers)
    parameters.push_back({Parameter::Form::Pointer, buffer, 0, {}});
  for (const std::string &symbol : program.symbols)
    parameters.push_back({Parameter::Form::Length, 0, 0, symbol});
  for (int buffer : buffers) {
    const Buffer &b = program.buffers[size_t(buffer)];
    for (size_t d = 0; b.role != Buffer::Role::Scratch && !b.layout.packed && d < b.dims.size(); ++d)
      if (!b.layout.strides[d])
        parameters.push_back({Parameter::Form::Stride, buffer, d, {}});
  }
  for (size_t i = 0; i < boxes; ++i)
    parameters.push_back({Parameter::Form::Tensor, operandOf(stage, i).buffer, i, {}});
  return parameters;
}

size_t tensorsOf(const Stage &stage) {
  return stage.form == Stage::Form::Async ? stage.w.size() + 1 : stage.attend.groups ? 2 : 0;
}

const Operand &operandOf(const Stage &stage, size_t number) {
  if (stage.attend.groups)
    return number ? *stage.attend.totals[0].v.copied : *stage.attend.dots[0].k.copied;
  return number ? stage.w[number - 1] : stage.x;
}

int64_t asyncStart(const Stage &stage, size_t part) {
  return 2 * asyncDepth * (stage.cut.rows + int64_t(part) * stage.cut.columns);
}

int64_t asyncSlotBytes(const Stage &stage) {
  return asyncStart(stage, stage.w.size());
}

SharedTiles sharedTilesOf(const Stage &stage) {
  const Cut &cut = stage.cut;
  SharedTiles tiles;
  tiles.xPitch = 2 * cut.depth + 16;
  tiles.xBytes = tiles.xPitch * cut.rows;
  tiles.stageBytes = tiles.xBytes;
  for (const Operand &w : stage.w) {
    tiles.wStart.push_back(tiles.stageBytes);
    tiles.wPitch.push_back(w.depthInner ? 2 * cut.depth + 16 : 2 * cut.columns + 16);
    tiles.stageBytes += tiles.wPitch.back() * (w.depthInner ? cut.columns : cut.depth);
  }
  return tiles;
}

bool Attend::copies() const {
  return totals[0].v.copied.has_value(); // all of them or none
}

/// Lines of a box stand one after the other, and boxes begin where the widest swizzle does.
GroupSlots groupSlotsOf(const Attend &attend) {
  auto bytes = [&](const Factor &factor) {
    int64_t width = factor.copied->tensor.width, boxes = (factor.padded() + width - 1) / width;
    return (2 * width * attend.keysTogether * boxes + 1023) / 1024 * 1024;
  };
  return {bytes(attend.dots[0].k), bytes(attend.totals[0].v)};
}

SharedAttend sharedAttendOf(const Attend &attend) {
  SharedAttend shared;
  int64_t bytes = 0;
  auto add = [&](std::vector<SharedAttend::Part> &parts, const Factor &factor, int64_t count) {
    int64_t pitch = 2 * factor.padded() + 16;
    parts.push_back({bytes, pitch, pitch * count});
    bytes += pitch * count * factor.pieces;
  };
  for (const Attend::Dot &dot : attend.dots)
    add(shared.q, dot.q, attend.rows);
  shared.ring = bytes, bytes = 0;
  for (const Attend::Dot &dot : attend.dots)
    add(shared.k, dot.k, attend.keysTogether);
  for (const Attend::Total &total : attend.totals)
    add(shared.v, total.v, attend.keysTogether);
  shared.slotBytes = bytes, shared.slots = attend.copies() ? attend.stages : 1;
  return shared;
}

bool meets(const Stage &stage) {
  return stage.form == Stage::Form::Dots && !stage.stores.empty() && stage.blocksThatMeet() > 1;
}

SharedDots sharedDotsOf(const Stage &stage) {
  constexpr int64_t bytesOfX = 32 << 10;
  SharedDots shared;
  shared.depth = bytesOfX / 4 / stage.most;
  if (std::optional<int64_t> depth = stage.depth.constant())
    shared.depth = std::min(shared.depth, (*depth + 63) / 64 * 64);
  int64_t floats = stage.most * shared.depth;
  shared.sums = 4 * floats;
  floats += int64_t(stage.most) * stage.slice * int64_t(stage.w.size()) * (dotThreads / 32);
  shared.statistics = 4 * floats;
  floats += int64_t(stage.most) * int64_t(stage.statistics.size()) * (dotThreads / 32);
  shared.together = 4 * floats;
  floats += int64_t(stage.most) * stage.together;
  shared.ticket = 4 * floats;
  shared.bytes = 4 * (floats + (meets(stage) ? 1 : 0));
  return shared;
}

bool storesPairs(const Stage &stage) {
  return std::all_of(stage.stores.begin(), stage.stores.end(), [](const Store &one) { return one.pairs; });
}

int mapWidth(const Stage &stage) {
  int width = 1;
  int64_t columns = stage.columns.extent().constant().value_or(64);
  if (storesPairs(stage))
    columns /= 2;
  while (width < mapThreads && width < columns)
    width *= 2;
  return width;
}

int blocksTogether(const Stage &stage) {
  if (stage.form == Stage::Form::Map || stage.form == Stage::Form::Reduce)
    return 0;
  if (stage.form == Stage::Form::Dots)
    return stage.most == 1 ? 2 : 1;
  if (stage.form == Stage::Form::Async || stage.form == Stage::Form::Attend)
    return 1;
  const Cut &cut = stage.cut;
  int64_t sums = int64_t(cut.rows) * cut.columns * int64_t(stage.w.size()) / cut.threads();
  return cut.threads() * (sums + 64) * 2 <= 65536 ? 2 : 1;
}

Grid gridOf(const Stage &stage) {
  const Cut &cut = stage.cut;
  switch (stage.form) {
  case Stage::Form::Map: {
    int width = mapWidth(stage);
    return {{stage.columns.extent(), storesPairs(stage) ? 2 * width : width},
            {stage.rows.extent(), mapThreads / width},
            {ir::Size(1)},
            mapThreads,
            0};
  }
  case Stage::Form::Reduce: // a row for each warp
    return {{stage.rows.extent(), mapThreads / 32}, {ir::Size(1)}, {ir::Size(1)}, mapThreads, 0};
  case Stage::Form::Dots: {
    SharedDots shared = sharedDotsOf(stage);
    return {{stage.columns.extent(), stage.slice},
            {ir::Size(stage.split)},
            {stage.matrices.extent()},
            dotThreads,
            shared.bytes};
  }
  case Stage::Form::Async:
    return {{stage.columns.extent(), cut.columns},
            {stage.rows.extent(), cut.rows},
            {stage.matrices.extent()},
            cut.threads() + groupThreads,
            (asyncSlotBytes(stage) + 16) * cut.stages};
  case Stage::Form::Attend: {
    const Attend &attend = stage.attend;
    if (attend.groups)
      return {{stage.rows.extent(), attend.rows},
              {ir::Size(1)},
              {stage.matrices.extent()},
              attend.threads(),
              (groupSlotsOf(attend).bytes() + 32) * attend.stages + 8 * attend.groups};
    SharedAttend shared = sharedAttendOf(attend);
    return {{stage.rows.extent(), attend.rows},
            {ir::Size(std::max(1, attend.split))},
            {stage.matrices.extent()},
            attend.threads(),
            shared.ring + shared.slotBytes * shared.slots};
  }
  default:
    return {{stage.columns.extent(), cut.columns},
            {stage.rows.extent(), cut.rows},
            {stage.matrices.extent()},
            cut.threads(),
            sharedTilesOf(stage).stageBytes * cut.stages};
  }
}

} // namespace quern::codegen::tile
