// A planned module compiled, loaded into this process and run by the runtime that programs have.
#ifndef QUERN_TESTS_SPECS_COMPILEDMODULE_H
#define QUERN_TESTS_SPECS_COMPILEDMODULE_H

#include "codegen/Producers.h"
#include "ir/reference/Array.h"

#include "mlir/IR/BuiltinOps.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace quern::test {

/// Stored tensors by name, as a checkpoint has them.
struct StoredNumbers {
  std::vector<int64_t> shape;
  std::vector<float> numbers;
};
using Checkpoint = std::map<std::string, StoredNumbers>;

class CompiledModule {
public:
  /// Throws std::runtime_error for what does not compile. `cache` is the folder of compiled kernels.
  CompiledModule(mlir::ModuleOp planned, const Checkpoint &weights, const codegen::PlanOptions &plans,
                 const std::string &cache);
  ~CompiledModule();
  CompiledModule(const CompiledModule &) = delete;

  using Inputs = std::map<std::string, ir::Array>;
  /// A function's only result on whole texts, in the order of its type. Throws what the runtime throws.
  std::vector<double> evaluate(const std::string &function, const Inputs &inputs);
  /// The text in pieces of these lengths; each piece's result. Inputs over [B, T] are cut, others given whole.
  std::vector<std::vector<double>> evaluateSteps(const std::string &function, const Inputs &inputs,
                                                 const std::string &time, const std::vector<int64_t> &lengths);
  int kernels() const;

private:
  struct Loaded;
  std::unique_ptr<Loaded> loaded;
};

/// Positions begin .. begin + count - 1 of the second dimension.
ir::Array cutRows(const ir::Array &x, int64_t begin, int64_t count);

} // namespace quern::test
#endif
