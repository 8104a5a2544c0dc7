// Takes: a module's kernels and their plans. Gives: objects, most of them from the cache when a spec is compiled again.
// Why by content: a kernel's text, its plan, the target, its threads and the producer's revision decide the machine code, and nothing
// else does; equal keys are equal objects in whatever model they occur.
#include "codegen/CompileKernels.h"

#include "codegen/Parallel.h"
#include "codegen/PlanKernels.h"
#include "codegen/ReadKernel.h"
#include "codegen/kernel/KernelCache.h"
#include "ir/Dialect.h"
#include "support/Files.h"
#include "support/TemporaryFolder.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <list>
#include <mutex>
#include <numeric>
#include <set>
#include <unistd.h>

namespace fs = std::filesystem;

namespace quern::codegen {

namespace {
struct Kernel {
  KernelGraph graph;
  KernelPlan plan;
  const KernelProducer *producer;
};
} // namespace

static Kernel kernelOf(KernelGraph graph, KernelPlan plan, const CompileOptions &options) {
  const KernelProducer &producer = producerOf(plan, graph, options);
  return {std::move(graph), std::move(plan), &producer};
}

static std::vector<Kernel> kernelsOf(mlir::ModuleOp planned, const CompileOptions &options) {
  std::vector<Kernel> kernels;
  for (ir::KernelOp op : planned.getOps<ir::KernelOp>()) {
    KernelGraph graph = readKernel(op);
    KernelPlan plan = planOf(op, graph, options);
    kernels.push_back(kernelOf(std::move(graph), std::move(plan), options));
  }
  return kernels;
}

static std::string keyOf(const Kernel &kernel, const CompileOptions &options, const std::string &form) {
  return KernelCache::keyOf(form + "\n" + kernel.graph.text + "\n" + kernel.plan.text() + "\n" +
                            options.target.resolved + "\n" + std::to_string(options.target.machine.threads) + "\n" +
                            kernel.producer->revision());
}

static fs::path cacheFolder(const CompileOptions &options) {
  return fs::path(options.cache.empty() ? support::defaultCacheFolder() : options.cache) / "kernels";
}

namespace {
/// LLVM, which Halide has within it, ends the process where it cannot write an object: then this says which folder that is in.
class WritesTo {
public:
  explicit WritesTo(fs::path folder) {
    static std::once_flag once;
    std::call_once(once, [] { std::atexit(sayWhere); });
    std::lock_guard lock(mutex);
    place = places.insert(places.end(), std::move(folder));
  }
  ~WritesTo() {
    std::lock_guard lock(mutex);
    places.erase(place);
  }
  WritesTo(const WritesTo &) = delete;
  WritesTo &operator=(const WritesTo &) = delete;

private:
  static inline std::mutex mutex;
  static inline std::list<fs::path> places; ///< in which kernels are being written
  std::list<fs::path>::iterator place;

