// Functions, parameters, loops, memory and kernels in the reference interpreter.
#include "tests/ir/Support.h"

using namespace quern::ir;
using namespace quern::ir::test;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

using Numbers = std::vector<double>;

Numbers first(llvm::FailureOr<std::vector<Array>> results) {
  return failed(results) ? Numbers() : numbersOf(results->at(0));
}

// ---- inputs

constexpr const char *withDefault = R"(
func.func @f(%x: !quern.tensor<real[B, T]> {quern.name = "x"},
             %mask: !quern.tensor<bool[B, T]> {quern.name = "mask", quern.default = @yes}) -> !quern.tensor<real[B, T]> {
  %zero = quern.const 0.0 : f64 -> !quern.tensor<real[]>
  %r = quern.where %mask, %x, %zero : (!quern.tensor<bool[B, T]>, !quern.tensor<real[B, T]>, !quern.tensor<real[]>) -> !quern.tensor<real[B, T]>
  return %r : !quern.tensor<real[B, T]>
}
func.func @yes() -> !quern.tensor<bool[]> {
  %r = quern.const true -> !quern.tensor<bool[]>
  return %r : !quern.tensor<bool[]>
})";

TEST(Inputs, DefaultIsSpreadOverTheType) {
  Module m(withDefault);
  ASSERT_TRUE(m.module) << m.said;
  Interpreter interpreter(*m.module);
  Array x = reals({{"B", 1}, {"T", 2}}, {3, 4});
  EXPECT_THAT(first(interpreter.run(m.function(), {{"x", x}})), ElementsAre(3, 4)) << m.said;
  EXPECT_THAT(first(interpreter.run(m.function(), {{"x", x}, {"mask", bools({{"B", 1}, {"T", 2}}, {0, 1})}})),
              ElementsAre(0, 4));
}

TEST(Inputs, OrderOfDimensionsDoesNotMatter) {
  Module m(withDefault);
  Interpreter interpreter(*m.module);
  EXPECT_THAT(first(interpreter.run(m.function(), {{"x", reals({{"T", 2}, {"B", 2}}, {1, 2, 3, 4})}})),
              ElementsAre(1, 3, 2, 4));
}

TEST(Inputs, MistakesAreTold) {
  auto said = [](Interpreter::Inputs inputs) {
    Module m(withDefault);
    Interpreter interpreter(*m.module);
    EXPECT_TRUE(failed(interpreter.run(m.function(), inputs)));
    return m.said;
  };
  Array x = reals({{"B", 1}, {"T", 2}}, {3, 4});
  EXPECT_THAT(said({{"y", x}}), HasSubstr("unknown input 'y'; the function takes x, mask"));
  EXPECT_THAT(said({{"mask", bools({{"B", 1}, {"T", 1}}, {0})}}), HasSubstr("input 'x' is missing"));
  EXPECT_THAT(said({{"x", ints({{"B", 1}, {"T", 1}}, {0})}}), HasSubstr("input 'x' is int, not real"));
  EXPECT_THAT(said({{"x", reals({{"T", 1}}, {0})}}), HasSubstr("input 'x' is [T = 1], not"));
  EXPECT_THAT(said({{"x", x}, {"mask", bools({{"B", 1}, {"T", 1}}, {0})}}), HasSubstr("long along T, not"));
}

TEST(Inputs, LengthThatFollowsFromNothingIsAnError) {
  Module m(R"(func.func @f() -> !quern.tensor<int[Q]> {
    %r = quern.index : !quern.tensor<int[Q]>
    return %r : !quern.tensor<int[Q]>
  })");
  Interpreter interpreter(*m.module);
  EXPECT_TRUE(failed(interpreter.run(m.function(), {})));
  EXPECT_THAT(m.said, HasSubstr("the run-time length Q follows from no input"));
  interpreter.bind("Q", 2);
  EXPECT_THAT(first(interpreter.run(m.function(), {})), ElementsAre(0, 1));
}

// ---- parameters and loops

