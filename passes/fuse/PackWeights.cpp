// Takes: a kernel that is cut out. Gives: the same reading its weights in tiles of rows, as the loader packs them.
#include "passes/fuse/PackWeights.h"

#include "ir/analysis/Operations.h"
#include "ir/analysis/Weights.h"

using namespace mlir;
using namespace quern::passes;
using namespace quern::ir;

static constexpr int64_t narrowestTile = 8; // a register of AVX2

/// A weight in codes that a gradient sums over its other dimensions: in the tiles of the product, so that both read the same
/// memory.
static void packAsProduct(KernelBody &body, unsigned input, QuantizeOp codes, const PackingRule &tileFor) {
  NamedTensorType type = typeOf(body.kernel.getBlock().getArgument(input));
  const unsigned depth = type.find(codes.getDim()), rows = type.getRank() - (depth == type.getRank() - 1 ? 2 : 1);
  SmallVector<unsigned> order;
  for (unsigned d = 0; d < type.getRank(); ++d)
    if (d != depth && d != rows)
      order.push_back(d);
  order.append({rows, depth});
  int64_t tile = tileFor(*type.getDims()[rows].getStatic(), *type.getDims()[depth].getStatic());
  reorder(body, input, order);
  body.inputs[input].tile = tile ? tile : narrowestTile;
}

void quern::passes::packWeights(KernelBody &body, const PackingRule &tileFor, const Without &without, bool codedAlone) {
  for (auto [i, argument] : llvm::enumerate(body.kernel.getBlock().getArguments())) {
    ParamOp param = parameterOf(body.inputs[i].value);
    ConcatOp joined = joinedWeight(body.inputs[i].value);
    bool coded = typeOf(argument).isCoded();
    if (!(param || joined) || !argument.hasOneUse() || (codedAlone && !coded))
      continue;
    if (param && !coded && without.has("pack-weights")) // joined weights and codes exist packed only
      continue;
    Value weight = argument; // or what is gathered of it, one expert for each position
    StringRef gathered;
    if (auto gather = dyn_cast<GatherOp>(*argument.getUsers().begin()); gather && gather->hasOneUse()) {
      weight = gather.getResult();
      gathered = gather.getDim();
    }
    Operation *widen = weight.hasOneUse() ? *weight.getUsers().begin() : nullptr;
    NamedTensorType type = typeOf(argument);
    if (coded && !gathered.empty() &&
        type.getRank() == 2) { // a table: in the tiles that a head reads, which may be tied to it
      unsigned rows = type.getDims()[1].getName() == gathered;
      int64_t tile = tileFor(*type.getDims()[rows].getStatic(), *type.getDims()[1 - rows].getStatic());
      reorder(body, i, SmallVector<unsigned>{rows, 1 - rows});
      body.inputs[i].tile = tile ? tile : narrowestTile;
      continue;
    }
    if (!widensStored(widen))
      widen = nullptr;
    else if (weight = widen->getResult(0); !weight.hasOneUse())
      continue;
    auto contract = dyn_cast<ContractOp>(*weight.getUsers().begin());
    QuantizeOp codes = codedWeight(body.inputs[i].value);
    if (contract && codes && gathered.empty() && names(contract.getDims()) != ArrayRef<StringRef>(codes.getDim())) {
      packAsProduct(body, i, codes, tileFor);
      widen->getResult(0).setType(typeOf(argument).withKind(Kind::Real));
      continue;
    }
    if (!contract || contract.getDims().size() != 1)
      continue;
    Value other = contract.getA() == weight ? contract.getB() : contract.getA();
    std::optional<WeightDims> dims =
        weightDims(body.inputs[i].value, typeOf(other), names(contract.getDims())[0], gathered);
    if (!dims)
      continue;
    int64_t tile = tileFor(*type.getDims()[dims->rows].getStatic(), *type.getDims()[dims->depth].getStatic());
    if (joined && type.getRank() == 2) {
      SmallVector<int64_t> offsets = {0};
      for (auto [part, name] : llvm::zip(joined.getInputs(), names(joined.getParts())))
        offsets.push_back(offsets.back() + *typeOf(part).dim(name).getStatic());
      tile = tileOfParts(tile, ArrayRef<int64_t>(offsets).drop_back());
    }
    if (!tile && coded)
      tile = narrowestTile;
    if (!tile)
      continue;
    SmallVector<unsigned> order = dims->stacked;
    order.append({dims->rows, dims->depth});
    reorder(body, i, order);
    if (widen && widen->getOperand(0) == argument)
      widen->getResult(0).setType(typeOf(argument).withKind(Kind::Real));
    body.inputs[i].tile = tile;
    if (tileFor.pairs && type.getStorage() == Storage::BF16 && *type.getDims()[dims->depth].getStatic() % 2 == 0)
      body.inputs[i].beside = 2;
  }
  for (auto [i, argument] : llvm::enumerate(body.kernel.getBlock().getArguments()))
    assert((!typeOf(argument).isCoded() || body.inputs[i].tile) && "what is stored in codes is read in tiles");
}
