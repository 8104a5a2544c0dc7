// quern-opt: reads a module in the textual form of MLIR, runs passes named on the command line, prints it. For tests
// and for looking at one pass alone; `quern dump` prints what the compiler really does.
#include "ir/Dialect.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<quern::ir::QuernDialect, mlir::func::FuncDialect, mlir::arith::ArithDialect, mlir::scf::SCFDialect,
                  mlir::LLVM::LLVMDialect>();
  mlir::registerCanonicalizerPass();
  mlir::registerCSEPass();
  mlir::registerPass(quern::passes::createRollRepeatsPass);
  mlir::registerPass(quern::passes::createRaiseSoftmaxPass);
  mlir::registerPass(quern::passes::createWriteOutSoftmaxPass);
  mlir::registerPass(quern::passes::createHoistScansPass);
  mlir::registerPass(quern::passes::createAddAdaptersPass);
  mlir::registerPass([] { return quern::passes::createRaiseAttentionPass(); });
  mlir::registerPass([] { return quern::passes::createRaiseAttentionPass(/*ofLoss=*/true); });
  mlir::registerPass([] { return quern::passes::createDifferentiatePass(); });
  mlir::registerPass(quern::passes::createOptimizersPass);
  mlir::registerPass([] { return quern::passes::createChunkLossPass(); });
  mlir::registerPass([] { return quern::passes::createIncrementalPass(); });
  mlir::registerPass([] { return quern::passes::createSinkGathersPass(); });
  mlir::registerPass([] { return quern::passes::createSinkGathersPass(/*ofLoss=*/true); });
  mlir::registerPass([] { return quern::passes::createAbsorbProjectionsPass(/*everywhere=*/true); });
  mlir::registerPass(quern::passes::createFlattenWeightsPass);
  // The rule that codegen brings depends on the machine, and tests must not.
  auto tiles = [](int64_t rows, int64_t) { return int64_t(rows < 16 ? 0 : 8); };
  mlir::registerPass([=] { return quern::passes::createPackProjectionsPass({tiles}); });
  mlir::registerPass([=] { return quern::passes::createOutlineKernelsPass({tiles}); });
  mlir::registerPass([] { return quern::passes::createNarrowStoragePass(); });
  mlir::registerPass([] { return quern::passes::createNarrowAttentionPass(); });
  mlir::registerPass([] { return quern::passes::createPairCodesPass(); });
  mlir::registerPass(quern::passes::createCheckPositionsPass);
  mlir::registerPass([] { return quern::passes::createPlanMemoryPass(); });
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "Quern's optimizer driver\n", registry));
}