/// Gives the tensor called "a.3" the numbers 3, 3 ..., and remembers what was asked for.
struct Names {
  std::vector<std::string> asked;
  Interpreter::ParameterLookup lookup() {
    return [this](llvm::ArrayRef<std::string> names, llvm::ArrayRef<int64_t> shape) -> std::optional<Numbers> {
      asked.push_back(names.front());
      int64_t count = 1;
      for (int64_t size : shape)
        count *= size;
      size_t dot = names.front().rfind('.');
      return dot == std::string::npos ? std::optional<Numbers>()
                                      : Numbers(count, std::stod(names.front().substr(dot + 1)));
    };
  }
};

TEST(Repeat, CarriesValuesAndParametersOfEachIteration) {
  Module m(
      R"(func.func @f(%x: !quern.tensor<real[A = 2]> {quern.name = "x"}) -> (!quern.tensor<real[A = 2]>, !quern.tensor<int[]>) {
    %n = quern.const 0 : i64 -> !quern.tensor<int[]>
    %r:2 = quern.repeat 3 carry (%y = %x, %i = %n) : !quern.tensor<real[A = 2]>, !quern.tensor<int[]> {
      %w = quern.param [["h.5"], ["h.7"], ["h.1"]] : !quern.tensor<real[A = 2]>
      %p = quern.mul %y, %w : (!quern.tensor<real[A = 2]>, !quern.tensor<real[A = 2]>) -> !quern.tensor<real[A = 2]>
      %one = quern.const 1 : i64 -> !quern.tensor<int[]>
      %q = quern.add %p, %i : (!quern.tensor<real[A = 2]>, !quern.tensor<int[]>) -> !quern.tensor<real[A = 2]>
      %j = quern.add %i, %one : (!quern.tensor<int[]>, !quern.tensor<int[]>) -> !quern.tensor<int[]>
      quern.yield %q, %j : !quern.tensor<real[A = 2]>, !quern.tensor<int[]>
    }
    return %r#0, %r#1 : !quern.tensor<real[A = 2]>, !quern.tensor<int[]>
  })");
  ASSERT_TRUE(m.module) << m.said;
  Names names;
  Interpreter interpreter(*m.module);
  interpreter.setParameters(names.lookup());
  auto results = interpreter.run(m.function(), {{"x", reals({{"A", 2}}, {1, 2})}});
  ASSERT_TRUE(succeeded(results)) << m.said;
  // ((x * 5 + 0) * 7 + 1) * 1 + 2
  EXPECT_THAT(numbersOf(results->at(0)), ElementsAre(38, 73));
  EXPECT_THAT(numbersOf(results->at(1)), ElementsAre(3));
}

TEST(Repeat, StacksHoldWhatEachIterationSaves) {
  // Forwards: y = y * w, saving y and its double; reversed over what was saved, each iteration with its own weight.
  Module m(
      R"(func.func @f(%x: !quern.tensor<real[A = 2]> {quern.name = "x"}) -> (!quern.tensor<real[iterations = 3, A = 2]>, !quern.tensor<real[A = 2]>, !quern.tensor<real[A = 2, iterations = 3]>) {
    %r:2 = quern.repeat 3 carry (%y = %x) : !quern.tensor<real[A = 2]> gives !quern.tensor<real[iterations = 3, A = 2]> {
      %w = quern.param [["h.5"], ["h.7"], ["h.1"]] : !quern.tensor<real[A = 2]>
      %p = quern.mul %y, %w : (!quern.tensor<real[A = 2]>, !quern.tensor<real[A = 2]>) -> !quern.tensor<real[A = 2]>
      quern.yield %p, %y : !quern.tensor<real[A = 2]>, !quern.tensor<real[A = 2]>
    }
    %one = quern.const 1.0 : f64 -> !quern.tensor<real[]>
    %start = quern.expand %one : (!quern.tensor<real[]>) -> !quern.tensor<real[A = 2]>
    %s:2 = quern.repeat 3 reversed carry (%g = %start) : !quern.tensor<real[A = 2]> over (%y = %r#1) : !quern.tensor<real[iterations = 3, A = 2]> gives !quern.tensor<real[iterations = 3, A = 2]> {
      %w = quern.param [["h.5"], ["h.7"], ["h.1"]] : !quern.tensor<real[A = 2]>
      %dw = quern.mul %g, %y : (!quern.tensor<real[A = 2]>, !quern.tensor<real[A = 2]>) -> !quern.tensor<real[A = 2]>
      %dy = quern.mul %g, %w : (!quern.tensor<real[A = 2]>, !quern.tensor<real[A = 2]>) -> !quern.tensor<real[A = 2]>
      quern.yield %dy, %dw : !quern.tensor<real[A = 2]>, !quern.tensor<real[A = 2]>
    }
    %t = quern.permute %s#1 : (!quern.tensor<real[iterations = 3, A = 2]>) -> !quern.tensor<real[A = 2, iterations = 3]>
    return %r#1, %s#0, %t : !quern.tensor<real[iterations = 3, A = 2]>, !quern.tensor<real[A = 2]>, !quern.tensor<real[A = 2, iterations = 3]>
  })");
  ASSERT_TRUE(m.module) << m.said;
  ASSERT_TRUE(succeeded(mlir::verify(*m.module))) << m.said;
  Names names;
  Interpreter interpreter(*m.module);
  interpreter.setParameters(names.lookup());
  auto results = interpreter.run(m.function(), {{"x", reals({{"A", 2}}, {1, 2})}});
  ASSERT_TRUE(succeeded(results)) << m.said;
  EXPECT_THAT(numbersOf(results->at(0)), ElementsAre(1, 2, 5, 10, 35, 70));
  EXPECT_THAT(numbersOf(results->at(1)), ElementsAre(35, 35));
  // d/dw of x * 5 * 7 * 1: x * 7 * 1, x * 5 * 1, x * 5 * 7.
  EXPECT_THAT(numbersOf(results->at(2)), ElementsAre(7, 5, 35, 14, 10, 70));
}

