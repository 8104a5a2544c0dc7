// Takes: a planned module and weights. Gives: its results as an emitted program computes them: the same kernels, host
// object, packing of weights and session.
// Why in this process: linking and starting an executable for each spec would take longer than everything else;
// Halide's own threads stand in for the runtime's.
#include "tests/specs/CompiledModule.h"

#include "codegen/CompileKernels.h"
#include "codegen/HostLibrary.h"
#include "codegen/LaunchCosts.h"
#include "codegen/host/Description.h"
#include "codegen/host/HostObject.h"
#include "codegen/link/Linker.h"
#include "runtime/engine/Session.h"
#include "runtime/files/Safetensors.h"

#include "llvm/Support/FileSystem.h"

#include <algorithm>
#include <dlfcn.h>
#include <filesystem>

using namespace quern::test;
namespace fs = std::filesystem;
namespace runtime = quern::runtime;
namespace codegen = quern::codegen;

struct CompiledModule::Loaded {
  fs::path folder;
  void *library = nullptr;
  int kernels = 0;
  std::unique_ptr<runtime::Program> program;
  std::unique_ptr<runtime::Weights> weights;
  std::unique_ptr<runtime::Session> session;

  ~Loaded() {
    if (library) {
      // Halide's threads would wake up in code that is gone.
      if (auto shutdown = reinterpret_cast<void (*)()>(dlsym(library, "halide_shutdown_thread_pool")))
        shutdown();
      session.reset();
      dlclose(library);
    }
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  }
};

static void writeCheckpoint(const std::string &path, const Checkpoint &weights) {
  std::vector<runtime::OutputTensor> tensors;
  for (const auto &[name, stored] : weights)
    tensors.push_back(
        {name, runtime::Dtype::F32, stored.shape, reinterpret_cast<const uint8_t *>(stored.numbers.data())});
  runtime::writeSafetensors(path, tensors);
}

CompiledModule::CompiledModule(mlir::ModuleOp planned, const Checkpoint &weights, const codegen::PlanOptions &plans,
                               const std::string &cache)
    : loaded(std::make_unique<Loaded>()) {
  llvm::SmallString<128> name;
  if (llvm::sys::fs::createUniqueDirectory("quern-spec", name))
    throw std::runtime_error("cannot make a temporary folder");
  loaded->folder = std::string(name);

  codegen::CompileOptions options;
  static_cast<codegen::PlanOptions &>(options) = plans;
  options.cache = cache;
  options.jobs = 1;
  options.progress = [](int, int) {};
  codegen::KernelFiles kernels = codegen::compileKernels(planned, options, loaded->folder);
  loaded->kernels = kernels.count;
  codegen::HostProgram host = codegen::buildHostProgram(planned, kernels.scratch, kernels.symbols);
  std::string text = codegen::describe(planned, host, codegen::launchCosts(host), options.target, "random.quern"),
              error;
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module = codegen::translateHost(host, text, context, error);
  std::string object = loaded->folder / "host.o", library = loaded->folder / "program.so";
  if (!module || !codegen::writeHost(*module, codegen::HostFile::Object, object, error))
    throw std::runtime_error(error);
  std::vector<std::string> objects = kernels.paths;
  objects.push_back(codegen::loadedRuntime(options, loaded->folder));
  objects.push_back(object);
  if (!codegen::linkShared(objects, library, error))
    throw std::runtime_error(error);
  loaded->library = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  void *table = loaded->library ? dlsym(loaded->library, "quern_program") : nullptr;
  if (!table)
    throw std::runtime_error(dlerror());

  loaded->program = std::make_unique<runtime::Program>(*static_cast<const quern_program_table *>(table));
  loaded->program->description.ignore.push_back("*"); // parameters that folding made useless
  std::string checkpoint = loaded->folder / "model.safetensors";
  writeCheckpoint(checkpoint, weights);
  loaded->weights = runtime::Weights::load(loaded->program->description, runtime::TensorSource::open(checkpoint));
  loaded->session = std::make_unique<runtime::Session>(*loaded->program, *loaded->weights);
}

