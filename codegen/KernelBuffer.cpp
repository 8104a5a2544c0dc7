// Takes: a layout and lengths. Gives: memory, Halide's description of it, and numbers in and out of it.
#include "codegen/KernelBuffer.h"

#include "ir/reference/Codes.h"
#include "support/Processors.h"
#include "support/numbers/SmallFloats.h"

#include <atomic>
#include <limits>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

namespace quern::codegen {

GuardedMemory::GuardedMemory(size_t bytes) : length(bytes) {
  static std::atomic<unsigned> made = 0;
  const size_t page = size_t(sysconf(_SC_PAGESIZE)), whole = (bytes + page - 1) / page * page;
  mapped = whole + 2 * page;
  mapping = mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  uint8_t *inside = static_cast<uint8_t *>(mapping) + page;
  if (mapping == MAP_FAILED || mprotect(inside, whole, PROT_READ | PROT_WRITE))
    throw std::bad_alloc();
  support::preferHugePages(inside, whole);
  const bool atEnd = made++ * 0x9e3779b9u >> 31; // neither every other nor the same for a kernel's buffers
  first = inside + (atEnd ? (whole - bytes) / 64 * 64 : 0);
}

GuardedMemory::~GuardedMemory() {
  munmap(mapping, mapped);
}

KernelBuffer::KernelBuffer(const Layout &layout, Storage storage, std::vector<int64_t> shape)
    : layout(layout), storage(storage), lengths(std::move(shape)) {
  halide.type = storedType(storage, layout);
  int64_t elements = 1;
  auto add = [&](int64_t extent, int64_t stride) { dims.push_back({0, int32_t(extent), int32_t(stride), 0}); };
  if (layout.packed) {
    for (int64_t extent : packedExtents(storage, layout, lengths)) {
      add(extent, elements);
      elements *= extent;
    }
  } else {
    strides.resize(lengths.size());
    int64_t dense = 1;
    for (size_t d = lengths.size(); d-- > 0;) {
      strides[d] = layout.strides[d].value_or(dense);
      dense = strides[d] * lengths[d];
      add(lengths[d], strides[d]);
      elements += (lengths[d] - 1) * strides[d];
    }
  }
  halide.dim = dims.data();
  halide.dimensions = static_cast<int32_t>(dims.size());
  memory = std::make_unique<GuardedMemory>(elements * halide.type.bytes());
  halide.host = base();
}

int64_t KernelBuffer::placeOf(const std::vector<int64_t> &at) const {
  size_t rank = lengths.size();
  int64_t sum = 0;
  if (!layout.packed) {
    for (size_t d = 0; d < rank; ++d)
      sum += at[d] * strides[d];
    return sum;
  }
  int64_t tile = layout.tile, depth = lengths[rank - 1], tiles = (lengths[rank - 2] + tile - 1) / tile;
  const int64_t inWord = layout.beside;
  for (size_t d = 0; d + 2 < rank; ++d)
    sum = sum * lengths[d] + at[d];
  const int64_t word =
      ((sum * tiles + at[rank - 2] / tile) * (depth / inWord) + at[rank - 1] / inWord) * tile + at[rank - 2] % tile;
  return word * inWord + at[rank - 1] % inWord;
}

void KernelBuffer::forEach(const std::function<void(int64_t, int64_t)> &visit) const {
  int64_t total = 1;
  for (int64_t length : lengths)
    total *= length;
  std::vector<int64_t> at(lengths.size());
  for (int64_t i = 0; i < total; ++i) {
    visit(i, placeOf(at));
    for (size_t d = lengths.size(); d-- > 0 && ++at[d] == lengths[d];)
      at[d] = 0;
  }
}

void KernelBuffer::fill(const double *numbers) {
  uint8_t *to = base();
  if (bitsOfCode(storage))
    return ir::packCodes(storage, lengths, layout.tile, numbers, to);
  forEach([&](int64_t i, int64_t at) {
    if (storage == Storage::F32)
      reinterpret_cast<float *>(to)[at] = static_cast<float>(numbers[i]);
    else if (storage == Storage::I32)
      reinterpret_cast<int32_t *>(to)[at] = static_cast<int32_t>(numbers[i]);
    else if (storage == Storage::BF16)
      reinterpret_cast<uint16_t *>(to)[at] = support::floatToBF16(static_cast<float>(numbers[i]));
    else if (storage == Storage::F16)
      reinterpret_cast<uint16_t *>(to)[at] = support::floatToHalf(static_cast<float>(numbers[i]));
    else if (storage == Storage::I8)
      reinterpret_cast<int8_t *>(to)[at] = static_cast<int8_t>(numbers[i]);
    else
      to[at] = numbers[i] != 0;
  });
}

void KernelBuffer::spoil() {
  if (storage == Storage::F32)
    std::fill_n(reinterpret_cast<float *>(base()), bytes() / sizeof(float), std::numeric_limits<float>::quiet_NaN());
  if (isNarrow(storage)) // a NaN of both
    std::fill_n(reinterpret_cast<uint16_t *>(base()), bytes() / sizeof(uint16_t), uint16_t(0x7fc0));
}

std::vector<double> KernelBuffer::read() const {
  std::vector<double> numbers;
  const uint8_t *from = halide.host;
  forEach([&](int64_t, int64_t at) {
    numbers.push_back(storage == Storage::F32    ? reinterpret_cast<const float *>(from)[at]
                      : storage == Storage::I32  ? reinterpret_cast<const int32_t *>(from)[at]
                      : storage == Storage::BF16 ? support::bf16ToFloat(reinterpret_cast<const uint16_t *>(from)[at])
                      : storage == Storage::I8   ? reinterpret_cast<const int8_t *>(from)[at]
                      : storage == Storage::F16  ? support::halfToFloat(reinterpret_cast<const uint16_t *>(from)[at])
                                                 : from[at]);
  });
  return numbers;
}

} // namespace quern::codegen