TEST(Repeat, NestedLoopsCountIterationsOutermostSlowest) {
  Module m(R"(func.func @f() -> !quern.tensor<real[]> {
    %zero = quern.const 0.0 : f64 -> !quern.tensor<real[]>
    %r = quern.repeat 2 carry (%a = %zero) : !quern.tensor<real[]> {
      %shared = quern.param [["s.0"]] : !quern.tensor<real[]>
      %s = quern.repeat 2 carry (%b = %a) : !quern.tensor<real[]> {
        %w = quern.param [["h.1"], ["h.2"], ["h.3"], ["h.4"]] : !quern.tensor<real[]>
        %ten = quern.const 10.0 : f64 -> !quern.tensor<real[]>
        %c = quern.mul %b, %ten : (!quern.tensor<real[]>, !quern.tensor<real[]>) -> !quern.tensor<real[]>
        %d = quern.add %c, %w : (!quern.tensor<real[]>, !quern.tensor<real[]>) -> !quern.tensor<real[]>
        quern.yield %d : !quern.tensor<real[]>
      }
      %t = quern.add %s, %shared : (!quern.tensor<real[]>, !quern.tensor<real[]>) -> !quern.tensor<real[]>
      quern.yield %t : !quern.tensor<real[]>
    }
    return %r : !quern.tensor<real[]>
  })");
  ASSERT_TRUE(m.module) << m.said;
  Names names;
  Interpreter interpreter(*m.module);
  interpreter.setParameters(names.lookup());
  EXPECT_THAT(first(interpreter.run(m.function(), {})), ElementsAre(1234)) << m.said;
}

TEST(Param, StackedNamesAndFirstAlternative) {
  Module m(R"(func.func @f() -> !quern.tensor<real[F = 2, E = 2, D = 1]> {
    %r = quern.param [["m.{E}.x.{F}", "n.{E}"]] : !quern.tensor<real[F = 2, E = 2, D = 1]>
    return %r : !quern.tensor<real[F = 2, E = 2, D = 1]>
  })");
  ASSERT_TRUE(m.module) << m.said;
  Names names;
  Interpreter interpreter(*m.module);
  interpreter.setParameters(names.lookup());
  EXPECT_THAT(first(interpreter.run(m.function(), {})), ElementsAre(0, 0, 1, 1)) << m.said;
  EXPECT_THAT(names.asked, ElementsAre("m.0.x.0", "m.1.x.0", "m.0.x.1", "m.1.x.1"));
}

TEST(Param, MissingTensorIsAnError) {
  Module m(R"(func.func @f() -> !quern.tensor<real[]> {
    %r = quern.param [["w"]] : !quern.tensor<real[]>
    return %r : !quern.tensor<real[]>
  })");
  Names names;
  Interpreter interpreter(*m.module);
  interpreter.setParameters(names.lookup());
  EXPECT_TRUE(failed(interpreter.run(m.function(), {})));
  EXPECT_THAT(m.said, HasSubstr("Q042: the parameters have no 'w'"));
}

