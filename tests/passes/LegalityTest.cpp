// What may occur after each phase: every operation has its phases, and what a phase does not name is an error.
#include "passes/Phases.h"
#include "tests/passes/Support.h"

#include "mlir/IR/Diagnostics.h"

using namespace mlir;
using namespace quern::passes;
using namespace quern::passes::test;
using testing::HasSubstr;

static const Phase &phaseNamed(StringRef name) {
  return *llvm::find_if(phases(), [&](const Phase &phase) { return phase.name == name; });
}

/// The errors of a module in a phase, one line each.
static std::string errorsIn(StringRef phase, const char *text) {
  Program program(text);
  std::string errors;
  ScopedDiagnosticHandler handler(program.module().getContext(),
                                  [&](Diagnostic &diagnostic) { errors += diagnostic.str() + "\n"; });
  const Phase &found = phaseNamed(phase);
  bool legal = succeeded(checkLegal(program.module(), found.legal, found.name));
  EXPECT_EQ(legal, errors.empty());
  return errors;
}

TEST(Legality, EveryOperationMayOccurSomewhereAndNothingElseIsNamed) {
  Program program("");
  std::set<std::string> named, known;
  for (const Phase &phase : phases())
    for (const std::vector<std::string> *list :
         {&phase.legal.inModule, &phase.legal.inFunctions, &phase.legal.inKernels})
      named.insert(list->begin(), list->end());
  for (RegisteredOperationName name : program.module().getContext()->getRegisteredOperations())
    if (name.getDialectNamespace() == "quern")
      known.insert(name.stripDialect().str());
  EXPECT_EQ(named, known);
}

TEST(Legality, FunctionsOfKernelsComputeNothing) {
  const char *text = R"(
    func.func @f(%x: !quern.tensor<real[T]>) -> !quern.tensor<real[T]> {
      %0 = quern.exp %x : (!quern.tensor<real[T]>) -> !quern.tensor<real[T]>
      return %0 : !quern.tensor<real[T]>
    })";
  EXPECT_EQ(errorsIn("rolled", text), "");
  EXPECT_EQ(errorsIn("incremental", text), "");
  EXPECT_EQ(errorsIn("kernels", text), "must not occur in a function after phase 'kernels'\n");
  EXPECT_EQ(errorsIn("planned", text), "must not occur in a function after phase 'planned'\n");
}

TEST(Legality, KernelsAndMemoryComeLate) {
  const char *kernel = R"(
    quern.kernel @k(%a: !quern.tensor<real[d0 = s0]> #quern.layout<"strided", ["1"]>) -> (#quern.layout<"strided", ["1"]>) {
      %0 = quern.neg %a : (!quern.tensor<real[d0 = s0]>) -> !quern.tensor<real[d0 = s0]>
      quern.yield %0 : !quern.tensor<real[d0 = s0]>
    })";
  EXPECT_EQ(errorsIn("kernels", kernel), "");
  EXPECT_THAT(errorsIn("rolled", kernel), HasSubstr("must not occur in a module after phase 'rolled'"));
  const char *memory = R"(
    quern.state @s of "f" : !quern.tensor<real[B]>
    func.func @f() -> !quern.tensor<real[B]> {
      %0 = quern.recall @s : !quern.tensor<real[B]>
      return %0 : !quern.tensor<real[B]>
    })";
  EXPECT_EQ(errorsIn("incremental", memory), "");
  EXPECT_THAT(errorsIn("differentiated", memory),
              HasSubstr("must not occur in a function after phase 'differentiated'"));
}

TEST(Legality, ComparisonsOfLengthsStay) {
  const char *text = R"(
    func.func @f.epoch() -> !quern.tensor<bool[]> attributes {quern.role = #quern.role<epoch, @f>} {
      %0 = quern.size "T" : !quern.tensor<int[]>
      %1 = quern.compare gt %0, %0 : (!quern.tensor<int[]>, !quern.tensor<int[]>) -> !quern.tensor<bool[]>
      return %1 : !quern.tensor<bool[]>
    })";
  EXPECT_EQ(errorsIn("planned", text), "");
}
