// Takes: a planned module. Gives: its kernels as functions on the interpreter's arrays.
// Why through a shared library: the objects in it are those that programs are linked from, the cache's own included.
#include "codegen/HostLibrary.h"

#include "codegen/CompileKernels.h"
#include "codegen/ReadKernel.h"
#include "codegen/link/Link.h"
#include "ir/reference/BF16.h"
#include "ir/reference/Codes.h"

#include <HalideRuntime.h>
#include <dlfcn.h>
#include <limits>

using namespace quern::codegen;
using quern::ir::Array;
using quern::ir::NamedSize;

HostLibrary::HostLibrary(mlir::ModuleOp planned, const CompileOptions &options) {
  CompileOptions own = options;
  own.emit = Emit::Executable;
  KernelFiles kernels = compileKernels(planned, own, work.path());
  symbols = kernels.symbols;
  std::string path = work.path() + "/kernels.so", messages;
  std::vector<std::string> command = {"cc", "-shared", "-o", path};
  command.insert(command.end(), kernels.paths.begin(), kernels.paths.end());
  command.insert(command.end(), {"-lm", "-lpthread", "-ldl"});
  if (runCommand(command, messages))
    throw std::runtime_error("linking the kernels failed: " + messages);
  library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    throw std::runtime_error(dlerror());
}

HostLibrary::~HostLibrary() {
  if (library) {
    // Halide's threads would wake up in code that is gone.
    if (auto shutdown = reinterpret_cast<void (*)()>(dlsym(library, "halide_shutdown_thread_pool")))
      shutdown();
    dlclose(library);
  }
}

namespace {

/// Memory in a kernel's layout, and Halide's description of it.
class Buffer {
public:
  Buffer(const Layout &layout, Kind kind, std::vector<int64_t> lengths)
      : layout(layout), kind(kind), shape(std::move(lengths)) {
    size_t rank = shape.size();
    int64_t elements = 1;
    auto add = [&](int64_t extent, int64_t stride) { dims.push_back({0, int32_t(extent), int32_t(stride), 0}); };
    if (layout.packed) {
      int64_t tile = layout.tile, depth = shape[rank - 1], tiles = (shape[rank - 2] + tile - 1) / tile;
      if (int bits = bitsOfCode(kind))
        depth = quern::support::codedBytes(bits, depth);
      std::vector<int64_t> extents = {tile, depth, tiles};
      for (size_t d = rank - 2; d-- > 0;)
        extents.push_back(shape[d]);
      for (int64_t extent : extents) {
        add(extent, elements);
        elements *= extent;
      }
    } else {
      strides.resize(rank);
      int64_t dense = 1;
      for (size_t d = rank; d-- > 0;) {
        strides[d] = layout.strides[d].value_or(dense);
        dense = strides[d] * shape[d];
        add(shape[d], strides[d]);
        elements += (shape[d] - 1) * strides[d];
      }
    }
    halide.dim = dims.data();
    halide.dimensions = static_cast<int32_t>(dims.size());
    halide.type = kind == Kind::Real  ? halide_type_t(halide_type_float, 32)
                  : kind == Kind::Int ? halide_type_t(halide_type_int, 32)
                                      : halide_type_t(halide_type_uint, kind == Kind::BF16 ? 16 : 8);
    memory.assign(elements * halide.type.bytes() + 64, 0);
    halide.host = base();
  }
  Buffer(const Buffer &) = delete;

  void fill(const Array &array) {
    if (bitsOfCode(kind))
      return quern::ir::packCodes(bitsOfCode(kind), shape, layout.tile, array.reals(),
                                  reinterpret_cast<uint8_t *>(base()));
    forEach([&](int64_t i, int64_t at) {
      if (kind == Kind::Real)
        reinterpret_cast<float *>(base())[at] = static_cast<float>(array.number(i));
      else if (kind == Kind::Int)
        reinterpret_cast<int32_t *>(base())[at] = static_cast<int32_t>(array.number(i));
      else if (kind == Kind::BF16)
        reinterpret_cast<uint16_t *>(base())[at] = quern::ir::toBF16(static_cast<float>(array.number(i)));
      else
        base()[at] = array.number(i) != 0;
    });
  }
  /// What a kernel forgets to write must not look right.
  void spoil() {
    if (kind == Kind::Real)
      forEach([&](int64_t, int64_t at) {
        reinterpret_cast<float *>(base())[at] = std::numeric_limits<float>::quiet_NaN();
      });
    if (kind == Kind::BF16)
      forEach([&](int64_t, int64_t at) { reinterpret_cast<uint16_t *>(base())[at] = 0x7fc0; });
  }
  Array read(std::vector<NamedSize> names) {
    if (kind == Kind::BF16) {
      Array array(quern::ir::Kind::BF16, std::move(names));
      forEach([&](int64_t i, int64_t at) {
        array.writeReals()[i] = quern::ir::fromBF16(reinterpret_cast<uint16_t *>(base())[at]);
      });
      return array;
    }
    std::vector<double> reals(kind == Kind::Real ? quern::ir::countOf(names) : 0);
    std::vector<int64_t> ints(kind == Kind::Real ? 0 : quern::ir::countOf(names));
    forEach([&](int64_t i, int64_t at) {
      if (kind == Kind::Real)
        reals[i] = reinterpret_cast<float *>(base())[at];
      else
        ints[i] = kind == Kind::Int ? reinterpret_cast<int32_t *>(base())[at] : base()[at];
    });
    if (kind == Kind::Real)
      return Array(std::move(names), std::move(reals));
    return Array(kind == Kind::Int ? quern::ir::Kind::Int : quern::ir::Kind::Bool, std::move(names), std::move(ints));
  }

