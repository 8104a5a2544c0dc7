// More groups than a device starts at once along a dimension: 65,535 is all that many have. Interfaces that can begin a part
// of a grid elsewhere launch it in pieces.
#include "tests/codegen/support/Check.h"

using namespace quern::codegen;

TEST(Groups, MoreThanADimensionHas) {
  GraphMaker g;
  int x = g.argument(Storage::F32, {dim("T"), dim("M", 2), dim("N", 3)});
  g.yield(g.elementwise(Op::Add, {x, g.elementwise(Op::ToReal, {g.index(dim("T"))})}));
  checkKernel(g.finish("groups"), {{{"T", 66000}}});
}
