// Takes: a module's kernels. Gives: objects, most of them from the cache when a spec is compiled again.
// Why by content: text, schedules, target, Halide's version and the sources that make kernels decide the machine code,
// and nothing else does; equal keys are equal objects in whatever model they occur.
#include "codegen/CompileKernels.h"

#include "codegen/halide/EmitKernel.h"
#include "codegen/halide/LoopNest.h"
#include "codegen/ReadKernel.h"
#include "ir/Dialect.h"

#include "llvm/Support/xxhash.h"

#include <atomic>
#include <exception>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>
#include <unistd.h>

namespace fs = std::filesystem;

namespace quern::codegen {

static const char revision[] =
#include "codegen/Revision.inc"
    ;

static std::string hashOf(const std::string &text) {
  llvm::XXH128_hash_t hash =
      llvm::xxh3_128bits(llvm::ArrayRef(reinterpret_cast<const uint8_t *>(text.data()), text.size()));
  char digits[33];
  std::snprintf(digits, sizeof digits, "%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  return digits;
}

/// Makes `path` under another name first, so that what is there is always whole. True if it was there.
static bool once(const fs::path &path, const std::function<void(const std::string &)> &make) {
  if (fs::exists(path))
    return true;
  static std::atomic<unsigned> count;
  fs::path temporary = path;
  temporary.replace_filename("." + std::to_string(getpid()) + "." + std::to_string(count++) + "." +
                             path.filename().string());
  try {
    make(temporary.string());
    if (!fs::exists(temporary) || !fs::file_size(temporary))
      throw std::runtime_error("cannot write to " + path.parent_path().string() + "; is the disk full?");
    fs::rename(temporary, path);
  } catch (...) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    throw;
  }
  return false;
}

static fs::path makeCache(const CompileOptions &options) {
  fs::path folder = fs::path(options.cache.empty() ? defaultCache() : options.cache) / "kernels";
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw std::runtime_error("cannot make the folder " + folder.string() + ": " + error.message() +
                             "; name another with --cache-dir");
  return folder;
}

/// Runs job 0, 1 ... count - 1 in threads; the first failure is thrown when all have stopped.
static void inParallel(size_t count, int threads, const std::function<void(size_t)> &job) {
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  auto work = [&] {
    for (size_t i = next++; i < count; i = next++) {
      try {
        job(i);
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!failure)
          failure = std::current_exception();
        next = count;
      }
    }
  };
  std::vector<std::thread> pool;
  for (int i = 1; i < threads && i < static_cast<int>(count); ++i)
    pool.emplace_back(work);
  work();
  for (std::thread &thread : pool)
    thread.join();
  if (failure)
    std::rethrow_exception(failure);
}

static std::string contentOf(const fs::path &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

KernelFiles compileKernels(mlir::ModuleOp planned, const CompileOptions &options, const std::string &folder) {
  std::vector<KernelGraph> graphs;
  for (ir::KernelOp kernel : planned.getOps<ir::KernelOp>())
    graphs.push_back(readKernel(kernel));
  KernelFiles files;
  files.count = static_cast<int>(graphs.size());
  files.paths.resize(graphs.size());
  auto symbolOf = [](const KernelGraph &graph) { return "quern_kernel_" + graph.name; };

  if (options.emit == Emit::Llvm || options.emit == Emit::Assembly) {
    bool llvm = options.emit == Emit::Llvm;
    inParallel(graphs.size(), options.jobs, [&](size_t i) {
      files.paths[i] = (fs::path(folder) / (graphs[i].name + (llvm ? ".ll" : ".s"))).string();
      emitKernel(graphs[i], symbolOf(graphs[i]), options.schedules, options.target,
                 llvm ? EmitForm::Llvm : EmitForm::Assembly, files.paths[i]);
    });
    return files;
  }

  fs::path cache = makeCache(options);
  std::string environment = options.schedules.text() + options.target.halide + halideVersion() + revision;
  std::mutex mutex;
  int done = 0;
  // Job 0 is the runtime, which takes longest. Halide compiles separate pipelines in threads of one process.
  fs::path runtime = cache / ("runtime_" + hashOf(options.target.halide + halideVersion()) + ".o");
  inParallel(graphs.size() + 1, options.jobs, [&](size_t job) {
    if (!job) {
      once(runtime, [&](const std::string &path) { emitHalideRuntime(options.target, path); });
      return;
    }
    const KernelGraph &graph = graphs[job - 1];
    fs::path path = cache / (hashOf(symbolOf(graph) + "\n" + graph.text + "\n" + environment) + ".o");
    fs::path scratch = path;
    scratch.replace_extension(".scratch");
    if (!fs::exists(scratch))
      fs::remove(path);
    bool cached = once(path, [&](const std::string &temporary) {
      Scratch found =
          emitKernel(graph, symbolOf(graph), options.schedules, options.target, EmitForm::Object, temporary);
      once(scratch, [&](const std::string &beside) { std::ofstream(beside) << scratchText(found); });
    });
    std::lock_guard lock(mutex);
    files.scratch[graph.name] = parseScratch(contentOf(scratch));
    files.paths[job - 1] = path.string();
    files.cached += cached;
    if (options.progress)
      options.progress(++done, files.count);
  });
  files.paths.push_back(runtime.string());
  if (options.emit == Emit::Object)
    for (size_t i = 0; i < files.paths.size(); ++i) {
      fs::path copy = fs::path(folder) / (i < graphs.size() ? graphs[i].name + ".o" : "halide_runtime.o");
      fs::copy_file(files.paths[i], copy, fs::copy_options::overwrite_existing);
      files.paths[i] = copy.string();
    }
  return files;
}

std::vector<KernelText> describeKernels(mlir::ModuleOp planned, const CompileOptions &options) {
  std::vector<KernelGraph> graphs;
  for (ir::KernelOp kernel : planned.getOps<ir::KernelOp>())
    graphs.push_back(readKernel(kernel));
  fs::path cache = makeCache(options);
  std::string environment = options.schedules.text() + options.target.halide + halideVersion() + revision;
  std::vector<KernelText> texts(graphs.size());
  std::mutex mutex;
  int done = 0;
  inParallel(graphs.size(), options.jobs, [&](size_t i) {
    const KernelGraph &graph = graphs[i];
    fs::path stem = cache / hashOf(graph.text + "\n" + environment);
    fs::path loops = stem, assembly = stem;
    loops += ".loops", assembly += ".s";
    once(loops,
         [&](const std::string &path) { std::ofstream(path) << loopNest(graph, options.schedules, options.target); });
    once(assembly, [&](const std::string &path) {
      emitKernel(graph, "quern_kernel", options.schedules, options.target, EmitForm::Assembly, path);
    });
    texts[i] = {graph.name, contentOf(loops), contentOf(assembly)};
    std::lock_guard lock(mutex);
    if (options.progress)
      options.progress(++done, static_cast<int>(graphs.size()));
  });
  return texts;
}

} // namespace quern::codegen
