// Takes: a kernel's graph, lengths and tensors. Gives: its buffers, and what its function makes of them.
#include "tests/codegen/support/KernelCall.h"

#include "ir/reference/Codes.h"
#include "support/numbers/SmallFloats.h"

#include <algorithm>
#include <stdexcept>

namespace quern::codegen {

KernelBuffers bindBuffers(const KernelGraph &graph, const Lengths &lengths, const std::vector<DenseTensor> &arguments) {
  KernelBuffers buffers;
  auto add = [&](const Layout &layout, const Node &node) -> KernelBuffer & {
    return *buffers.emplace_back(std::make_unique<KernelBuffer>(layout, node.storage, shapeOf(node, lengths)));
  };
  for (int i = 0; i < graph.argumentCount(); ++i)
    add(graph.argumentLayouts[i], graph.nodes[i]).fill(arguments[i].data.data());
  for (size_t i = 0; i < graph.results.size(); ++i)
    add(graph.resultLayouts[i], graph.nodes[graph.results[i]]).spoil();
  return buffers;
}

DenseTensor tensorOf(const KernelBuffer &buffer) {
  return {buffer.shape(), buffer.read()};
}

int callKernel(void *function, const KernelGraph &graph, const Lengths &lengths, const KernelBuffers &buffers) {
  // All parameters are integers or pointers: a callee with fewer of them ignores the rest.
  intptr_t a[20] = {};
  size_t n = 0;
  if (graph.symbols.size() + buffers.size() > std::size(a))
    throw std::runtime_error("too many parameters for the test's call");
  for (const std::string &symbol : graph.symbols)
    a[n++] = lengths.at(symbol);
  for (auto &buffer : buffers)
    a[n++] = reinterpret_cast<intptr_t>(&buffer->halide);
  using I = intptr_t;
  auto call = reinterpret_cast<int (*)(I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I)>(function);
  return call(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13], a[14], a[15],
              a[16], a[17], a[18], a[19]);
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
        node.storage == Storage::F32 || bitsOfCode(node.storage) ? static_cast<float>(bits % 65536 / 32768.0 - 1)
        : node.storage == Storage::BF16
            ? support::bf16ToFloat(support::floatToBF16(static_cast<float>(bits % 65536 / 32768.0 - 1)))
        : node.storage == Storage::F16
            ? support::halfToFloat(support::floatToHalf(static_cast<float>(bits % 65536 / 32768.0 - 1)))
        : node.storage == Storage::I32 ? bits % 7
        : node.storage == Storage::I8  ? double(bits % 256) - 128
                                       : bits >> 8 & 1);
  }
  if (bitsOfCode(node.storage)) // numbers that codes stand for: their codes are the same
    for (int64_t depth = tensor.shape.back(), at = 0, length; at < count; at += length) {
      length = std::min<int64_t>(support::blockOf(node.storage), depth - at % depth);
      const auto from = tensor.data.begin() + at;
      std::ranges::copy(ir::codedNumbers(node.storage, {from, from + length}), from);
    }
  return tensor;
}

} // namespace quern::codegen
