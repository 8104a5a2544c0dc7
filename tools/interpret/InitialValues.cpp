// Takes: a function's parameters with their `~`. Gives: numbers for each stored tensor.
// Why Box-Muller by hand: std::normal_distribution gives other numbers in another standard library.
#include "tools/interpret/InitialValues.h"

#include "llvm/Support/xxhash.h"

#include <cmath>
#include <random>

using namespace mlir;
using namespace quern::ir;

double quern::tools::initialScale(ParamOp op) {
  InitAttr init = op.getInitAttr();
  if (!init)
    return 0.02; // the language's default
  return init.getDistribution() == "normal" || init.getDistribution() == "uniform" ? init.getScale().getValueAsDouble()
                                                                                   : 0;
}

std::vector<double> quern::tools::initialNumbers(ParamOp op, llvm::StringRef name, llvm::ArrayRef<int64_t> shape,
                                                 uint64_t seed) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  llvm::StringRef kind = op.getInitAttr() ? op.getInitAttr().getDistribution() : "normal";
  std::vector<double> numbers(count, kind == "ones" ? 1 : 0);
  if (kind == "ones" || kind == "zeros")
    return numbers;
  double scale = quern::tools::initialScale(op);
  std::mt19937_64 generator(seed ^ llvm::xxh3_64bits(name));
  auto uniform = [&] { return (static_cast<double>(generator() >> 11) + 0.5) * 0x1p-53; }; // never 0 or 1
  for (double &number : numbers)
    if (kind == "uniform") {
      number = scale * (2 * uniform() - 1);
    } else {
      double radius = std::sqrt(-2 * std::log(uniform()));
      number = scale * radius * std::cos(2 * M_PI * uniform());
    }
  return numbers;
}

std::map<std::string, std::vector<double>> quern::tools::initialValues(func::FuncOp function, uint64_t seed) {
  std::map<std::string, std::vector<double>> values;
  function.walk([&](ParamOp op) {
    for (unsigned iteration = 0; iteration < op.getIterations(); ++iteration)
      forEachStored(op, iteration, [&](ArrayRef<std::string> names, ArrayRef<int64_t> shape) {
        if (auto [entry, fresh] = values.try_emplace(names.front()); fresh)
          entry->second = initialNumbers(op, names.front(), shape, seed);
      });
  });
  return values;
}
