// Modules from text or from a spec, run by the reference interpreter with made-up weights: whole, and step by step.
#ifndef QUERN_TESTS_PASSES_SUPPORT_H
#define QUERN_TESTS_PASSES_SUPPORT_H

#include "frontend/Frontend.h"
#include "ir/reference/Interpreter.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Passes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quern::passes::test {

class Program {
public:
  /// A module as text.
  explicit Program(llvm::StringRef text);
  /// A spec, with a config.json and `NAME=VALUE` settings.
  Program(const std::string &specPath, const std::string &configPath, const std::vector<std::string> &settings = {});
  /// A spec as text.
  static std::unique_ptr<Program> fromSpec(const std::string &text, const std::vector<std::string> &settings = {});

  mlir::ModuleOp module() { return *owned; }
  mlir::func::FuncOp function(llvm::StringRef name) { return owned->lookupSymbol<mlir::func::FuncOp>(name); }
  /// Runs passes and the verifier; a test failure if one fails.
  void run(std::vector<std::unique_ptr<mlir::Pass>> passes);
  void roll();
  void lower(); // to the step form, as the compiler does it: with folding before and after
  std::string print();

  using Inputs = ir::Interpreter::Inputs;
  /// One run from nothing.
  std::vector<double> evaluate(llvm::StringRef function, const Inputs &inputs);
  /// The text in pieces of the lengths given; results one after the other along T.
  std::vector<double> evaluateSteps(llvm::StringRef function, const Inputs &inputs, llvm::ArrayRef<int64_t> lengths);

private:
  Program();
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> owned;
};

/// Numbers that look random and depend on the name and the place alone.
std::vector<double> madeUp(llvm::StringRef name, int64_t count, double scale);
/// Made-up values for all inputs that have no default: B rows, T positions, other lengths `length`.
Program::Inputs inputsFor(mlir::func::FuncOp function, int64_t batch, int64_t time, int64_t length, int64_t below);
/// The largest difference, relative to the largest number.
double difference(const std::vector<double> &a, const std::vector<double> &b);

} // namespace quern::passes::test
#endif
