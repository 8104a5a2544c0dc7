// Takes: a spec, a config. Gives: a verified module of the quern dialect in phase `resolved`.
// Why two walks: the first only checks, so that what is built never has to be taken apart again.
#include "frontend/Frontend.h"

#include "frontend/build/MlirBuilder.h"
#include "ir/Attributes.h"
#include "ir/analysis/Functions.h"
#include "ir/analysis/Options.h"

#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace quern::frontend {

/// Names of what is still there: what nothing uses has been erased.
static std::vector<NamedValue> stillThere(ModuleOp module, std::vector<NamedValue> names) {
  llvm::DenseSet<mlir::Value> values;
  module.walk([&](Operation *op) {
    values.insert_range(op->getResults());
    for (Region &region : op->getRegions())
      for (Block &block : region)
        values.insert_range(block.getArguments());
  });
  llvm::erase_if(names, [&](const NamedValue &named) { return !values.contains(named.value); });
  return names;
}

OwningOpRef<ModuleOp> elaborate(MLIRContext &context, const SpecInput &input, Diagnostics &diagnostics,
                                std::vector<NamedValue> *names) {
  if (!checkSpec(input, diagnostics))
    return nullptr;
  context.loadDialect<ir::QuernDialect, func::FuncDialect>();
  MlirBuilder builder(&context, FileLineColLoc::get(&context, input.name, 1, 1));
  Diagnostics again; // says the same as before
  Checked checked = checkSpec(input, again, builder);
  ModuleOp module = builder.getModule();
  eraseUnused(module);
  if (names)
    *names = stillThere(module, std::move(builder.getNamedValues()));

  mlir::Builder attributes(&context);
  SmallVector<StringRef> globs(checked.ignores.begin(), checked.ignores.end());
  module->setAttr(ir::modelAttr, attributes.getStringAttr(checked.model));
  module->setAttr(ir::configAttr, attributes.getStringAttr(checked.configJson));
  module->setAttr(ir::fileConfigAttr, attributes.getStringAttr(checked.fileConfigJson));
  module->setAttr(ir::ignoreAttr, attributes.getStrArrayAttr(globs));
  ir::ProgramOptions asked;
  asked.train = input.train;
  ir::setOptions(module, asked);
  if (checked.nextToken)
    module.lookupSymbol("loss")->setAttr(ir::nextTokenAttr, attributes.getUnitAttr());
  for (auto function : module.getOps<func::FuncOp>())
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (func::FuncOp value = ir::defaultOf(function, i))
        ir::setRole(value, ir::Role::DefaultValue, function.getSymName());
  if (failed(verify(module))) {
    diagnostics.error("Q000", "the compiler built a wrong module; please report this spec", {});
    return nullptr;
  }
  return builder.take();
}

} // namespace quern::frontend