  static void sayWhere() {
    std::lock_guard lock(mutex);
    if (places.empty())
      return;
    std::fprintf(stderr,
                 "quern: LLVM gave up while kernels were written to %s; if the disk is full, or files may not grow "
                 "(ulimit -f), TMPDIR names another place\n",
                 places.front().c_str());
    _exit(1); // other threads go on, so nothing may be destroyed
  }
};
} // namespace

/// What a producer writes to a file of that name, which must not be empty.
static std::string contentOf(const fs::path &path) {
  std::string content = support::readFile(path.string());
  if (content.empty())
    throw std::runtime_error("cannot write to " + path.parent_path().string() + "; is the disk full?");
  return content;
}

/// An object that is no kernel's, where `make` would write it.
static void keepObject(const KernelCache &cache, const std::string &key, const fs::path &path,
                       const std::function<void()> &make) {
  KernelCache::Parts parts = cache.get(key, [&]() -> KernelCache::Parts {
    make();
    return {contentOf(path)};
  });
  writeWhole(path, parts.at(0));
}

static KernelFiles writeTexts(const std::vector<Kernel> &kernels, const CompileOptions &options,
                              const fs::path &folder) {
  bool llvm = options.emit == Emit::Llvm;
  WritesTo writes(folder);
  KernelFiles files;
  files.count = static_cast<int>(kernels.size());
  for (const Kernel &kernel : kernels) {
    files.symbols[kernel.graph.name] = "quern_kernel_" + kernel.graph.name;
    files.paths.push_back((folder / (kernel.graph.name + (llvm ? ".ll" : ".s"))).string());
  }
  files.refusedThreads = inParallel(kernels.size(), options.jobs, [&](size_t i) {
    const Kernel &kernel = kernels[i];
    kernel.producer->make(kernel.graph, kernel.plan, options.target, files.symbols.at(kernel.graph.name),
                          llvm ? EmitForm::Llvm : EmitForm::Assembly, files.paths[i]);
  });
  return files;
}

/// Attention and its gradient compile as long as four others, which would wait for them at the end.
static std::vector<size_t> longestFirst(const std::vector<Kernel> &kernels) {
  std::vector<size_t> order(kernels.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_partition(order.begin(), order.end(), [&](size_t i) {
    const std::vector<PlanPart> &parts = kernels[i].plan.parts;
    return std::any_of(parts.begin(), parts.end(),
                       [](const PlanPart &part) { return part.family == "attention" || part.family == "gradient"; });
  });
  return order;
}

/// Of plain data: its threads meet no MLIR, whose context has no locks (tools/spec/SpecOptions.cpp).
static KernelFiles compileAll(const std::vector<Kernel> &kernels, const CompileOptions &options,
                              const std::string &folder) {
  if (options.emit == Emit::Llvm || options.emit == Emit::Assembly)
    return writeTexts(kernels, options, folder);

  const CpuTarget &target = options.target;
  KernelCache cache(cacheFolder(options));
  KernelFiles files;
  files.count = static_cast<int>(kernels.size());
  std::vector<const KernelProducer *> producers; // those that share an object
  std::vector<fs::path> objects;                 // of kernels, then what producers share
  std::set<std::string> symbols;
  for (const Kernel &kernel : kernels) {
    std::string symbol = "quern_kernel_" + keyOf(kernel, options, "object");
    files.symbols[kernel.graph.name] = symbol;
    bool isNew = symbols.insert(symbol).second; // the same kernel twice, in an edited module
    objects.push_back(isNew ? fs::path(folder) / (kernel.graph.name + ".o") : fs::path());
    if (kernel.producer->shares() && std::find(producers.begin(), producers.end(), kernel.producer) == producers.end())
      producers.push_back(kernel.producer);
  }
  std::mutex mutex;
  int done = 0;
  std::vector<fs::path> shared(producers.size());
  WritesTo writes(folder);
  const std::vector<size_t> order = longestFirst(kernels);
  files.refusedThreads = inParallel(producers.size() + kernels.size(), options.jobs, [&](size_t job) {
    if (job < producers.size()) {
      const KernelProducer &producer = *producers[job];
      fs::path path = fs::path(folder) / (producer.name() + "_shared.o");
      std::string key = KernelCache::keyOf("shared\n" + target.resolved + "\n" + producer.name() + producer.revision());
      keepObject(cache, key, path, [&] { producer.makeShared(target, path.string()); });
      shared[job] = path;
      return;
    }
    const size_t i = order[job - producers.size()];
    const Kernel &kernel = kernels[i];
    const std::string &symbol = files.symbols.at(kernel.graph.name);
    bool cached = true;
    KernelCache::Parts parts = cache.get(
        symbol.substr(symbol.rfind('_') + 1),
        [&]() -> KernelCache::Parts {
          fs::path path = fs::path(folder) / (kernel.graph.name + ".o");
          Scratch scratch =
              kernel.producer->make(kernel.graph, kernel.plan, target, symbol, EmitForm::Object, path.string());
          return {contentOf(path), scratchText(scratch)};
        },
        &cached);
    if (!objects[i].empty())
      writeWhole(objects[i], parts.at(0));
    std::lock_guard lock(mutex);
    files.scratch[kernel.graph.name] = parseScratch(parts.at(1));
    files.cached += cached;
    if (options.progress)
      options.progress(++done, files.count);
  });
  objects.insert(objects.end(), shared.begin(), shared.end());
  for (const fs::path &path : objects)
    if (!path.empty())
      files.paths.push_back(path.string());
  return files;
}

KernelFiles compileKernels(mlir::ModuleOp planned, const CompileOptions &options, const std::string &folder) {
  return compileAll(kernelsOf(planned, options), options, folder);
}

void keepObject(const CompileOptions &options, const std::string &of, const std::string &path,
                const std::function<void()> &make) {
  KernelCache cache(cacheFolder(options));
  WritesTo writes(fs::path(path).parent_path());
  keepObject(cache, KernelCache::keyOf(of + "\n" + options.target.resolved), path, make);
}

KernelFiles compileKernel(mlir::ModuleOp planned, const std::string &name, const KernelPlan &plan,
                          const CompileOptions &options, const std::string &folder) {
  static std::mutex one;
  KernelGraph graph;
  {
    std::lock_guard lock(one);
    graph = readKernel(kernelNamed(planned, name));
  }
  return compileAll({kernelOf(std::move(graph), plan, options)}, options, folder);
}

std::vector<KernelText> describeKernels(mlir::ModuleOp planned, const CompileOptions &options) {
  std::vector<Kernel> kernels = kernelsOf(planned, options);
  KernelCache cache(cacheFolder(options));
  support::TemporaryFolder work;
  WritesTo writes(work.path());
  std::vector<KernelText> texts(kernels.size());
  std::mutex mutex;
  int done = 0;
  inParallel(kernels.size(), options.jobs, [&](size_t i) {
    const Kernel &kernel = kernels[i];
    KernelCache::Parts parts = cache.get(keyOf(kernel, options, "text and scratch"), [&]() -> KernelCache::Parts {
      fs::path path = fs::path(work.path()) / (std::to_string(i) + ".s");
      Scratch scratch = kernel.producer->make(kernel.graph, kernel.plan, options.target, "quern_kernel",
                                              EmitForm::Assembly, path.string());
      return {kernel.producer->loops(kernel.graph, kernel.plan, options.target), contentOf(path), scratchText(scratch)};
    });
    texts[i] = {kernel.graph.name, parts.at(0), parts.at(1), parseScratch(parts.at(2))};
    std::lock_guard lock(mutex);
    if (options.progress)
      options.progress(++done, static_cast<int>(kernels.size()));
  });
  return texts;
}

} // namespace quern::codegen
