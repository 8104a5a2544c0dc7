// Takes: a planned module. Gives: an executable: kernels by Halide (in parallel, or from the cache), the host program
// by LLVM, linked with the runtime.
#include "codegen/Compiler.h"

#include "codegen/CompileKernels.h"
#include "codegen/LaunchCosts.h"
#include "codegen/host/Description.h"
#include "codegen/host/HostObject.h"
#include "codegen/link/EmbedFiles.h"
#include "codegen/link/Link.h"
#include "ir/Attributes.h"
#include "ir/analysis/Options.h"
#include "support/Files.h"
#include "support/OutputFile.h"
#include "support/TemporaryFolder.h"

#include <chrono>
#include <filesystem>

using namespace quern::codegen;
namespace fs = std::filesystem;

namespace {
class Clock {
public:
  /// Seconds since the last call.
  double lap() {
    auto now = std::chrono::steady_clock::now();
    std::chrono::duration<double> seconds = now - last;
    last = now;
    return seconds.count();
  }

private:
  std::chrono::steady_clock::time_point last = std::chrono::steady_clock::now();
};
} // namespace

static void makeFolder(const fs::path &path) {
  std::error_code code;
  fs::create_directories(path, code);
  if (code)
    throw std::runtime_error("cannot make the folder " + path.string() + ": " + code.message());
}

std::string quern::codegen::describeProgram(mlir::ModuleOp planned, const CompileOptions &options) {
  KernelSymbols symbols;
  for (auto kernel : planned.getOps<ir::KernelOp>())
    symbols[kernel.getSymName().str()] = kernel.getSymName().str();
  HostProgram program = buildHostProgram(planned, {}, symbols, !options.target.device.empty());
  return describe(planned, program, launchCosts(program), options.target, options.spec);
}

CompileReport quern::codegen::compileModule(mlir::ModuleOp planned, const CompileOptions &options) {
  CompileReport report;
  Clock clock;
  support::TemporaryFolder work;
  bool linking = options.emit == Emit::Executable || options.emit == Emit::Library;
  fs::path folder = linking ? work.path() : options.output;
  makeFolder(folder);

  KernelFiles kernels = compileKernels(planned, options, folder.string());
  report.kernels = kernels.count;
  report.cached = kernels.cached;
  report.refusedThreads = kernels.refusedThreads;
  report.kernelSeconds = clock.lap();

  HostProgram program = buildHostProgram(planned, kernels.scratch, kernels.symbols, !options.target.device.empty());
  std::string description = describe(planned, program, launchCosts(program), options.target, options.spec), error;
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> host = translateHost(program, description, context, error);
  if (!host)
    throw std::runtime_error(error);
  std::string file = (folder / "host.o").string();
  if (options.emit == Emit::Llvm) {
    std::string text;
    llvm::raw_string_ostream(text) << *host;
    support::writeFile((folder / "host.ll").string(), text);
  } else if (options.emit == Emit::Assembly) {
    if (!writeHost(*host, HostFile::Assembly, (folder / "host.s").string(), error))
      throw std::runtime_error(error);
  } else if (!writeHost(*host, HostFile::Object, file, error)) {
    throw std::runtime_error(error);
  }
  report.hostSeconds = clock.lap();
  if (linking) {
    std::vector<std::string> objects = {file};
    objects.insert(objects.end(), kernels.paths.begin(), kernels.paths.end());
    std::string linked = (folder / "linked").string();
    LinkedParts parts{{}, options.target.device};
    if (ir::optionsOf(planned).train)
      parts.libraries.push_back("training");
    if (options.symbols)
      for (const auto &[kernel, name] : kernelNames(planned))
        parts.names[kernels.symbols.at(kernel)] = name;
    bool done = options.emit == Emit::Library ? linkLibrary(objects, linked, error)
                                              : linkProgram(objects, linked, parts, error);
    if (!done)
      throw std::runtime_error(error);
    support::OutputFile out(options.output, options.emit == Emit::Executable);
    out.copy(linked);
    bool hasFolder = out.isFile();
    if (!options.embed.empty() && ir::optionsOf(planned).train) {
      embedCheckpoint(out, options.embed); // training starts from the checkpoint's own tensors
    } else if (!options.embed.empty()) {
      packCheckpoint(linked, options.embed, (folder / "packed").string());
      embedCheckpoint(out, (folder / "packed").string());
    }
    out.commit();
    if (options.emit == Emit::Library && hasFolder) {
      support::OutputFile header(support::folderOf(options.output) + "/quern.h");
      header.copy((folder / "quern.h").string());
      header.commit();
    }
    report.linkSeconds = clock.lap();
  }
  return report;
}
