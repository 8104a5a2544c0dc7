// Takes: a contraction of rows and columns that are both in codes. Gives: sums of products of bytes for a tile of them.
//
//     strip[groups][8][columns][4] = code + 2^(bits - 1)       bytes without a sign: of int8 they lie so already, of int4 they
//                                                              are made once for a block of rows
//     for each tile of rows, or each row by itself
//       for each group of 32
//         whole[rows x columns] = -2^(bits - 1) * (sum of the row's codes in the group)
//         for 8 steps: whole += four products of the strip and the row's codes      vpdpbusd: a sign on one side alone
//         sums += whole * (the columns' scales * the row's scale)
#include "codegen/halide/contraction/PackedContraction.h"

#include "support/CodedGroups.h"

using namespace Halide;

namespace quern::codegen {

static constexpr int inStep = 4, stepsOfGroup = static_cast<int>(support::codedGroup) / inStep;
static const Var part("part"), step("step"), ofStrip("group");

PackedContraction::Sums PackedContraction::integerSums(const std::string &name, const Expr &at) {
  const CodedRows &rows = *b.codedRows(x);
  const Node &weight = b.graph.nodes[tableOf(w)];
  const std::string &depth = reduced[0].name, groupOfRow = depth + "_group";
  Index index = start(at);
  std::vector<Var> around;
  std::vector<Expr> aroundCall;
  for (auto dim = weight.dims.rbegin(); dim != weight.dims.rend(); ++dim)
    if (dim->name != column->name && dim->name != depth) {
      around.push_back(KernelBuilder::var(dim->name));
      aroundCall.push_back(index.at(dim->name));
    }
  around.emplace_back("tile");
  aroundCall.emplace_back(Var("tile"));
  auto with = [](auto first, const auto &rest) {
    first.insert(first.end(), rest.begin(), rest.end());
    return first;
  };
  std::vector<Expr> own = packedArgs(lane, Var("tile"), KernelBuilder::varsOf(weight.dims));
  const bool shared = name == "sums"; // by all tiles of rows of a task
  if (shared && bits < 8) {
    strip = b.newFunc("strip", node);
    strip(with(std::vector<Var>{part, lane, step, ofStrip}, around)) =
        unsignedCodeAt(packedBuffer(), bits, tile, own, ofStrip, step, part);
  }
  if (shared) {
    stripScale = b.newFunc("strip_scale", node);
    stripScale(with(std::vector<Var>{lane, ofStrip}, around)) =
        scaleAt(packedBuffer(), bits, own, {Expr(), Expr(), ofStrip});
  }

  Sums sums{b.newFunc(name, node), {}, b.newFunc("whole", node), {}, true};
  std::vector<Var> args = tileArgs();
  RDom k(0, inStep, 0, stepsOfGroup), g(Region{codedRegion()[2]});
  index[groupOfRow] = ofStrip;
  index[depth] = ofStrip * static_cast<int>(support::codedGroup) + k.y * inStep + k.x;
  Expr codes = rows.codes(KernelBuilder::call(rows.dims, index));
  std::vector<Expr> here = packedArgs(lane, Var("tile"), index);
  Expr columns = strip.defined() && shared ? strip(with(std::vector<Expr>{k.x, lane, k.y, ofStrip}, aroundCall))
                                           : unsignedCodeAt(packedBuffer(), bits, tile, here, ofStrip, k.y, k.x);
  std::vector<Var> whole = with(args, std::vector<Var>{ofStrip});
  sums.ofGroup(whole) = -(1 << (bits - 1)) * rows.sum(KernelBuilder::call(rows.groups, index));
  sums.ofGroup(whole) += cast<int32_t>(widening_mul(columns, codes));
  sums.overGroup = {k.x, k.y};
  sums.over = {g.x};
  index[groupOfRow] = g.x;
  std::vector<Expr> call(args.begin(), args.end());
  call.emplace_back(g.x);
  sums.func(args) = 0.0f;
  Expr scale = shared ? stripScale(with(std::vector<Expr>{lane, g.x}, aroundCall))
                      : scaleAt(packedBuffer(), bits, here, {Expr(), Expr(), g.x});
  sums.func(args) += cast<float>(sums.ofGroup(call)) * (scale * rows.scale(KernelBuilder::call(rows.groups, index)));
  return sums;
}

void PackedContraction::scheduleIntegerStrip(const LoopLevel &level) {
  if (strip.defined()) {
    strip.compute_at(level).bound_extent(part, inStep).bound_extent(lane, tile).bound_extent(Var("tile"), 1);
    strip.bound_extent(step, stepsOfGroup).unroll(step);
    strip.vectorize(part).vectorize(lane, vectorOfTile()).unroll(lane);
  }
  stripScale.compute_at(level).bound_extent(lane, tile).bound_extent(Var("tile"), 1);
  stripScale.vectorize(lane, vectorOfTile()).unroll(lane);
}

} // namespace quern::codegen
