// Takes: a module to be trained and a budget in bytes. Gives: the planned module whose gradient saves the most that
// fits. Why by trying: the peak of a plan is what slots, stacks and one iteration's values come to, which only
// planning knows; passes take a fraction of a second, and a handful of prices for a saved byte covers everything from
// saving all that pays to saving only what the loop carries.
#include "tools/spec/TrainingMemory.h"

#include "ir/Attributes.h"
#include "ir/Chunk.h"
#include "ir/analysis/Options.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/FormatVariadic.h"

#include <stdexcept>

using namespace quern::tools;
using namespace quern::ir;

int64_t quern::tools::parseBytes(const std::string &option, const std::string &text, double unit) {
  llvm::StringRef rest(text);
  size_t power = rest.empty() ? llvm::StringRef::npos : llvm::StringRef("KMGT").find(rest.back());
  double number = 0;
  if (power != llvm::StringRef::npos)
    rest = rest.drop_back();
  if (rest.getAsDouble(number) || !(number > 0) || number > 1e15)
    throw std::runtime_error(option + " " + text + ": a size such as 512M or 4G is needed");
  for (size_t i = 0; power != llvm::StringRef::npos && i <= power; ++i)
    number *= unit;
  return static_cast<int64_t>(number);
}

/// Bytes of the gradient's arena at the lengths that --memory is for.
static int64_t plannedBytes(mlir::ModuleOp planned, const MemoryOptions &spec) {
  auto function = planned.lookupSymbol<mlir::func::FuncOp>("loss.grad");
  auto batch = function->getAttrOfType<LabelAttr>(batchAttr);
  auto lengthOf = [&](const std::string &symbol) {
    return batch && symbol == batch.getName() ? spec.rows : spec.length;
  };
  int64_t total = 0;
  for (mlir::Attribute slot : function->getAttrOfType<mlir::ArrayAttr>(arenaAttr)) {
    int64_t largest = 0;
    for (mlir::Attribute bytes : mlir::cast<mlir::ArrayAttr>(slot))
      largest = std::max(
          largest,
          Size::parse(mlir::cast<mlir::StringAttr>(bytes).getValue())->evaluate([&](const std::string &symbol) {
            std::optional<Chunk> chunk = chunkOf(symbol);
            return chunk ? std::min(chunk->most, chunk->rows.evaluate(lengthOf)) : lengthOf(symbol);
          }));
    total += largest;
  }
  return total;
}

static std::string readable(int64_t bytes) {
  return llvm::formatv("{0:f1} MiB", static_cast<double>(bytes) / (1 << 20)).str();
}

mlir::LogicalResult quern::tools::runWithin(mlir::OwningOpRef<mlir::ModuleOp> &module, const MemoryOptions &spec,
                                            const passes::PassOptions &options, llvm::StringRef from,
                                            std::string &report) {
  if (spec.length < 1 || spec.rows < 1)
    throw std::runtime_error("--memory needs --length, the tokens of a row (and --batch, if rows are more than one)");
  int64_t budget = parseBytes("--memory", spec.memory), least = 0;
  std::string size = llvm::formatv("{0} x {1} tokens", spec.rows, spec.length).str();
  // By the work that is done again: what pays in any case, more and more within an iteration, then the iterations of
  // segments a second time.
  std::vector<std::pair<double, int64_t>> ways;
  for (double price : {0.0, 1e-11, 3e-11, 1e-10, 3e-10, 1e-9, 1e-8, 1.0})
    ways.emplace_back(price, 0);
  int64_t iterations = 0;
  module->walk([&](RepeatOp loop) { iterations += static_cast<int64_t>(loop.getIterations()); });
  for (int64_t segment : {2, 3, 4, 6, 8, 12, 16, 24, 32})
    if (segment < iterations)
      for (double price : {0.0, 1e-9}) // within a segment, little is saved anyhow
        ways.emplace_back(price, segment);
  for (auto [price, segment] : ways) {
    mlir::OwningOpRef<mlir::ModuleOp> tried = module->clone();
    ProgramOptions asked = optionsOf(*tried);
    asked.savingPrice = price;
    asked.segmentIterations = segment;
    setOptions(*tried, asked);
    if (mlir::failed(passes::runPhases(*tried, options, from)))
      return mlir::failure();
    int64_t bytes = plannedBytes(*tried, spec);
    least = least ? std::min(least, bytes) : bytes;
    if (bytes > budget)
      continue;
    module = std::move(tried);
    report = "a gradient of " + size + " works in " + readable(bytes) + " of the " + readable(budget) + " given" +
             (segment ? ", in segments of " + std::to_string(segment) + " layers" : "");
    return mlir::success();
  }
  throw std::runtime_error("--memory " + spec.memory + ": a gradient of " + size + " needs at least " +
                           readable(least) + ", beside weights and gradients");
}
