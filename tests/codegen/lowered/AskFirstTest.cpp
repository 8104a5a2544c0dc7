// Conditions that are asked before the loops that they are about: what is made for nobody is not made, and what a loop itself
// changes is asked as before.
#include "codegen/halide/lowered/AskFirst.h"

#include <gtest/gtest.h>

#include <atomic>

using namespace Halide;

namespace {

std::atomic<int> made;

int noteMade(int value) {
  ++made;
  return value;
}

Expr noted(const Expr &value) {
  return Internal::Call::make(Int(32), "quern_note_made", {value}, Internal::Call::Extern);
}

const JITExtern note(noteMade);

} // namespace

/// Half of the blocks have nothing, and no term of their sums is made.
TEST(AskFirst, WhatIsMadeForNobodyIsNotMade) {
  constexpr int blocks = 8, steps = 5;
  Var b("b"), term("term");
  Func order("order"), group("group"), sums("sums"), out("out");
  order(b) = select(b % 2 == 0, b, -1);
  order.compute_root();
  group(b, term) = noted(b * 10 + term);
  RDom k(0, steps), s(0, blocks);
  k.where(order(b) >= 0);
  sums(b) = 0;
  sums(b) += group(b, k.x);
  s.where(order(s.x) >= 0);
  out(b) = -7;
  out(s.x) = sums(s.x);
  sums.compute_at(out, s.x);
  group.compute_at(sums, k.x);
  Pipeline pipeline(out);
  quern::codegen::askFirst(pipeline);
  pipeline.set_jit_externs({{"quern_note_made", note}});
  made = 0;
  Buffer<int> result = pipeline.realize({blocks});
  EXPECT_EQ(made, blocks / 2 * steps);
  for (int block = 0; block < blocks; ++block)
    EXPECT_EQ(result(block), block % 2 ? -7 : steps * block * 10 + 10) << block;
}

/// Each step makes what it then asks for.
TEST(AskFirst, WhatALoopChangesIsAskedEachTime) {
  constexpr int length = 6;
  Var i("i");
  Func own("own"), out("out");
  own(i) = noted(i * 3) % 2;
  RDom r(0, length);
  r.where(own(r.x) == 1);
  out(i) = 0;
  out(r.x) = r.x;
  own.compute_at(out, r.x);
  Pipeline pipeline(out);
  quern::codegen::askFirst(pipeline);
  pipeline.set_jit_externs({{"quern_note_made", note}});
  made = 0;
  Buffer<int> result = pipeline.realize({length});
  EXPECT_EQ(made, length);
  for (int at = 0; at < length; ++at)
    EXPECT_EQ(result(at), at % 2 ? at : 0) << at;
}

/// A condition that another one makes safe to ask stays behind it.
TEST(AskFirst, AConditionStaysBehindTheOneItReliesOn) {
  constexpr int length = 4;
  Var i("i");
  Buffer<int> table(length), given(length);
  Func place("place"), wanted("wanted"), out("out");
  for (int at = 0; at < length; ++at)
    table(at) = at, given(at) = at == 2 ? 1 << 28 : at; // where a read would end the program
  place(i) = given(i);
  wanted(i) = table(clamp(i, 0, length - 1)) % 2;
  place.compute_root();
  wanted.compute_root();
  RDom r(0, length);
  r.where(place(r.x) < length);
  r.where(wanted(unsafe_promise_clamped(place(r.x), 0, length - 1)) == 1);
  out(i) = 0;
  out(r.x) = 1;
  Pipeline pipeline(out);
  quern::codegen::askFirst(pipeline);
  Buffer<int> result = pipeline.realize({length});
  EXPECT_EQ(result(0) + result(2), 0);
  EXPECT_EQ(result(1) + result(3), 2);
}
