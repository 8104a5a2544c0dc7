// `quern doctor`: the checklist of someone whose spec does not learn, run in the double-precision interpreter on a
// small made-up batch.
#ifndef QUERN_TOOLS_DOCTOR_DOCTOR_H
#define QUERN_TOOLS_DOCTOR_DOCTOR_H

#include "frontend/Frontend.h"
#include "tools/interpret/Training.h"

#include <optional>

namespace quern::tools {

struct Finding {
  enum class Grade { Ok, Note, Wrong } grade;
  std::string check; ///< "masking"
  std::string text;  ///< one line; for Wrong with the line of the spec and the fix behind it
  std::string details;
};
using Findings = std::vector<Finding>;

struct DoctorOptions {
  uint64_t seed = 0;
  int64_t batch = 2, length = 8;
  int64_t steps = 150;                      ///< of memorising the batch
  ir::Interpreter::ParameterLookup weights; ///< empty: the spec's initial values
  ir::Interpreter::Inputs inputs;           ///< those absent are made up, or take their defaults
};

/// A spec with numbers in it: what all checks look at.
class Patient {
public:
  /// `module` stands at `resolved`, with @loss where the spec can be trained; `names` are of it.
  Patient(mlir::ModuleOp module, std::vector<frontend::NamedValue> names, bool ownLoss, const DoctorOptions &options);

  mlir::func::FuncOp get(llvm::StringRef function) const { return module.lookupSymbol<mlir::func::FuncOp>(function); }
  /// @loss, else all functions.
  llvm::SmallVector<mlir::func::FuncOp> functionsToRun() const;
  ir::Interpreter::Inputs inputsOf(mlir::func::FuncOp function) const;
  /// Failure after a diagnostic.
  llvm::FailureOr<std::vector<ir::Array>> run(mlir::func::FuncOp function, const ir::Interpreter::Inputs &inputs,
                                              ir::Interpreter::Observer observer = {}) const;

  mutable mlir::ModuleOp module; ///< a handle; operations of MLIR know no const
  std::vector<frontend::NamedValue> names;
  bool ownLoss; ///< the spec declares its loss; else it is the library's
  const DoctorOptions &options;
  std::map<std::string, std::vector<double>> parameters; ///< by preferred name
  std::vector<std::string> misfits;                      ///< parameters that the weights lack
};

/// Shapes of all named values; the first operation whose result is no number; rows of attention.
Findings checkValues(const Patient &patient);
/// No position sees what it must not: later text, padding.
Findings checkMasking(const Patient &patient);
/// The loss at the start, gradients against differences, parameters without any, memorising one batch.
/// `differentiated`: a copy of the module at that phase.
Findings checkTraining(Patient &patient, mlir::ModuleOp differentiated);

/// "error"-like text with the spec's line below; `fix` on a line of its own.
std::string wrongAt(mlir::Location where, const std::string &message, const std::string &fix);

} // namespace quern::tools
#endif