CompiledModule::~CompiledModule() = default;

int CompiledModule::kernels() const {
  return loaded->kernels;
}

static runtime::Value valueOf(const quern::ir::Array &array) {
  using quern::ir::Kind;
  std::vector<int64_t> shape;
  for (const quern::ir::NamedSize &dim : array.getDims())
    shape.push_back(dim.size);
  runtime::Value value = runtime::Value::make(quern::support::storageOf(array.getKind()), shape);
  for (int64_t i = 0; i < array.getCount(); ++i) {
    if (array.getKind() == Kind::Real)
      reinterpret_cast<float *>(value.data.data())[i] = static_cast<float>(array.number(i));
    else if (array.getKind() == Kind::Int)
      value.ints()[i] = static_cast<int32_t>(array.ints()[i]);
    else
      value.data[i] = array.ints()[i] != 0;
  }
  return value;
}

static std::vector<double> numbersOf(const runtime::Value &value) {
  std::vector<double> numbers(value.elements());
  for (int64_t i = 0; i < value.elements(); ++i)
    numbers[i] = value.storage == runtime::Storage::F32   ? value.reals()[i]
                 : value.storage == runtime::Storage::I32 ? value.ints()[i]
                                                          : value.data[i];
  return numbers;
}

std::vector<double> CompiledModule::evaluate(const std::string &function, const Inputs &inputs) {
  runtime::Values values;
  for (const auto &[name, array] : inputs)
    values[name] = valueOf(array);
  runtime::Values results = loaded->session->evaluate(loaded->session->description().findFunction(function), values);
  return numbersOf(results.begin()->second);
}

quern::ir::Array quern::test::cutRows(const ir::Array &x, int64_t begin, int64_t count) {
  int64_t rows = x.getDims()[0].size, length = x.getDims()[1].size;
  std::vector<int64_t> numbers;
  for (int64_t b = 0; b < rows; ++b)
    for (int64_t t = begin; t < begin + count; ++t)
      numbers.push_back(x.ints()[b * length + t]);
  return ir::Array(x.getKind(), {x.getDims()[0], {x.getDims()[1].name, count}}, numbers);
}

std::vector<std::vector<double>> CompiledModule::evaluateSteps(const std::string &name, const Inputs &inputs,
                                                               const std::string &time,
                                                               const std::vector<int64_t> &lengths) {
  runtime::Session &session = *loaded->session;
  const runtime::Description &d = session.description();
  int function = d.findFunction(name);
  const runtime::FunctionInfo &info = d.functions[function];
  std::vector<std::vector<double>> pieces;
  runtime::Cache cache;
  int64_t past = 0, whole = 0;
  for (int64_t length : lengths)
    whole += length;
  for (int64_t length : lengths) {
    runtime::Values given;
    for (const auto &[input, array] : inputs)
      given[input] = valueOf(array.find(time) == 1 ? cutRows(array, past, length) : array);
    std::vector<int64_t> sizes = session.inferSizes(function, given);
    sizes[d.time] = length;
    sizes[d.past] = past;
    sizes[d.cap] = whole;
    d.completeSizes(sizes, *std::max_element(lengths.begin(), lengths.end())); // rings have room for the longest piece
    std::vector<const runtime::Value *> arguments;
    for (const runtime::TensorInfo &input : info.inputs) {
      if (!given.count(input.name))
        given[input.name] = session.defaultInput(function, input, sizes);
      arguments.push_back(&given[input.name]);
    }
    std::vector<runtime::Value> outputs = session.makeOutputs(function, sizes);
    session.call(function, sizes, arguments, {&outputs[0]}, cache, past == 0);
    pieces.push_back(numbersOf(outputs[0]));
    past += length;
  }
  return pieces;
}
