// Takes: a planned module. Gives: its kernels as functions on the interpreter's arrays.
// Why through a shared library: the objects in it are those that programs are linked from, the cache's own included.
#include "codegen/HostLibrary.h"

#include "codegen/CompileKernels.h"
#include "codegen/KernelBuffer.h"
#include "codegen/ReadKernel.h"
#include "codegen/halide/HalideProducer.h"
#include "codegen/link/Linker.h"

#include <dlfcn.h>

using namespace quern::codegen;
using quern::ir::Array;
using quern::ir::NamedSize;

std::string quern::codegen::loadedRuntime(const CompileOptions &options, const std::string &folder) {
  const std::string path = folder + "/halide_runtime.o";
  keepObject(options, "runtime\n" + halideProducer().revision(), path,
             [&] { emitHalideRuntime(options.target, path); });
  return path;
}

HostLibrary::HostLibrary(mlir::ModuleOp planned, const CompileOptions &options) {
  if (options.target.device.empty() && !machineRuns(options.target)) // asks the system for tile registers, too
    throw std::runtime_error("this machine cannot run kernels for " + options.target.name);
  CompileOptions own = options;
  own.emit = Emit::Executable;
  KernelFiles kernels = compileKernels(planned, own, work.path());
  symbols = kernels.symbols;
  kernels.paths.push_back(loadedRuntime(own, work.path()));
  std::string path = work.path() + "/kernels.so", messages;
  if (!linkShared(kernels.paths, path, messages))
    throw std::runtime_error(messages);
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

/// Integers of an array as the numbers that a buffer takes; reals are so already.
static void fillFrom(const Array &array, KernelBuffer &buffer) {
  if (array.isReal())
    return buffer.fill(array.reals());
  std::vector<double> numbers(array.getCount());
  for (size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = array.number(i);
  buffer.fill(numbers.data());
}

static Array arrayOf(const KernelBuffer &buffer, quern::ir::Kind kind, std::vector<NamedSize> names) {
  std::vector<double> numbers = buffer.read();
  if (kind == quern::ir::Kind::Real)
    return Array(std::move(names), std::move(numbers));
  return Array(kind, std::move(names), std::vector<int64_t>(numbers.begin(), numbers.end()));
}

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
  std::vector<std::unique_ptr<KernelBuffer>> buffers;
  auto add = [&](const Layout &layout, const Node &node) -> KernelBuffer & {
    std::vector<int64_t> shape;
    for (const NamedSize &dim : dimsOf(node))
      shape.push_back(dim.size);
    return *buffers.emplace_back(std::make_unique<KernelBuffer>(layout, node.storage, shape));
  };
  for (int i = 0; i < graph.argumentCount(); ++i)
    fillFrom(inputs[i], add(graph.argumentLayouts[i], graph.nodes[i]));
  for (size_t i = 0; i < graph.results.size(); ++i)
    if (KernelBuffer &result = add(graph.resultLayouts[i], graph.nodes[graph.results[i]]); graph.inPlace)
      fillFrom(inputs[*graph.inPlace], result);
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
  for (size_t i = 0; i < graph.results.size(); ++i) {
    quern::ir::Kind kind = quern::ir::typeOf(kernel.getYield().getValues()[i]).getKind();
    results.push_back(arrayOf(*buffers[graph.argumentCount() + i], kind, dimsOf(graph.nodes[graph.results[i]])));
  }
  return results;
}