// ---- memory

// sum[S](x[T -> S] * (index(S) <= index(T))) within a loop of two iterations, in its step form: a cache for each iteration.
constexpr const char *stepForm = R"(
quern.state @f.k0 of "f" : !quern.tensor<real[L = 2, cap]>
func.func @f(%x: !quern.tensor<real[T]> {quern.name = "x"}) -> !quern.tensor<real[T]> {
  %r = quern.repeat 2 carry (%y = %x) : !quern.tensor<real[T]> {
    %all = quern.remember %y "T" to <S = "past + T"> in @f.k0 : (!quern.tensor<real[T]>) -> !quern.tensor<real[S = "past + T"]>
    %row = quern.index : !quern.tensor<int[T]>
    %past = quern.size "past" : !quern.tensor<int[]>
    %t = quern.add %row, %past : (!quern.tensor<int[T]>, !quern.tensor<int[]>) -> !quern.tensor<int[T]>
    %s = quern.index : !quern.tensor<int[S = "past + T"]>
    %seen = quern.compare le %s, %t : (!quern.tensor<int[S = "past + T"]>, !quern.tensor<int[T]>) -> !quern.tensor<bool[S = "past + T", T]>
    %zero = quern.const 0.0 : f64 -> !quern.tensor<real[]>
    %v = quern.where %seen, %all, %zero : (!quern.tensor<bool[S = "past + T", T]>, !quern.tensor<real[S = "past + T"]>, !quern.tensor<real[]>) -> !quern.tensor<real[S = "past + T", T]>
    %sum = quern.reduce sum %v over ["S"] : (!quern.tensor<real[S = "past + T", T]>) -> !quern.tensor<real[T]>
    quern.yield %sum : !quern.tensor<real[T]>
  }
  return %r : !quern.tensor<real[T]>
})";

TEST(Remember, StepsEqualOneFullRun) {
  Module m(stepForm);
  ASSERT_TRUE(m.module) << m.said;
  Interpreter whole(*m.module), steps(*m.module);
  Numbers expected = first(whole.run(m.function(), {{"x", reals({{"T", 5}}, {1, 2, 3, 4, 5})}}));
  EXPECT_THAT(expected, ElementsAre(1, 4, 10, 20, 35)) << m.said; // running sums of running sums
  Numbers got = first(steps.run(m.function(), {{"x", reals({{"T", 3}}, {1, 2, 3})}}));
  for (int64_t past = 3; past < 5; ++past) {
    steps.bind("past", past);
    for (double number : first(steps.run(m.function(), {{"x", reals({{"T", 1}}, {double(past + 1)})}})))
      got.push_back(number);
  }
  EXPECT_EQ(got, expected) << m.said;
  // Going back is allowed, going on from nothing is not, and past = 0 begins anew.
  steps.bind("past", 1);
  EXPECT_THAT(first(steps.run(m.function(), {{"x", reals({{"T", 1}}, {2})}})), ElementsAre(4));
  steps.bind("past", 4);
  EXPECT_TRUE(failed(steps.run(m.function(), {{"x", reals({{"T", 1}}, {2})}})));
  EXPECT_THAT(m.said, HasSubstr("holds fewer than the 4 positions before the new rows"));
  steps.bind("past", 0);
  EXPECT_THAT(first(steps.run(m.function(), {{"x", reals({{"T", 1}}, {7})}})), ElementsAre(7));
}

TEST(Cumsum, GoesOnFromItsState) {
  Module m(R"(
quern.state @f.s0 of "f" : !quern.tensor<real[D = 2]>
func.func @f(%x: !quern.tensor<real[T, D = 2]> {quern.name = "x"}) -> !quern.tensor<real[T, D = 2]> {
  %r = quern.cumsum %x along "T" state @f.s0 : (!quern.tensor<real[T, D = 2]>) -> !quern.tensor<real[T, D = 2]>
  return %r : !quern.tensor<real[T, D = 2]>
})");
  ASSERT_TRUE(m.module) << m.said;
  Interpreter steps(*m.module);
  EXPECT_THAT(first(steps.run(m.function(), {{"x", reals({{"T", 2}, {"D", 2}}, {1, 10, 2, 20})}})),
              ElementsAre(1, 10, 3, 30));
  steps.bind("past", 2);
  EXPECT_THAT(first(steps.run(m.function(), {{"x", reals({{"T", 1}, {"D", 2}}, {3, 30})}})), ElementsAre(6, 60));
  steps.bind("past", 0);
  EXPECT_THAT(first(steps.run(m.function(), {{"x", reals({{"T", 1}, {"D", 2}}, {3, 30})}})), ElementsAre(3, 30));
}

