// Takes: a function. Gives: the names of its arguments and results, and the functions that belong to it.
// Why here: the interpreter, passes, the host program and tools all ask.
#include "ir/analysis/Functions.h"

#include "ir/Attributes.h"

using namespace mlir;
using namespace quern::ir;

StringRef quern::ir::argumentName(func::FuncOp function, unsigned index) {
  auto name = function.getArgAttrOfType<StringAttr>(index, nameAttr);
  return name ? name.getValue() : StringRef();
}

StringRef quern::ir::resultName(func::FuncOp function, unsigned index) {
  auto name = function.getResultAttrOfType<StringAttr>(index, nameAttr);
  return name ? name.getValue() : StringRef();
}

int quern::ir::scoredResult(func::FuncOp function) {
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (function.getNumResults() == 1 || resultName(function, i) == "logits")
      return int(i);
  return -1;
}

func::FuncOp quern::ir::defaultOf(func::FuncOp function, unsigned index) {
  auto symbol = function.getArgAttrOfType<FlatSymbolRefAttr>(index, defaultAttr);
  return symbol ? SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(function, symbol) : func::FuncOp();
}

std::optional<Role> quern::ir::roleOf(func::FuncOp function) {
  auto role = function->getAttrOfType<RoleAttr>(roleAttr);
  return role ? std::optional(role.getForm()) : std::nullopt;
}

void quern::ir::setRole(func::FuncOp function, Role role, StringRef of) {
  MLIRContext *context = function.getContext();
  function->setAttr(
      roleAttr, RoleAttr::get(context, role, of.empty() ? FlatSymbolRefAttr() : FlatSymbolRefAttr::get(context, of)));
}

StringRef quern::ir::originOf(func::FuncOp function) {
  auto role = function->getAttrOfType<RoleAttr>(roleAttr);
  return role && role.getOf() ? role.getOf().getValue() : function.getSymName();
}

func::FuncOp quern::ir::formOf(ModuleOp module, StringRef of, Role role) {
  for (auto function : module.getOps<func::FuncOp>())
    if (roleOf(function) == role && originOf(function) == of)
      return function;
  return {};
}

bool quern::ir::isEpoch(func::FuncOp function) {
  return roleOf(function) == Role::Epoch;
}
