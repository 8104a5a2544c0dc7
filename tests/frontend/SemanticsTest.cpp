// What specs mean: expressions of the language, evaluated by the reference interpreter, against numbers made by hand.
// Inputs: x [A = 2, B = 3, C = 4], y [A, B], n int [A, B]; every parameter holds 0, 0.1, 0.2 ...
#include "Support.h"

#include "frontend/Frontend.h"
#include "ir/reference/Interpreter.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <algorithm>
#include <cmath>

using namespace quern;
using namespace quern::frontend;
using namespace quern::frontend::testing;

namespace {

double x(int a, int b, int c) {
  return std::sin(1.0 + 12 * a + 4 * b + c) * 1.5;
}
double y(int a, int b) {
  return std::cos(2.0 + 3 * a + b);
}
const int n[2][3] = {{0, 2, 1}, {3, 3, 0}};
double w(int o, int i) {
  return (4 * o + i) / 10.0;
} // a parameter [4, 4]

ir::Array evaluate(const std::string &code, const std::string &result, const std::string &blocks) {
  std::string text = "quern 1\nmodel m {\n  dim C = 4, E = 12, F = 2, G = 2, One = 1\n" + blocks +
                     "\n  loss(x: [A, B, C], y: [A, B], n: int[A, B]) -> " + result + " {\n    " + code + "\n  }\n}\n";
  mlir::MLIRContext context;
  SpecInput input;
  input.name = "case.quern";
  input.text = text;
  Diagnostics diagnostics;
  auto module = elaborate(context, input, diagnostics);
  EXPECT_TRUE(module) << text << outcomeOf(diagnostics).text;
  if (!module)
    return {};
  std::vector<double> xs, ys;
  std::vector<int64_t> ns;
  for (int a = 0; a < 2; ++a)
    for (int b = 0; b < 3; ++b) {
      ys.push_back(y(a, b));
      ns.push_back(n[a][b]);
      for (int c = 0; c < 4; ++c)
        xs.push_back(x(a, b, c));
    }
  std::vector<ir::NamedSize> ab = {{"A", 2}, {"B", 3}}, abc = {{"A", 2}, {"B", 3}, {"C", 4}};
  ir::Interpreter interpreter(*module);
  interpreter.setParameters(
      [](llvm::ArrayRef<std::string> names, llvm::ArrayRef<int64_t> shape) -> std::optional<std::vector<double>> {
        int64_t count = 1;
        for (int64_t size : shape)
          count *= size;
        // Experts e.0, e.1 ... hold one sequence, as if stored together.
        int64_t first = names[0].rfind("e.", 0) == 0 ? count * (names[0][2] - '0') : 0;
        std::vector<double> numbers(count);
        for (int64_t i = 0; i < count; ++i)
          numbers[i] = static_cast<double>(first + i) / 10;
        return numbers;
      });
  auto out =
      interpreter.run(module->lookupSymbol<mlir::func::FuncOp>("loss"),
                      {{"x", ir::Array(abc, xs)}, {"y", ir::Array(ab, ys)}, {"n", ir::Array(ir::Kind::Int, ab, ns)}});
  EXPECT_TRUE(mlir::succeeded(out)) << code;
  return mlir::succeeded(out) ? (*out)[0] : ir::Array();
}

template <typename Want>
void same3(const std::string &code, Want want, const std::string &blocks = "",
           const std::string &result = "[A, B, C]") {
  ir::Array got = evaluate(code, result, blocks);
  ASSERT_EQ(got.getDims().size(), 3u) << code;
  int64_t last = got.getDims()[2].size;
  for (int a = 0; a < 2; ++a)
    for (int b = 0; b < 3; ++b)
      for (int c = 0; c < last; ++c)
        ASSERT_NEAR(got.number((a * 3 + b) * last + c), want(a, b, c), 1e-12) << code << " at " << a << b << c;
}
template <typename Want> void same2(const std::string &code, Want want, const std::string &blocks = "") {
  ir::Array got = evaluate(code, "[A, B]", blocks);
  ASSERT_EQ(got.getDims().size(), 2u) << code;
  for (int a = 0; a < 2; ++a)
    for (int b = 0; b < 3; ++b)
      ASSERT_NEAR(got.number(a * 3 + b), want(a, b), 1e-12) << code << " at " << a << b;
}

TEST(Semantics, ElementwiseGoesByName) {
  auto product = [](int a, int b, int c) { return x(a, b, c) * y(a, b); };
  same3("return x * y", product);
  same3("return y * x", product);
  same2("return -y ^ 2", [](int a, int b) { return -y(a, b) * y(a, b); });
  same2("return 2 ^ -1 ^ 2 * y", [](int a, int b) { return 0.5 * y(a, b); });
  same2("return real(7 // 2 + -7 // 2 + -7 % 4) * y", [](int a, int b) { return 0 * y(a, b); });
  same2("return real(n // 2 - (-n - 1) // 2 + (-n) % 4)", [](int a, int b) {
    int v = n[a][b];
    return std::floor(v / 2.0) - std::floor((-v - 1) / 2.0) + ((-v % 4) + 4) % 4;
  });
  same2("return where(0 <= index(B) - 1 < 1, y, 0)", [](int a, int b) { return b == 1 ? y(a, b) : 0; });
  same2("return real(int(y * 10) + round(y * 10) * 1000)",
        [](int a, int b) { return std::trunc(y(a, b) * 10) + 1000 * std::nearbyint(y(a, b) * 10); });
}

TEST(Semantics, ProjectionsAndLayouts) {
  auto projected = [](int a, int b, int c) {
    double sum = 0;
    for (int i = 0; i < 4; ++i)
      sum += x(a, b, i) * w(c, i);
    return sum;
  };
  same3("return linear[C -> C](x) @ \"w\"", projected);
  same3("return x[C -> (F, G)][(G, F) -> C]", [](int a, int b, int c) { return x(a, b, (c % 2) * 2 + c / 2); });
  same3("a, b = x[C -> F + F]\n    return concat[F + F -> C](b, a)",
        [](int a, int b, int c) { return x(a, b, (c + 2) % 4); });
  same3("a, b = x[C -> (F, 1 + 1)]\n    return concat[(F, 1 + 1) -> C](b, a)",
        [](int a, int b, int c) { return x(a, b, c ^ 1); });
  same3("a, b, c, d = x[C -> (1 + 1, 1 + 1)]\n    return concat[(1 + 1, 1 + 1) -> C](d, c, b, a)",
        [](int a, int b, int c) { return x(a, b, 3 - c); });
  same2("a, b, c, d = x[C -> (1 + 1, 1 + 1)]\n    return a + 10 * b + 100 * c + 1000 * d",
        [](int a, int b) { return x(a, b, 0) + 10 * x(a, b, 1) + 100 * x(a, b, 2) + 1000 * x(a, b, 3); });
  same2("return linear[C -> 1](x) @ \"w\"",
        [](int a, int b) { return (x(a, b, 1) + 2 * x(a, b, 2) + 3 * x(a, b, 3)) / 10; });
  same3("dim D = C - 1\n    return concat[1 + D -> C](y, x[C: 1.. -> D])",
        [](int a, int b, int c) { return c ? x(a, b, c) : y(a, b); });
  same3(
      "return twice[C](x)", [](int a, int b, int c) { return 2 * x(a, b, c); },
      "  block twice[I](x: [.., I]) { dim C2 = I\n y = x[I -> C2]\n return y[C2 -> I] + x }");
}

TEST(Semantics, SumsOverTime) {
  auto running = [](int a, int b, int c) {
    double sum = 0;
    for (int s = 0; s <= b; ++s)
      sum += x(a, s, c);
    return sum;
  };
  same3("dim S = B\n    return sum[S](where(index(S) <= index(B), x[B -> S], 0))", running);
  same3("return cumsum[B](x)", running);
  same3("dim S = B\n    z = sum[S](x[B -> S] * y[B -> S])\n    return x * 0 + z",
        [](int a, int, int c) { return x(a, 0, c) * y(a, 0) + x(a, 1, c) * y(a, 1) + x(a, 2, c) * y(a, 2); });
  same2("dim W = B\n    z = y * y[B -> W]\n    return sum[W](index(W) * z[B -> W, W -> B]) * 0 + sum[W](index(W) * z)",
        [](int a, int b) { return y(a, b) * y(a, 1) + 2 * y(a, b) * y(a, 2); });
  same3("return softmax[C](where(index(C) > 9, x, -inf))", [](int, int, int) { return 0; });
  same2("return sum[..](x) + 0 * y", [](int, int) {
    double sum = 0;
    for (int a = 0; a < 2; ++a)
      for (int b = 0; b < 3; ++b)
        for (int c = 0; c < 4; ++c)
          sum += x(a, b, c);
    return sum;
  });
}

TEST(Semantics, Gathers) {
  same2("return x[C = n]", [](int a, int b) { return x(a, b, n[a][b]); });
  same3("return x[B = max(index(B) - 1, 0)]", [](int a, int b, int c) { return x(a, b ? b - 1 : 0, c); });
  same3("return x * 0 + x[B = B - 1, A = 0]", [](int, int, int c) { return x(0, 2, c); });
  same2("v, i = top_k[C -> F](x)\n    return sum[F](v + x[C = i])", [](int a, int b) {
    std::vector<double> row = {x(a, b, 0), x(a, b, 1), x(a, b, 2), x(a, b, 3)};
    std::sort(row.rbegin(), row.rend());
    return 2 * (row[0] + row[1]);
  });
  same3(
      "h = linear[C -> F](x) @ \"e.{G}\"\n    return h[G = n % 2]",
      [](int a, int b, int f) {
        double sum = 0;
        for (int c = 0; c < 4; ++c)
          sum += x(a, b, c) * ((n[a][b] % 2) * 8 + f * 4 + c) / 10.0;
        return sum;
      },
      "", "[A, B, F]");
}

TEST(Semantics, Loops) {
  same2("s = 0\n    repeat i in 3 { s = s + i }\n    return y * s", [](int a, int b) { return 3 * y(a, b); });
  same2("h: [A, B] = y\n    repeat i in 1..4 { h = h * i }\n    return h", [](int a, int b) { return 6 * y(a, b); });
  same2("s = 0\n    repeat i in 3 { s = s + sum[A, B](y) * i }\n    return y * 0 + s", [](int, int) {
    double sum = 0;
    for (int a = 0; a < 2; ++a)
      for (int b = 0; b < 3; ++b)
        sum += y(a, b);
    return 3 * sum;
  });
  same2("a, b = y, 2 * y\n    repeat i in 3 { a, b = b, a }\n    return a - 10 * b",
        [](int a, int b) { return 2 * y(a, b) - 10 * y(a, b); });
  same2("h = y\n    repeat i in 4 { if i % 2 == 0 { h = h + i } else { h = h * i } }\n    return h",
        [](int a, int b) { return ((y(a, b) + 0) * 1 + 2) * 3; });
  same3("repeat i in 2 @ \"l\" { x = linear[C -> C](x) @ \"w\" }\n    return x", [](int a, int b, int c) {
    double sum = 0;
    for (int j = 0; j < 4; ++j)
      for (int i = 0; i < 4; ++i)
        sum += x(a, b, i) * w(j, i) * w(c, j);
    return sum;
  });
}

double gate(int a, int b, int c) {
  return 1 / (1 + std::exp(-x(a, b, c)));
}

TEST(Semantics, Scans) {
  auto state = [](int a, int b, int c) {
    double h = 0;
    for (int t = 0; t <= b; ++t)
      h = gate(a, t, c) * h + x(a, t, c);
    return h;
  };
  auto sum = [](int a, int b, int c) {
    double s = 0;
    for (int t = 0; t <= b; ++t)
      s += x(a, t, c);
    return s;
  };
  std::string recurrence = "keep = sigmoid(x)\n scan B {\n h = keep * h + x\n z = h\n }\n return z";
  same3("h: [A, C] = 0\n" + recurrence, state);
  same3("h: [.., C] = 0\n" + recurrence, state); // A joins
  same3("h: [A, C] = 0\n keep = sigmoid(x)\n scan B { h = keep * h + x }\n return x * 0 + h",
        [&](int a, int, int c) { return state(a, 2, c); }); // after the last position
  same3("h: [A, C] = 0\n scan B {\n z = h\n h = x\n }\n return z",
        [](int a, int b, int c) { return b ? x(a, b - 1, c) : 0; });
  same3("s: [A, C] = 0\n scan B {\n s = s + x\n z = s\n }\n return z - cumsum[B](x)", [](int, int, int) { return 0; });
  same3("s: [A, C] = 0\n scan B from end {\n s = s + x\n z = s\n }\n return z",
        [&](int a, int b, int c) { return sum(a, 2, c) - (b ? sum(a, b - 1, c) : 0); });
  same3("s: [A, C] = -inf\n scan B {\n s = max(s, x)\n z = s\n }\n return z", [](int a, int b, int c) {
    double most = -INFINITY;
    for (int t = 0; t <= b; ++t)
      most = std::max(most, x(a, t, c));
    return most;
  });
  const double counted[] = {1, 12, 33};
  same2("s = 0\n scan B {\n s = s + index(B) * 10 + 1\n z = s\n }\n return y * z",
        [&](int a, int b) { return y(a, b) * counted[b]; });
  same2("s: int[A] = 0\n scan B {\n s = max(s, n)\n z = s\n }\n return real(z)",
        [](int a, int b) { return *std::max_element(n[a], n[a] + b + 1); });
  same3("s: [A, C] = 0\n r: [A, C] = 1\n scan B {\n s, r = r + x, s\n z = s\n }\n return z", [](int a, int b, int c) {
    double s = 0, r = 1;
    for (int t = 0; t <= b; ++t)
      std::tie(s, r) = std::make_pair(r + x(a, t, c), s);
    return s;
  });
}

TEST(Semantics, ScansInScansAndBlocks) {
  same3("s: [A] = 0\n scan B {\n scan C {\n s = s + x\n z = s\n }\n }\n return z", [](int a, int b, int c) {
    double s = 0;
    for (int i = 0; i <= b * 4 + c; ++i)
      s += x(a, i / 4, i % 4);
    return s;
  });
  same3(
      "return smooth[B](x) + twice2(y)",
      [](int a, int b, int c) {
        double h = 0, s = 0;
        for (int t = 0; t <= b; ++t)
          h = h / 2 + x(a, t, c), s += y(a, t);
        return h + s;
      },
      "  block smooth[T](x: [.., T]) {\n h: [..] = 0\n scan T {\n h = h / 2 + x\n z = h\n }\n return z\n }\n"
      "  block twice2(y: [.., B]) {\n h: [..] = 0\n scan B {\n h = h + y\n z = h\n }\n return z\n }\n");
  same3("h: [A, C] = 0\n scan B {\n param w: [C] @ \"w\"\n h = h + x * w\n z = h\n }\n return z + w",
        [](int a, int b, int c) {
          double s = 0;
          for (int t = 0; t <= b; ++t)
            s += x(a, t, c) * c / 10;
          return s + c / 10.0;
        });
}

TEST(Semantics, Recurrences) {
  // Row i of the state at position b: a number for each j.
  auto recalled = [](int a, int b, auto update) {
    double h[4] = {}, sum = 0;
    for (int t = 0; t <= b; ++t)
      update(h, t);
    for (int j = 0; j < 4; ++j)
      sum += h[j] * x(a, b, j);
    return sum;
  };
  same3("return linear_recurrence[B](sigmoid(x), y)", [](int a, int b, int c) {
    double h = 0;
    for (int t = 0; t <= b; ++t)
      h = gate(a, t, c) * h + y(a, t);
    return h;
  });
  same3(
      "dim N = C\n param w: [C, N] @ \"w\"\n return selective_scan[B, C, N](y * x, sigmoid(x), w, sigmoid(x[C -> N]), "
      "x[C -> N])",
      [&](int a, int b, int i) {
        return recalled(a, b, [&](double *h, int t) {
          for (int j = 0; j < 4; ++j)
            h[j] = std::exp(-std::exp(w(i, j)) * gate(a, t, i)) * h[j] +
                   gate(a, t, i) * y(a, t) * x(a, t, i) * gate(a, t, j);
        });
      });
  same3("dim U = C\n z = linear_attention[B, C, U](x, sigmoid(x), x[C -> U], y)\n return z[U -> C]",
        [&](int a, int b, int i) {
          return recalled(a, b, [&](double *h, int t) {
            for (int j = 0; j < 4; ++j)
              h[j] = y(a, t) * h[j] + gate(a, t, j) * x(a, t, i);
          });
        });
  same3("dim U = C\n z = gated_delta_rule[B, C, U](x, sigmoid(x), x[C -> U], sigmoid(y), y)\n return z[U -> C]",
        [&](int a, int b, int i) {
          return recalled(a, b, [&](double *h, int t) {
            double keep = 1 / (1 + std::exp(-y(a, t))), known = 0;
            for (int j = 0; j < 4; ++j)
              known += keep * h[j] * gate(a, t, j);
            for (int j = 0; j < 4; ++j)
              h[j] = keep * h[j] + gate(a, t, j) * y(a, t) * (x(a, t, i) - known);
          });
        });
}

TEST(Semantics, Convolutions) {
  same3("return causal_taps[B, C, F](x, bias: false) @ \"w\"",
        [](int a, int b, int c) { return x(a, b, c) * (2 * c + 1) / 10 + (b ? x(a, b - 1, c) * (2 * c) / 10 : 0); });
  same3("dim S = B\n z = convolve[C, B -> C, S](x, width: 3, pad: 1) @ \"w\"\n return z[S -> B]",
        [](int a, int b, int o) {
          double s = o / 10.0; // the bias
          for (int i = 0; i < 4; ++i)
            for (int k = 0; k < 3; ++k)
              if (int at = b + k - 1; at >= 0 && at < 3)
                s += x(a, at, i) * (o * 12 + i * 3 + k) / 10;
          return s;
        });
}

TEST(Semantics, ActivationsByName) {
  same3("return activation(x, \"relu2\") + 10 * activation(x, \"quick_gelu\") + 100 * softplus(x)",
        [](int a, int b, int c) {
          double v = x(a, b, c), positive = std::max(v, 0.0);
          return positive * positive + 10 * v / (1 + std::exp(-1.702 * v)) + 100 * std::log(1 + std::exp(v));
        });
  // expm1 of a number is computed by the frontend, of a tensor by the program.
  same3("return activation(x - 2, \"elu\") + expm1(0.5) + erf(0.25)", [](int a, int b, int c) {
    double v = x(a, b, c) - 2;
    return (v > 0 ? v : std::expm1(v)) + std::expm1(0.5) + std::erf(0.25);
  });
  same3("return l2_norm[C](x, 0.5)", [](int a, int b, int c) {
    double squares = 0.5;
    for (int i = 0; i < 4; ++i)
      squares += x(a, b, i) * x(a, b, i);
    return x(a, b, c) / std::sqrt(squares);
  });
}

TEST(Semantics, StaticChoicesLeaveNoTrace) {
  same3(
      "p = index(B) + index(A) * 0\n    return twice[C](x) * real(p >= 0 and int(true) == 1) if false else x",
      [](int a, int b, int c) { return x(a, b, c); }, "  block twice[I](x: [.., I]) { return x + x }");
  same3("return x + 0 * sum[C](values[C]([1, 2.5, 3, 4]) * x)", [](int a, int b, int c) { return x(a, b, c); });
  same3("z, one = (x, 1) if 2 not in [1, 3] else (2 * x, 3)\n    return z * one",
        [](int a, int b, int c) { return x(a, b, c); });
  same3("a, b = (x, y) if 1 not in [1, 3] else (y * 2, x * 3)\n    return a + b",
        [](int a, int b, int c) { return 2 * y(a, b) + 3 * x(a, b, c); });
  same2("return y * real(bool(n)) + int(bool(0)) + int(bool(2.5))",
        [](int a, int b) { return (n[a][b] ? y(a, b) : 0) + 1; });
  same3("return where(true, x, y * x)", [](int a, int b, int c) { return x(a, b, c); });
  same3("return where(index(B) < B // 2, x, real(A * 10 + B))",
        [](int a, int b, int c) { return b < 1 ? x(a, b, c) : 23; });
}

TEST(Semantics, FormalsOfModelBlocksDoNotMeetTheModelsNames) {
  // Inside f, B is the model's dimension and I another of the same size: an outer product, summed over both.
  same2(
      "return y * 0 + sum[A](f[B](y))",
      [](int, int) {
        double sum = 0;
        for (int a = 0; a < 2; ++a)
          for (int b = 0; b < 3; ++b)
            sum += y(a, b) * 3; // index(B) = 0, 1, 2
        return sum;
      },
      "  block f[I](v: [.., I]) { return sum[I](sum[B](v * index(B))) }");
}

} // namespace
