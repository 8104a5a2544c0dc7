// Takes: remarks of passes and of code generation. Gives: lines on stderr, the user's line of the spec first.
// Why MLIR's remarks and not diagnostics: they are off unless asked for, and a pass need not know who listens.
#include "tools/spec/Remarks.h"

#include "tools/interpret/InterpretDiagnostics.h"

#include "mlir/IR/Remarks.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/raw_ostream.h"

#include <stdexcept>

namespace {
/// Functions that are derived from one another (`forward`, `forward.last`) give the same remark: it is said once.
class Printer : public mlir::remark::detail::MLIRRemarkStreamerBase {
public:
  void streamOptimizationRemark(const mlir::remark::detail::Remark &remark) override {
    std::string message;
    for (const auto &argument : remark.getArgs())
      message += argument.val;
    std::string kind = ("remark: " + remark.getRemarkName()).str();
    std::string text = quern::tools::describeAt(remark.getLocation(), kind, message);
    if (said.insert(text).second)
      llvm::errs() << text;
  }

private:
  llvm::StringSet<> said;
};
} // namespace

void quern::tools::enableRemarks(mlir::MLIRContext &context) {
  mlir::remark::RemarkCategories all{std::nullopt, ".*", ".*", ".*", ".*"};
  if (mlir::failed(mlir::remark::enableOptimizationRemarks(
          context, std::make_unique<Printer>(), std::make_unique<mlir::remark::RemarkEmittingPolicyAll>(), all)))
    throw std::runtime_error("--remarks: MLIR has its remarks switched on already");
}
