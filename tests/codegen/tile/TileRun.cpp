// Takes: a tile program, lengths and tensors. Gives: its results, by one of its two lowerings.
#include "tests/codegen/tile/TileRun.h"

#include "codegen/tile/HostRun.h"
#include "codegen/tile/Signature.h"
#include "codegen/tile/ptx/PtxModule.h"
#include "tests/codegen/support/KernelCall.h"
#include "tests/gpu/ptx/Tensor.h"

#include <cstring>
#include <set>
#include <stdexcept>

namespace quern::codegen::tile {

namespace {
int64_t valueOf(const ir::Size &size, const Lengths &lengths) {
  return size.evaluate([&](const std::string &name) { return lengths.at(name); });
}

std::vector<int64_t> stridesOf(const KernelBuffer &buffer) {
  std::vector<int64_t> strides;
  for (int d = buffer.halide.dimensions; d-- > 0;)
    strides.push_back(buffer.halide.dim[d].stride);
  return strides;
}

/// Blocks that exist; all else is nobody's.
class Blocks : public ptx::Memory {
public:
  void add(void *begin, size_t bytes) { ranges[reinterpret_cast<uint64_t>(begin)] = bytes; }
  uint8_t *at(uint64_t address, size_t bytes) override {
    auto next = ranges.upper_bound(address);
    if (next == ranges.begin() || address + bytes > std::prev(next)->first + std::prev(next)->second)
      throw std::runtime_error("an address that is in no buffer");
    if (bytes >= 4)
      asked.erase(reinterpret_cast<uint8_t *>(address));
    return reinterpret_cast<uint8_t *>(address);
  }
  void askedFor(const uint8_t *place) override { asked.insert(place); }
  /// What was fetched ahead must begin 16 bytes, or of floats of one byte a word, that somebody reads then.
  void checkAsked() {
    if (!asked.empty())
      throw std::runtime_error("memory is fetched ahead that nobody reads");
  }

private:
  std::map<uint64_t, size_t> ranges;
  std::set<const uint8_t *> asked;
};

std::vector<DenseTensor> resultsOf(const KernelGraph &graph, const KernelBuffers &buffers) {
  std::vector<DenseTensor> results;
  for (size_t i = size_t(graph.argumentCount()); i < buffers.size(); ++i)
    results.push_back(tensorOf(*buffers[i]));
  return results;
}
} // namespace

/// In elements, as launches count them.
static int64_t strideOf(const Buffer &buffer, const KernelBuffer *given, size_t dim, const Lengths &lengths) {
  if (given)
    return stridesOf(*given)[dim];
  int64_t stride = 1;
  for (size_t d = buffer.dims.size(); d-- > dim + 1;) {
    int64_t extent = valueOf(buffer.dims[d].size, lengths);
    stride *= d + 1 == buffer.dims.size() ? (extent + 7) / 8 * 8 : extent;
  }
  return stride;
}

static ptx::TensorMap mapOf(const Program &program, const Operand &operand, const KernelBuffer *given, uint64_t address,
                            const Lengths &lengths) {
  const Tensor &tensor = operand.tensor;
  std::vector<uint64_t> extents, strides;
  std::vector<uint32_t> box;
  for (const TensorDim &dim : tensor.dims) {
    extents.push_back(uint64_t(valueOf(dim.extent, lengths)));
    int64_t stride = dim.stride ? valueOf(*dim.stride, lengths)
                                : strideOf(program.buffers[size_t(operand.buffer)], given, dim.of, lengths);
    if (box.size())
      strides.push_back(uint64_t(2 * stride));
    box.push_back(uint32_t(dim.box));
  }
  ptx::TensorMap map;
  if (!ptx::encode(map, uint32_t(extents.size()), address, extents.data(), strides.data(), box.data(),
                   tensor.width == 64   ? 3
                   : tensor.width == 32 ? 2
                                        : 1))
    throw std::runtime_error("a tensor that a driver refuses");
  return map;
}

std::vector<DenseTensor> runLoops(const Program &program, const KernelGraph &graph, const Lengths &lengths,
                                  const std::vector<DenseTensor> &arguments, size_t variant) {
  KernelBuffers buffers = bindBuffers(graph, lengths, arguments);
  std::vector<HostBuffer> given;
  for (auto &buffer : buffers)
    given.push_back({buffer->base(), stridesOf(*buffer)});
  runOnHost(program, lengths, given, variant);
  return resultsOf(graph, buffers);
}

std::vector<DenseTensor> runPtx(const Program &program, const ptx::Module &module, const KernelGraph &graph,
                                const Lengths &lengths, const std::vector<DenseTensor> &arguments, size_t variant,
                                uint64_t seed) {
  KernelBuffers buffers = bindBuffers(graph, lengths, arguments);
  Blocks memory;
  std::vector<uint64_t> addresses;
  for (auto &buffer : buffers) {
    memory.add(buffer->base(), buffer->bytes());
    addresses.push_back(reinterpret_cast<uint64_t>(buffer->base()));
  }
  std::vector<std::vector<__uint128_t>> scratch; // aligned
  for (size_t i = buffers.size(); i < program.buffers.size(); ++i) {
    const Buffer &buffer = program.buffers[i];
    int64_t bytes = support::bytesOf(buffer.storage);
    for (size_t d = 0; d < buffer.dims.size(); ++d) {
      int64_t extent = valueOf(buffer.dims[d].size, lengths);
      bytes *= d + 1 == buffer.dims.size() ? (extent + 7) / 8 * 8 : extent;
    }
    scratch.emplace_back(size_t(bytes) / 16 + 1, ~__uint128_t(0));
    memory.add(scratch.back().data(), size_t(bytes));
    addresses.push_back(reinterpret_cast<uint64_t>(scratch.back().data()));
  }
  const std::vector<Stage> &stages = program.variants[variant].stages;
  for (size_t s = 0; s < stages.size(); ++s) {
    const ptx::Function &function = *module.functions.at(kernelName(program, variant, s));
    Grid grid = gridOf(stages[s]);
    auto pieces = [&](const Pieces &of) { return uint32_t((valueOf(of.extent, lengths) + of.by - 1) / of.by); };
    ptx::Launch launch{module,
                       function,
                       {pieces(grid.x), pieces(grid.y), pieces(grid.z)},
                       {uint32_t(grid.threads), 1, 1},
                       {},
                       size_t(grid.sharedBytes),
                       seed + s};
    launch.parameters.resize(function.parameterBytes);
    std::vector<Parameter> parameters = parametersOf(program, stages[s]);
    for (size_t i = 0; i < parameters.size(); ++i) {
      const Parameter &parameter = parameters[i];
      size_t buffer = size_t(parameter.buffer);
      if (parameter.form == Parameter::Form::Tensor) {
        ptx::TensorMap map =
            mapOf(program, operandOf(stages[s], parameter.dim),
                  buffer < buffers.size() ? buffers[buffer].get() : nullptr, addresses[buffer], lengths);
        std::memcpy(&launch.parameters[function.parameters[i].offset], &map, sizeof map);
        continue;
      }
      uint64_t value = parameter.form == Parameter::Form::Pointer ? addresses[buffer]
                       : parameter.form == Parameter::Form::Length
                           ? uint64_t(lengths.at(parameter.symbol))
                           : uint64_t(stridesOf(*buffers[buffer])[parameter.dim]);
      std::memcpy(&launch.parameters[function.parameters[i].offset], &value, function.parameters[i].bytes);
    }
    ptx::run(launch, memory);
    memory.checkAsked();
  }
  return resultsOf(graph, buffers);
}

} // namespace quern::codegen::tile
