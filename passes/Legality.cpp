// Takes: a module after a phase. Gives: an error at each operation that the phase's list does not name.
// Why lists of what may occur: an operation that is added to the dialect must be thought of in every phase, and one that
// a pass forgets to lower is found there and not in code generation.
#include "passes/Legality.h"

#include "ir/Attributes.h"
#include "ir/analysis/Functions.h"
#include "support/numbers/RealFunctions.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

using Names = std::vector<std::string>;

static const Names numbers = {"const", "values", "size", "index"};
static const Names elementwise = [] {
  Names all = {"neg", "abs",      "floor", "ceil", "round", "to_int", "to_real", "not", "add",     "sub",  "mul",
               "div", "floordiv", "mod",   "pow",  "max",   "min",    "and",     "or",  "compare", "where"};
#define QUERN_REAL_FUNCTION(NAME, WORD, VALUE) all.push_back(#WORD);
  QUERN_REAL_FUNCTIONS(QUERN_REAL_FUNCTION)
  return all;
}();
static const Names narrowing = {"narrow", "widen", "quantize", "dequantize", "rescale"};
static const Names combining = {"reduce", "contract", "softmax", "cumsum", "scatter_add", "argmax", "top_k", "gather"};
static const Names attention = {"attention", "attention_gradient"}, recurrences = {"scan"};
static const Names views = {"rename", "permute", "split", "merge", "cut", "unit", "squeeze"};
static const Names copies = {"concat", "expand"};

static Names joined(std::initializer_list<Names> lists) {
  Names all;
  for (const Names &list : lists)
    all.insert(all.end(), list.begin(), list.end());
  return all;
}

Legal quern::passes::legalAlgebra(const Names &more) {
  Names inFunctions =
      joined({numbers, elementwise, combining, recurrences, views, copies, {"param", "repeat", "yield"}, more});
  return {{"state"}, inFunctions, {}};
}

Legal quern::passes::legalKernels() {
  Names inKernels =
      joined({numbers, elementwise, narrowing, combining, attention, recurrences, views, copies, {"yield"}});
  Names inFunctions = joined({views, {"param", "repeat", "yield", "launch", "remember", "recall", "store"}});
  return {{"state", "kernel"}, inFunctions, inKernels};
}

LogicalResult quern::passes::checkLegal(ModuleOp module, const Legal &legal, StringRef phase) {
  LogicalResult result = success();
  auto check = [&](Operation *op, const Names &names, const char *where) {
    StringRef name = op->getName().getStringRef();
    if (!name.consume_front("quern.") || llvm::is_contained(names, name.str()))
      return;
    // How a packed weight is put together at load is written as a concatenation.
    if (op->hasAttr(weightAttr))
      return;
    op->emitError() << "must not occur in " << where << " after phase '" << phase << "'";
    result = failure();
  };
  for (Operation &top : module.getOps()) {
    check(&top, legal.inModule, "a module");
    auto function = dyn_cast<func::FuncOp>(top);
    if (function && isEpoch(function))
      continue;
    top.walk([&](Operation *op) {
      if (op != &top)
        function ? check(op, legal.inFunctions, "a function") : check(op, legal.inKernels, "a kernel");
    });
  }
  return result;
}
