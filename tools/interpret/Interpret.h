// `quern interpret`: a module's functions evaluated by the reference interpreter on files of tensors.
#ifndef QUERN_TOOLS_INTERPRET_INTERPRET_H
#define QUERN_TOOLS_INTERPRET_INTERPRET_H

#include "ir/reference/Interpreter.h"

#include "mlir/IR/BuiltinOps.h"

#include "llvm/ADT/DenseMap.h"

#include <functional>
#include <map>
#include <optional>
#include <string>

namespace quern::tools {

struct InterpretOptions {
  std::string function; // empty: forward, or encode and then decode
  std::string weights;  // a safetensors file, a folder, or a sharded model's index; empty: a model without parameters
  std::string adapter;  // the same for parameters that are adapters, under PEFT's names; without it they are zeros
  std::string input;    // a safetensors file with the functions' inputs by name; empty: none
  std::string output;   // receives the results by name: F64, I64 or BOOL; empty: nothing is written
  bool print = false;   // the results as text on stdout
  /// With `print`: values that are printed, too, when they are computed, under these names.
  llvm::DenseMap<mlir::Value, std::vector<std::string>> named;
  std::optional<uint64_t> seed;           // without weights: the parameters' initial values
  std::map<std::string, int64_t> symbols; // run-time lengths that follow from no input (`past`)
  /// Called after each operation with its operands and its results; the interpreter knows the iteration and all lengths.
  std::function<void(mlir::Operation *, llvm::ArrayRef<ir::Array> operands, llvm::ArrayRef<ir::Array> results,
                     const ir::Interpreter &)>
      observer;
  bool quiet = false; // errors go to the context's handlers as they are, those of files are thrown
  std::map<std::string, ir::Array> *results = nullptr; // receives the results by name
};

/// Everything a `PROGRAM eval` does, in double precision. `decode` takes `memory` from `encode` unless the input has
/// it. All parameters that the checkpoint lacks or has in another shape are reported at once, at their lines in the spec;
/// stored tensors that no parameter names are passed over (a program refuses them when it loads).
/// Returns the exit status: 0, or 1 after messages on stderr.
int interpretMain(mlir::ModuleOp module, const InterpretOptions &options);

} // namespace quern::tools
#endif
