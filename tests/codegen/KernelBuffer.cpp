// Takes: a kernel's graph, lengths and tensors. Gives: its buffers as programs would lay them out.
#include "tests/codegen/KernelBuffer.h"

#include "ir/reference/BF16.h"
#include "ir/reference/Codes.h"

#include <functional>
#include <limits>

namespace quern::codegen {

int64_t KernelBuffer::offset(const std::vector<int64_t> &at) const {
  size_t rank = shape.size();
  if (!layout.packed) {
    int64_t sum = 0;
    for (size_t i = 0; i < rank; ++i)
      sum += at[i] * strides[i];
    return sum;
  }
  int64_t rows = shape[rank - 2], depth = shape[rank - 1], tile = layout.tile, matrix = (rows + tile - 1) / tile,
          stacked = 0;
  for (size_t i = 0; i + 2 < rank; ++i)
    stacked = stacked * shape[i] + at[i];
  return ((stacked * matrix + at[rank - 2] / tile) * depth + at[rank - 1]) * tile + at[rank - 2] % tile;
}

static void forEachPosition(const std::vector<int64_t> &shape,
                            const std::function<void(const std::vector<int64_t> &)> &visit) {
  std::vector<int64_t> at(shape.size());
  for (int64_t n : shape)
    if (!n)
      return;
  while (true) {
    visit(at);
    size_t i = shape.size();
    while (i && ++at[i - 1] == shape[i - 1])
      at[--i] = 0;
    if (!i)
      return;
  }
}

std::vector<std::unique_ptr<KernelBuffer>> bindBuffers(const KernelGraph &graph, const Lengths &lengths,
                                                       const std::vector<DenseTensor> &arguments) {
  std::vector<std::unique_ptr<KernelBuffer>> buffers;
  size_t count = graph.argumentCount();
  for (size_t i = 0; i < count + graph.results.size(); ++i) {
    auto buffer = std::make_unique<KernelBuffer>();
    const Node &node = graph.nodes[i < count ? i : graph.results[i - count]];
    buffer->layout = i < count ? graph.argumentLayouts[i] : graph.resultLayouts[i - count];
    buffer->shape = shapeOf(node, lengths);
    buffer->kind = node.kind;
    size_t rank = buffer->shape.size(), size = node.kind == Kind::Real || node.kind == Kind::Int ? 4
                                               : node.kind == Kind::BF16                         ? 2
                                                                                                 : 1;
    int64_t elements = 1;
    if (buffer->layout.packed) {
      int64_t tile = buffer->layout.tile, depth = buffer->shape[rank - 1],
              tiles = (buffer->shape[rank - 2] + tile - 1) / tile;
      if (int bits = bitsOfCode(node.kind))
        depth = support::codedBytes(bits, depth);
      std::vector<int64_t> extents = {tile, depth, tiles};
      for (size_t d = rank - 2; d-- > 0;)
        extents.push_back(buffer->shape[d]);
      for (int64_t extent : extents) {
        buffer->dims.push_back({0, int32_t(extent), int32_t(elements), 0});
        elements *= extent;
      }
    } else {
      buffer->strides.resize(rank);
      int64_t dense = 1;
      for (size_t d = rank; d-- > 0;) {
        buffer->strides[d] = buffer->layout.strides[d].value_or(dense);
        dense = buffer->strides[d] * buffer->shape[d];
        buffer->dims.push_back({0, int32_t(buffer->shape[d]), int32_t(buffer->strides[d]), 0});
        elements += (buffer->shape[d] - 1) * buffer->strides[d];
      }
    }
    buffer->memory.assign(elements * size + 64, 0);
    char *base = buffer->base();
    if (i >= count && node.kind == Kind::Real)
      for (int64_t e = 0; e < elements; ++e)
        reinterpret_cast<float *>(base)[e] = std::numeric_limits<float>::quiet_NaN();
    if (i >= count && node.kind == Kind::BF16)
      std::fill_n(reinterpret_cast<uint16_t *>(base), elements, uint16_t(0x7fc0));
    if (i < count && bitsOfCode(node.kind)) {
      ir::packCodes(bitsOfCode(node.kind), buffer->shape, buffer->layout.tile, arguments[i].data.data(),
                    reinterpret_cast<uint8_t *>(base));
    } else if (i < count) {
      size_t next = 0;
      forEachPosition(buffer->shape, [&](const std::vector<int64_t> &at) {
        int64_t offset = buffer->offset(at);
        double value = arguments[i].data[next++];
        if (node.kind == Kind::Real)
          reinterpret_cast<float *>(base)[offset] = static_cast<float>(value);
        else if (node.kind == Kind::Int)
          reinterpret_cast<int32_t *>(base)[offset] = static_cast<int32_t>(value);
        else if (node.kind == Kind::BF16)
          reinterpret_cast<uint16_t *>(base)[offset] = ir::toBF16(static_cast<float>(value));
        else
          base[offset] = value != 0;
      });
    }
    buffer->halide.host = reinterpret_cast<uint8_t *>(base);
    buffer->halide.dim = buffer->dims.data();
    buffer->halide.dimensions = static_cast<int32_t>(buffer->dims.size());
    buffer->halide.type = node.kind == Kind::Real  ? halide_type_t(halide_type_float, 32)
                          : node.kind == Kind::Int ? halide_type_t(halide_type_int, 32)
                                                   : halide_type_t(halide_type_uint, node.kind == Kind::BF16 ? 16 : 8);
    buffers.push_back(std::move(buffer));
  }
  return buffers;
}

DenseTensor KernelBuffer::tensor() const {
  DenseTensor tensor{shape, {}};
  const char *base = reinterpret_cast<const char *>(halide.host);
  forEachPosition(shape, [&](const std::vector<int64_t> &at) {
    int64_t element = offset(at);
    tensor.data.push_back(kind == Kind::Real   ? reinterpret_cast<const float *>(base)[element]
                          : kind == Kind::Int  ? reinterpret_cast<const int32_t *>(base)[element]
                          : kind == Kind::BF16 ? ir::fromBF16(reinterpret_cast<const uint16_t *>(base)[element])
                                               : base[element]);
  });
  return tensor;
}

DenseTensor randomTensor(const Node &node, const Lengths &lengths, uint64_t seed) {
  DenseTensor tensor{shapeOf(node, lengths), {}};
  int64_t count = 1;
  for (int64_t n : tensor.shape)
    count *= n;
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    uint32_t bits = static_cast<uint32_t>(state >> 33);
    tensor.data.push_back(
        node.kind == Kind::Real || bitsOfCode(node.kind) ? static_cast<float>(bits % 65536 / 32768.0 - 1)
        : node.kind == Kind::BF16 ? ir::fromBF16(ir::toBF16(static_cast<float>(bits % 65536 / 32768.0 - 1)))
        : node.kind == Kind::Int  ? bits % 7
                                  : bits >> 8 & 1);
  }
  if (int bits = bitsOfCode(node.kind)) // numbers that codes stand for: their codes are the same
    for (int64_t depth = tensor.shape.back(), at = 0, length; at < count; at += length) {
      length = std::min(support::codedGroup, depth - at % depth);
      ir::CodedGroup group = ir::codedGroup(bits, {tensor.data.begin() + at, tensor.data.begin() + at + length});
      for (int64_t i = 0; i < length; ++i)
        tensor.data[at + i] = group.number(i);
    }
  return tensor;
}

} // namespace quern::codegen
