// Takes: a function. Gives: the names of its arguments and results, and the functions that belong to it.
// Why here: the interpreter, passes, the host program and tools all ask.
#include "ir/analysis/Functions.h"

using namespace mlir;
using namespace quern::ir;

StringRef quern::ir::argumentName(func::FuncOp function, unsigned index) {
  auto name = function.getArgAttrOfType<StringAttr>(index, "quern.name");
  return name ? name.getValue() : StringRef();
}

StringRef quern::ir::resultName(func::FuncOp function, unsigned index) {
  auto name = function.getResultAttrOfType<StringAttr>(index, "quern.name");
  return name ? name.getValue() : StringRef();
}

func::FuncOp quern::ir::defaultOf(func::FuncOp function, unsigned index) {
  if (auto symbol = function.getArgAttrOfType<FlatSymbolRefAttr>(index, "quern.default"))
    return SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(function, symbol);
  std::string name = (function.getName() + ".default." + argumentName(function, index)).str();
  return function->getParentOfType<ModuleOp>().lookupSymbol<func::FuncOp>(name);
}

bool quern::ir::isEpoch(func::FuncOp function) {
  return function.getSymName().ends_with(".epoch");
}
