// Takes: a product with a packed weight that is deep. Gives: its sums, by parts of the depth. Why: a strip of columns whose
// depth does not fit the second cache would come from the third for every tile of rows; a part of it stays there for all of
// them.
//
//   for each tile of columns, block of rows (parallel)
//     totals[block x columns] = 0
//     for each part of the depth
//       strip[part x columns] = w                           only of what is stored in fewer bits
//       for each tile of rows
//         sums[rows x columns] = 0;  for k in the part: sums += x[rows, k] * w[k, columns]
//         totals += sums
//     result = epilogue(totals)
#include "codegen/halide/contraction/PackedContraction.h"

using namespace Halide;

namespace quern::codegen {

PackedContraction::Sums PackedContraction::sumsOfParts(const Expr &at) {
  const Dim &depth = reduced[0];
  const int64_t whole = *depth.fixed();
  Sums sums{b.newFunc("sums", node), {}, {}, {}};
  Var part("part");
  std::vector<Var> args = tileArgs(), totalArgs = args;
  args.push_back(part);
  RDom k(0, partDepth, "k");
  Expr step = part * partDepth + k.x;
  if (whole % partDepth)
    k.where(step < int32_t(whole));
  Index index = start(at);
  index[depth.name] = step;
  sums.over = {k.x};
  Expr column = (storage == Storage::F32 ? storedColumns() : copiedColumns())(index);
  sums.func(args) = 0.0f;
  sums.func(args) += b.real(x, index) * column;
  addParts(sums.func, totalArgs, static_cast<int>((whole + partDepth - 1) / partDepth));
  return sums;
}

/// `sums`: of a part, which is its last argument behind `args`.
void PackedContraction::addParts(const Func &sums, const std::vector<Var> &args, int count) {
  parts = RDom(0, count, "parts");
  std::vector<Expr> call(args.begin(), args.end());
  call.push_back(parts.x);
  totals = b.newFunc("totals", node);
  totals(args) = 0.0f;
  totals(args) += sums(call);
}

} // namespace quern::codegen