constexpr const char *scanning = R"(
quern.state @s of "f" : !quern.tensor<real[]>
func.func @f(%x: !quern.tensor<real[T]> {quern.name = "x"}) -> (!quern.tensor<real[]>, !quern.tensor<real[T]>) {
  %one = quern.const 1.0 : f64 -> !quern.tensor<real[]>
  %two = quern.const 2.0 : f64 -> !quern.tensor<real[]>
  %0:2 = quern.scan <T> MODE carry %one over %x reading %two STATES {
  ^bb0(%h: !quern.tensor<real[]>, %u: !quern.tensor<real[]>, %k: !quern.tensor<real[]>):
    %a = quern.mul %h, %k : (!quern.tensor<real[]>, !quern.tensor<real[]>) -> !quern.tensor<real[]>
    %b = quern.add %a, %u : (!quern.tensor<real[]>, !quern.tensor<real[]>) -> !quern.tensor<real[]>
    quern.yield %b, %h : !quern.tensor<real[]>, !quern.tensor<real[]>
  } : (!quern.tensor<real[]>, !quern.tensor<real[T]>, !quern.tensor<real[]>) -> (!quern.tensor<real[]>, !quern.tensor<real[T]>)
  return %0#0, %0#1 : !quern.tensor<real[]>, !quern.tensor<real[T]>
})";

std::string scan(const std::string &mode, const std::string &states) {
  std::string text = scanning;
  text.replace(text.find("MODE"), 4, mode);
  return text.replace(text.find("STATES"), 6, states);
}

TEST(Scan, RunsThroughPositionsFromEitherEnd) {
  for (bool reversed : {false, true}) {
    Module m(scan(reversed ? "reversed" : "", ""));
    ASSERT_TRUE(m.module) << m.said;
    Interpreter interpreter(*m.module);
    auto results = interpreter.run(m.function(), {{"x", reals({{"T", 3}}, {1, 10, 100})}});
    ASSERT_TRUE(succeeded(results)) << m.said;
    EXPECT_THAT(numbersOf(results->at(0)), ElementsAre(reversed ? 429 : 132));
    if (reversed)
      EXPECT_THAT(numbersOf(results->at(1)), ElementsAre(214, 102, 1));
    else
      EXPECT_THAT(numbersOf(results->at(1)), ElementsAre(1, 3, 16));
  }
}

TEST(Scan, GoesOnFromItsStates) {
  Module m(scan("", "states [@s]"));
  ASSERT_TRUE(m.module) << m.said;
  Interpreter interpreter(*m.module);
  EXPECT_THAT(first(interpreter.run(m.function(), {{"x", reals({{"T", 2}}, {1, 10})}})), ElementsAre(16)) << m.said;
  interpreter.bind("past", 2);
  EXPECT_THAT(first(interpreter.run(m.function(), {{"x", reals({{"T", 1}}, {100})}})), ElementsAre(132));
  interpreter.bind("past", 0); // from the entry value
  EXPECT_THAT(first(interpreter.run(m.function(), {{"x", reals({{"T", 1}}, {1})}})), ElementsAre(3));
}

TEST(State, RecallAndStore) {
  Module m(R"(
quern.state @f.s0 of "f" : !quern.tensor<int[]>
func.func @f(%x: !quern.tensor<int[T]> {quern.name = "x"}) -> !quern.tensor<int[]> {
  %before = quern.recall @f.s0 : !quern.tensor<int[]>
  %sum = quern.reduce sum %x over ["T"] : (!quern.tensor<int[T]>) -> !quern.tensor<int[]>
  %r = quern.add %before, %sum : (!quern.tensor<int[]>, !quern.tensor<int[]>) -> !quern.tensor<int[]>
  quern.store %r in @f.s0 : !quern.tensor<int[]>
  return %r : !quern.tensor<int[]>
})");
  ASSERT_TRUE(m.module) << m.said;
  Interpreter steps(*m.module);
  EXPECT_THAT(first(steps.run(m.function(), {{"x", ints({{"T", 2}}, {1, 2})}})), ElementsAre(3));
  steps.bind("past", 2);
  EXPECT_THAT(first(steps.run(m.function(), {{"x", ints({{"T", 1}}, {5})}})), ElementsAre(8));
  steps.forget();
  EXPECT_THAT(first(steps.run(m.function(), {{"x", ints({{"T", 1}}, {5})}})), ElementsAre(5));
}

