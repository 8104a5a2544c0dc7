#include "runtime/gguf/GgufReaders.h"

#include <algorithm>
#include <cmath>
#include <mutex>

namespace quern::runtime {

namespace {

bool hasFactors(const std::vector<GgufTensor> &parts) {
  return std::any_of(parts.begin(), parts.end(), [](const GgufTensor &part) { return !part.factors.empty(); });
}

} // namespace

RowOrder::Place RowOrder::operator()(int64_t row) const {
  switch (kind) {
  case AsStored:
    return {0, first + row};
  case Pairs: {
    const int64_t each = rows[0] / heads, head = row / each, within = row % each;
    return {0, first + head * each + within % (each / 2) * 2 + within / (each / 2)};
  }
  case KeyHeads: {
    const int64_t queries = heads / keyHeads, width = rows[0] / (heads + 2 * keyHeads), group = (queries + 2) * width,
                  head = row / group, which = row % group / width, within = row % width;
    if (which < queries)
      return {0, (head * queries + which) * width + within};
    return {0, (heads + (which - queries) * keyHeads + head) * width + within};
  }
  case Halves: {
    const int64_t each = rows[0] / matrices, matrix = row / (2 * each), within = row % (2 * each);
    return {int(within / each), matrix * each + within % each};
  }
  case Alternating:
    return {int(row % 2), row / 2};
  case Linear: {
    const int64_t rest = rows[1] / keyHeads, key = (rows[0] / keyHeads - rest) / 2, group = 2 * key + 2 * rest,
                  head = row / group, within = row % group;
    if (within < key)
      return {0, head * key + within};
    if (within < 2 * key)
      return {0, (keyHeads + head) * key + within - key};
    if (within < 2 * key + rest)
      return {0, 2 * keyHeads * key + head * rest + within - 2 * key};
    return {1, head * rest + within - 2 * key - rest};
  }
  case Tiled: {
    const int64_t each = rows[0] / matrices, within = row % each - first;
    if (within < 0)
      return {0, row};
    const int64_t width = (each - first) / heads, head = within / width, share = heads / keyHeads;
    return {0, row - within + (head % share * keyHeads + head / share) * width + within % width};
  }
  }
  return {0, first + row};
}

void RowReader::read(int64_t first, int64_t count, float *to) const {
  for (int64_t done = 0; done < count;) {
    const int64_t column = (first + done) % columns, length = std::min(columns - column, count - done);
    const auto [part, row] = order((first + done) / columns);
    parts[size_t(part)].read(row * columns + column, length, to + done);
    done += length;
  }
  if (change == Change::PlusOne)
    std::for_each_n(to, count, [](float &x) { x -= 1; });
  if (change == Change::MinusExp)
    std::for_each_n(to, count, [](float &x) { x = std::log(-x); });
}

const uint8_t *RowReader::block(std::string_view format, int64_t first, int64_t stride, int64_t count,
                                uint8_t *room) const {
  const BlockFormat *stored = parts[0].format;
  if (!stored || change != Change::None || stride != 1 || hasFactors(parts) || columns % stored->elements)
    return nullptr;
  const auto [part, row] = order(first / columns);
  const int64_t from = row * columns + first % columns, each = stored->elements;
  const uint8_t *block = parts[size_t(part)].data + from / each * stored->bytes;
  if (stored->name == format)
    return count != each || from % each ? nullptr : block;
  const int bits = format == "Q8_0" ? 8 : format == "Q4_0" ? 4 : 0;
  if (!bits || !fitsGroups(*stored, bits) || count != 32 || from % 32)
    return nullptr;
  return regroup(*stored, block, int(from % each), bits, room) ? room : nullptr;
}

const char *RowReader::heldBy() const {
  const BlockFormat *format = parts[0].format;
  if (hasFactors(parts) || (format && columns % format->elements)) // parts of blocks move
    return "F32";
  if (!format || change != Change::None || !fitsGroups(*format, 8))
    return nullptr;
  const int bits = fitsGroups(*format, 4) ? 4 : 8;
  if (format->scales == ScaleKind::Exponent) { // of which f16 lacks some
    uint8_t room[34];
    for (const GgufTensor &part : parts)
      for (uint64_t at = 0; at < part.bytes; at += uint64_t(format->bytes))
        if (!regroup(*format, part.data + at, 0, bits, room))
          return nullptr;
  }
  return bits == 4 ? "Q4_0" : "Q8_0";
}

void TransposedReader::read(int64_t first, int64_t count, float *to) const {
  for (int64_t at = first; at < first + count; ++at)
    lying->read(placeOf(at), 1, to++);
}

namespace {

/// Heads that threads are at, decoded: their rows are wanted one by one, and stored as columns.
class DecodedHeads {
public:
  using Numbers = std::shared_ptr<const std::vector<float>>;

  template <typename Make> Numbers find(uint64_t reader, int64_t head, Make make) {
    {
      std::lock_guard hold(mutex);
      for (const Entry &entry : entries)
        if (entry.reader == reader && entry.head == head)
          return entry.numbers;
    }
    Numbers numbers = make();
    std::lock_guard hold(mutex);
    if (entries.size() < most)
      entries.emplace_back();
    entries[next++ % most] = {reader, head, numbers};
    return numbers;
  }

private:
  static constexpr size_t most = 64; // threads at a time, more or less
  struct Entry {
    uint64_t reader;
    int64_t head;
    Numbers numbers;
  };
  std::mutex mutex;
  std::vector<Entry> entries;
  size_t next = 0;
};

DecodedHeads decodedHeads;

} // namespace

std::atomic<uint64_t> LatentReader::made = 0;

void LatentReader::read(int64_t first, int64_t count, float *to) const {
  const int64_t rank = keys.shape[1], ofKeys = keys.shape[2], ofValues = values.shape[1], rows = ofKeys + ofValues;
  for (int64_t done = 0; done < count;) {
    const int64_t row = (first + done) / rank, column = (first + done) % rank, head = row / rows, within = row % rows,
                  length = std::min(rank - column, count - done);
    if (within >= ofKeys) {
      values.read((head * ofValues + within - ofKeys) * rank + column, length, to + done);
    } else {
      const DecodedHeads::Numbers decoded = decodedHeads.find(number, head, [&] {
        auto numbers = std::make_shared<std::vector<float>>(size_t(rank * ofKeys));
        keys.read(head * rank * ofKeys, rank * ofKeys, numbers->data());
        return numbers;
      });
      for (int64_t i = 0; i < length; ++i)
        to[done + i] = (*decoded)[size_t((column + i) * ofKeys + within)];
    }
    done += length;
  }
}

} // namespace quern::runtime