  halide_buffer_t halide{};

private:
  uint8_t *base() { return reinterpret_cast<uint8_t *>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64); }
  int64_t offset(const std::vector<int64_t> &at) const {
    size_t rank = shape.size();
    int64_t sum = 0;
    if (!layout.packed) {
      for (size_t d = 0; d < rank; ++d)
        sum += at[d] * strides[d];
      return sum;
    }
    int64_t tile = layout.tile, depth = shape[rank - 1], tiles = (shape[rank - 2] + tile - 1) / tile;
    for (size_t d = 0; d + 2 < rank; ++d)
      sum = sum * shape[d] + at[d];
    return ((sum * tiles + at[rank - 2] / tile) * depth + at[rank - 1]) * tile + at[rank - 2] % tile;
  }
  /// `visit(number in row-major order, place in memory)`
  template <class Visit> void forEach(Visit visit) {
    int64_t total = 1;
    for (int64_t length : shape)
      total *= length;
    std::vector<int64_t> at(shape.size());
    for (int64_t i = 0; i < total; ++i) {
      visit(i, offset(at));
      for (size_t d = shape.size(); d-- > 0 && ++at[d] == shape[d];)
        at[d] = 0;
    }
  }

  const Layout &layout;
  Kind kind;
  std::vector<int64_t> shape, strides;
  std::vector<uint8_t> memory;
  std::vector<halide_dimension_t> dims;
};

} // namespace

std::vector<Array> HostLibrary::call(ir::KernelOp kernel, llvm::ArrayRef<int64_t> sizes, llvm::ArrayRef<Array> inputs) {
  KernelGraph graph = readKernel(kernel);
  // Each function has a twin that takes pointers to its arguments, however many there are.
  auto symbol = symbols.find(graph.name);
  std::string name = symbol == symbols.end() ? "" : symbol->second + "_argv";
  auto code = reinterpret_cast<int (*)(void **)>(dlsym(library, name.c_str()));
  if (!code)
    throw std::runtime_error("there is no compiled kernel " + graph.name);
  std::map<std::string, int64_t> lengths;
  std::vector<int32_t> numbers(sizes.begin(), sizes.end());
  for (auto [symbol, size] : llvm::zip(graph.symbols, sizes))
    lengths[symbol] = size;
  auto dimsOf = [&](const Node &node) {
    std::vector<NamedSize> dims;
    for (const Dim &dim : node.dims)
      dims.push_back({dim.name, dim.size.evaluate([&](const std::string &symbol) { return lengths.at(symbol); })});
    return dims;
  };
  std::vector<std::unique_ptr<Buffer>> buffers;
  auto add = [&](const Layout &layout, const Node &node) -> Buffer & {
    std::vector<int64_t> shape;
    for (const NamedSize &dim : dimsOf(node))
      shape.push_back(dim.size);
    buffers.push_back(std::make_unique<Buffer>(layout, node.kind, shape));
    return *buffers.back();
  };
  for (int i = 0; i < graph.argumentCount(); ++i)
    add(graph.argumentLayouts[i], graph.nodes[i]).fill(inputs[i]);
  for (size_t i = 0; i < graph.results.size(); ++i)
    if (Buffer &result = add(graph.resultLayouts[i], graph.nodes[graph.results[i]]); graph.inPlace)
      result.fill(inputs[*graph.inPlace]);
    else
      result.spoil();
  std::vector<void *> arguments;
  for (int32_t &number : numbers)
    arguments.push_back(&number);
  for (auto &buffer : buffers)
    arguments.push_back(&buffer->halide);
  if (int status = code(arguments.data()))
    throw std::runtime_error("kernel " + graph.name + " failed with status " + std::to_string(status));
  std::vector<Array> results;
  for (size_t i = 0; i < graph.results.size(); ++i)
    results.push_back(buffers[graph.argumentCount() + i]->read(dimsOf(graph.nodes[graph.results[i]])));
  return results;
}