// ---- kernels

TEST(Launch, RunsAKernelUnderItsOwnNames) {
  Module m(R"(
quern.kernel @k(%a: !quern.tensor<real[d0 = s0, d1 = 2]> #quern.layout<"strided", ["2", "1"]>) -> (#quern.layout<"strided", ["2", "1"]>) {
  %n = quern.size "s0 + s1" : !quern.tensor<int[]>
  %r = quern.mul %a, %n : (!quern.tensor<real[d0 = s0, d1 = 2]>, !quern.tensor<int[]>) -> !quern.tensor<real[d0 = s0, d1 = 2]>
  quern.yield %r : !quern.tensor<real[d0 = s0, d1 = 2]>
}
func.func @f(%x: !quern.tensor<real[T, D = 2]> {quern.name = "x"}) -> !quern.tensor<real[T, D = 2]> {
  %r = quern.launch @k ["T", "past + 1"](%x) : (!quern.tensor<real[T, D = 2]>) -> !quern.tensor<real[T, D = 2]>
  return %r : !quern.tensor<real[T, D = 2]>
})");
  ASSERT_TRUE(m.module) << m.said;
  Interpreter interpreter(*m.module);
  interpreter.bind("past", 4);
  EXPECT_THAT(first(interpreter.run(m.function(), {{"x", reals({{"T", 2}, {"D", 2}}, {1, 2, 3, 4})}})),
              ElementsAre(7, 14, 21, 28))
      << m.said;
}

TEST(Launch, OnceServesTheFollowingCalls) {
  Module m(R"(
quern.kernel @k(%a: !quern.tensor<real[d0 = 2]> #quern.layout<"strided", ["1"]>) -> (#quern.layout<"strided", ["1"]>) {
  %r = quern.neg %a : (!quern.tensor<real[d0 = 2]>) -> !quern.tensor<real[d0 = 2]>
  quern.yield %r : !quern.tensor<real[d0 = 2]>
}
func.func @f(%x: !quern.tensor<real[D = 2]> {quern.name = "x"}) -> !quern.tensor<real[D = 2]> {
  %r = quern.launch once @k [](%x) : (!quern.tensor<real[D = 2]>) -> !quern.tensor<real[D = 2]>
  return %r : !quern.tensor<real[D = 2]>
})");
  ASSERT_TRUE(m.module) << m.said;
  Interpreter interpreter(*m.module);
  EXPECT_THAT(first(interpreter.run(m.function(), {{"x", reals({{"D", 2}}, {1, 2})}})), ElementsAre(-1, -2));
  interpreter.bind("past", 1);
  EXPECT_THAT(first(interpreter.run(m.function(), {{"x", reals({{"D", 2}}, {8, 8})}})), ElementsAre(-1, -2));
  interpreter.bind("past", 0);
  EXPECT_THAT(first(interpreter.run(m.function(), {{"x", reals({{"D", 2}}, {8, 8})}})), ElementsAre(-8, -8));
}

TEST(Observer, SeesEveryResultInOrder) {
  Module m(withDefault);
  Interpreter interpreter(*m.module);
  std::vector<std::string> seen;
  interpreter.setObserver([&](mlir::Operation *op, llvm::ArrayRef<Array>, llvm::ArrayRef<Array> results) {
    seen.push_back(op->getName().getStringRef().str() + " " + std::to_string(results.size()));
  });
  EXPECT_TRUE(succeeded(interpreter.run(m.function(), {{"x", reals({{"B", 1}, {"T", 1}}, {3})}})));
  EXPECT_THAT(seen, ElementsAre("quern.const 1", "quern.const 1", "quern.where 1"));
}

} // namespace
