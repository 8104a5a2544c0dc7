// A crash planted in the compiler from outside: loaded before its libraries (LD_PRELOAD), this stands in for MLIR's
// pass `cse` and for Halide's code generation. Nothing in the shipped product knows of it. QUERN_TEST_PLANT says what
// happens: "OP HOW". In the pass, if the module holds an operation OP; with OP "kernel", when a kernel is compiled.
// HOW: segv, abort, throw, stack (endless recursion), fail (the pass fails).
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Transforms/Passes.h"

#include <Halide.h>

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace {

std::string plan(bool operation) {
  const char *text = std::getenv("QUERN_TEST_PLANT");
  std::string words = text ? text : "";
  size_t blank = words.find(' ');
  return operation ? words.substr(0, blank) : blank == std::string::npos ? "" : words.substr(blank + 1);
}

#pragma GCC diagnostic ignored "-Winfinite-recursion" // that is what it is for
int deeper(volatile int *from) {
  volatile int here[1000];
  here[0] = *from + 1;
  return deeper(here) + here[0];
}

/// True if whoever calls is to fail by itself.
bool strike() {
  std::string how = plan(false);
  if (how == "segv") {
    int *volatile nowhere = nullptr;
    *nowhere = 1;
  }
  if (how == "abort")
    std::abort();
  if (how == "throw")
    throw std::out_of_range("planted");
  volatile int start = 0;
  if (how == "stack")
    return deeper(&start) == 0;
  return how == "fail";
}

class PlantedPass : public mlir::PassWrapper<PlantedPass, mlir::OperationPass<mlir::ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PlantedPass)
  void runOnOperation() final {
    bool there = false;
    getOperation().walk([&](mlir::Operation *op) { there |= op->getName().getStringRef() == plan(true); });
    if (there && strike())
      signalPassFailure();
  }
};

} // namespace

std::unique_ptr<mlir::Pass> mlir::createCSEPass() {
  return std::make_unique<PlantedPass>();
}

Halide::Module Halide::Pipeline::compile_to_module(const std::vector<Argument> &, const std::string &, const Target &,
                                                   LinkageType) {
  if (plan(true) == "kernel")
    strike();
  throw std::runtime_error("no kernel is compiled under QUERN_TEST_PLANT");
}
