// Differentiation: every rule against central differences, loops, ties and infinities exactly, and that no operation of
// the dialect is without a rule or a reason.
#include "passes/Phases.h"
#include "passes/gradient/Differentiate.h"
#include "tests/passes/Support.h"
#include "tools/interpret/GradCheck.h"

#include <cmath>

using namespace quern::passes;
using namespace quern::passes::test;
using namespace quern::tools;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

/// A loss: parameters by name and type, a body that makes %r. Names that begin with p are positive numbers.
struct Case {
  std::string name;
  std::vector<std::pair<std::string, std::string>> parameters;
  std::string body, type; ///< %r's type
};

std::string tensor(const std::string &type) {
  return "!quern.tensor<" + type + ">";
}

/// The body with `<...>` types spelled out, and as the loss the sum of %r times a weight of its own for each element.
std::string moduleText(const Case &c) {
  std::string text = "module attributes {quern.train} {\nfunc.func @loss() -> !quern.tensor<real[]> {\n";
  for (const auto &[name, type] : c.parameters)
    text += "  %" + name + " = quern.param [[\"" + name + "\"]] : " + tensor(type) + "\n";
  text += c.body + "\n";
  std::string dims;
  for (size_t at = c.type.find('['); at != std::string::npos && c.type[at + 1] != ']'; at = c.type.find(',', at + 1)) {
    size_t from = c.type.find_first_not_of(" [,", at), to = c.type.find_first_of(" ,=]", from);
    dims += (dims.empty() ? "\"" : ", \"") + c.type.substr(from, to - from) + "\"";
  }
  text += "  %weight = quern.param [[\"weight\"]] : " + tensor(c.type) +
          "\n  %sum = quern.contract %r, %weight over [" + dims + "] : (" + tensor(c.type) + ", " + tensor(c.type) +
          ") -> !quern.tensor<real[]>\n";
  return text + "  return %sum : !quern.tensor<real[]>\n}\n}";
}

std::vector<double> numbersFor(llvm::StringRef name, int64_t count) {
  std::vector<double> numbers = madeUp(name, count, 1);
  if (name.starts_with("p"))
    for (double &number : numbers)
      number = 0.4 + std::fabs(number);
  return numbers;
}

std::optional<std::vector<double>> lookup(llvm::ArrayRef<std::string> names, llvm::ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return numbersFor(names.front(), count);
}

void differentiate(Program &program) {
  std::vector<std::unique_ptr<mlir::Pass>> passes;
  passes.push_back(createDifferentiatePass());
  program.run(std::move(passes));
}

double worstError(const std::string &text) {
  Program program(text);
  differentiate(program);
  GradCheckOptions options;
  options.parameters = lookup;
  auto errors = checkGradients(program.module(), options);
  if (failed(errors) || errors->empty()) {
    ADD_FAILURE() << text;
    return INFINITY;
  }
  double worst = 0;
  for (const GradientError &error : *errors)
    worst = std::isnan(error.error) ? INFINITY : std::max(worst, error.error);
  return worst;
}

const std::string ab = tensor("real[A = 2, B = 3]"), a = tensor("real[A = 2]"), bc = tensor("real[B = 3, C = 2]");

Case unary(const std::string &op, const std::string &parameter = "x") {
  return {op,
          {{parameter, "real[A = 2, B = 3]"}},
          "  %r = quern." + op + " %" + parameter + " : (" + ab + ") -> " + ab,
          "real[A = 2, B = 3]"};
}

/// Operands that lack names of the other, and one that has them all.
std::vector<Case> binary(const std::string &op, const std::string &first = "x", const std::string &second = "y") {
  std::string abc = tensor("real[A = 2, B = 3, C = 2]");
  return {{op,
           {{first, "real[A = 2, B = 3]"}, {second, "real[B = 3, C = 2]"}},
           "  %r = quern." + op + " %" + first + ", %" + second + " : (" + ab + ", " + bc + ") -> " + abc,
           "real[A = 2, B = 3, C = 2]"},
          {op + "_twice",
           {{first, "real[A = 2, B = 3]"}},
           "  %r = quern." + op + " %" + first + ", %" + first + " : (" + ab + ", " + ab + ") -> " + ab,
           "real[A = 2, B = 3]"},
          {op + "_scalar",
           {{first, "real[]"}, {second, "real[A = 2, B = 3]"}},
           "  %r = quern." + op + " %" + first + ", %" + second + " : (!quern.tensor<real[]>, " + ab + ") -> " + ab,
           "real[A = 2, B = 3]"}};
}

Case one(const std::string &name, const std::string &body, const std::string &type,
         const std::string &from = "real[A = 2, B = 3]") {
  return {name, {{"x", from}}, body, type};
}

/// Scores that learn in each way that the rule knows, and in one that it does not.
std::vector<Case> attentions() {
  std::string ts = tensor("real[T = 2, S = 3]"), t = tensor("real[T = 2]"), s = tensor("real[S = 3]"),
              r = "real[T = 2, C = 2]";
  std::vector<std::pair<std::string, std::string>> plain = {
      {"q", "real[T = 2, K = 3]"}, {"k", "real[S = 3, K = 3]"}, {"v", "real[S = 3, C = 2]"}};
  auto with = [&](std::vector<std::pair<std::string, std::string>> more) {
    more.insert(more.begin(), plain.begin(), plain.end());
    return more;
  };
  auto attention = [&](const std::string &reading, const std::string &arguments, const std::string &body,
                       const std::string &score, const std::string &types) {
    return "  %r = quern.attention %q with %k over \"S\" of %v" + reading + " {\n  ^bb0(%x: " + ts + arguments +
           "):\n" + body + "    quern.yield %" + score + " : " + ts + "\n  } : (" + tensor("real[T = 2, K = 3]") +
           ", " + tensor("real[S = 3, K = 3]") + ", " + tensor("real[S = 3, C = 2]") + types + ") -> " + tensor(r);
  };
  auto binary = [&](const std::string &op, const std::string &to, const std::string &a, const std::string &b,
                    const std::string &type) {
    return "    %" + to + " = quern." + op + " %" + a + ", %" + b + " : (" + ts + ", " + type + ") -> " + ts + "\n";
  };
  std::string added = binary("add", "y", "x", "d", ts);
  return {{"attention", plain, attention("", "", "    %y = quern.tanh %x : (" + ts + ") -> " + ts + "\n", "y", ""), r},
          {"attention_temperature_bias_and_sink",
           with({{"heat", "real[T = 2]"}, {"bias", "real[S = 3]"}, {"sink", "real[N = 1]"}}),
           attention(" reading %heat, %bias sinks %sink [\"N\"]", ", %h: " + t + ", %b: " + s,
                     binary("mul", "y", "x", "h", t) + binary("add", "z", "y", "b", s), "z",
                     ", " + t + ", " + s + ", " + tensor("real[N = 1]")),
           r},
          {"attention_of_a_number_used_twice", with({{"heat", "real[]"}}),
           attention(" reading %heat", ", %h: " + tensor("real[]"),
                     binary("mul", "y", "x", "h", tensor("real[]")) + binary("add", "z", "y", "h", tensor("real[]")),
                     "z", ", " + tensor("real[]")),
           r},
          {"attention_with_what_is_made_of_both", with({{"a", "real[T = 2]"}, {"b", "real[S = 3]"}}),
           "  %ab = quern.mul %a, %b : (" + t + ", " + s + ") -> " + ts + "\n  %near = quern.tanh %ab : (" + ts +
               ") -> " + ts + "\n" + attention(" reading %near", ", %d: " + ts, added, "y", ", " + ts),
           r},
          {"attention_by_distance", with({{"table", "real[N = 5]"}}),
           "  %i = quern.index : !quern.tensor<int[S = 3]>\n  %j = quern.index : !quern.tensor<int[T = 2]>\n"
           "  %gap = quern.sub %i, %j : (!quern.tensor<int[S = 3]>, !quern.tensor<int[T = 2]>) -> "
           "!quern.tensor<int[S = 3, T = 2]>\n  %two = quern.size \"2\" : !quern.tensor<int[]>\n"
           "  %at = quern.add %gap, %two : (!quern.tensor<int[S = 3, T = 2]>, !quern.tensor<int[]>) -> "
           "!quern.tensor<int[S = 3, T = 2]>\n  %near = quern.gather %table[\"N\" = %at] : (" +
               tensor("real[N = 5]") + ", !quern.tensor<int[S = 3, T = 2]>) -> " + tensor("real[S = 3, T = 2]") + "\n" +
               attention(" reading %near", ", %d: " + tensor("real[S = 3, T = 2]"),
                         binary("add", "y", "x", "d", tensor("real[S = 3, T = 2]")), "y",
                         ", " + tensor("real[S = 3, T = 2]")),
           r},
          {"attention_products_of_fewer_dimensions", // one for all heads, which have temperatures of their own
           {{"q", "real[T = 2, K = 3]"},
            {"k", "real[S = 3, K = 3]"},
            {"v", "real[S = 3, H = 2, C = 2]"},
            {"heat", "real[H = 2]"}},
           "  %r = quern.attention %q with %k over \"S\" of %v reading %heat {\n  ^bb0(%x: " + ts +
               ", %h: " + tensor("real[H = 2]") + "):\n    %y = quern.mul %x, %h : (" + ts + ", " +
               tensor("real[H = 2]") + ") -> " + tensor("real[T = 2, S = 3, H = 2]") + "\n    quern.yield %y : " +
               tensor("real[T = 2, S = 3, H = 2]") + "\n  } : (" + tensor("real[T = 2, K = 3]") + ", " +
               tensor("real[S = 3, K = 3]") + ", " + tensor("real[S = 3, H = 2, C = 2]") + ", " +
               tensor("real[H = 2]") + ") -> " + tensor("real[T = 2, H = 2, C = 2]"),
           "real[T = 2, H = 2, C = 2]"},
          {"attention_with_a_number_for_each_pair", // stored: by the rules of its plain operations
           with({{"near", "real[T = 2, S = 3]"}, {"sink", "real[T = 2, N = 1]"}}),
           attention(" reading %near sinks %sink [\"N\"]", ", %d: " + ts, added, "y",
                     ", " + ts + ", " + tensor("real[T = 2, N = 1]")),
           r}};
}

std::vector<Case> allCases() {
  std::vector<Case> cases = {unary("neg"),    unary("abs"),        unary("exp"),       unary("log", "p"),
                             unary("expm1"),  unary("log1p", "p"), unary("sqrt", "p"), unary("sin"),
                             unary("cos"),    unary("tanh"),       unary("sigmoid"),   unary("erf"),
                             unary("to_real")};
  for (const char *op : {"add", "sub", "mul", "max", "min"})
    for (Case &c : binary(op))
      if (c.name != "max_twice" && c.name != "min_twice" &&
          c.name != "sub_twice") // a tie everywhere, or zero: exactly, below
        cases.push_back(c);
  for (Case &c : binary("div", "x", "p"))
    cases.push_back(c);
  for (Case &c : binary("pow", "p", "y"))
    cases.push_back(c);
  std::string compare =
      "  %c = quern.compare gt %x, %y : (" + ab + ", " + a + ") -> !quern.tensor<bool[A = 2, B = 3]>\n";
  cases.push_back(
      {"where",
       {{"x", "real[A = 2, B = 3]"}, {"y", "real[A = 2]"}},
       compare + "  %r = quern.where %c, %x, %y : (!quern.tensor<bool[A = 2, B = 3]>, " + ab + ", " + a + ") -> " + ab,
       "real[A = 2, B = 3]"});
  for (const char *how : {"sum", "mean", "max", "min"}) {
    cases.push_back(one(std::string("reduce_") + how,
                        std::string("  %r = quern.reduce ") + how + " %x over [\"B\"] : (" + ab + ") -> " + a,
                        "real[A = 2]"));
    cases.push_back(one(std::string("reduce_all_") + how,
                        std::string("  %r = quern.reduce ") + how + " %x over [\"A\", \"B\"] : (" + ab +
                            ") -> !quern.tensor<real[]>",
                        "real[]"));
  }
  for (int n : {0, 1, 2, 3, -2})
    cases.push_back({"pow_" + std::to_string(n + 2),
                     {{"p", "real[A = 2]"}},
                     "  %n = quern.const " + std::to_string(n) +
                         " : i64 -> !quern.tensor<int[]>\n  %r = quern.pow %p, %n : (" + a +
                         ", !quern.tensor<int[]>) -> " + a,
                     "real[A = 2]"});
  cases.push_back(
      {"contract",
       {{"x", "real[A = 2, B = 3]"}, {"y", "real[B = 3, C = 2]"}},
       "  %r = quern.contract %x, %y over [\"B\"] : (" + ab + ", " + bc + ") -> !quern.tensor<real[A = 2, C = 2]>",
       "real[A = 2, C = 2]"});
  cases.push_back(
      {"contract_one_side",
       {{"x", "real[A = 2, B = 3]"}, {"y", "real[B = 3, C = 2]"}},
       "  %r = quern.contract %x, %y over [\"A\", \"C\"] : (" + ab + ", " + bc + ") -> !quern.tensor<real[B = 3]>",
       "real[B = 3]"});
  cases.push_back({"contract_square",
                   {{"x", "real[A = 2, B = 3]"}},
                   "  %r = quern.contract %x, %x over [\"B\"] : (" + ab + ", " + ab + ") -> " + a,
                   "real[A = 2]"});
  cases.push_back(one("softmax", "  %r = quern.softmax %x over [\"B\"] : (" + ab + ") -> " + ab, "real[A = 2, B = 3]"));
  cases.push_back(
      one("softmax_both", "  %r = quern.softmax %x over [\"B\", \"A\"] : (" + ab + ") -> " + ab, "real[A = 2, B = 3]"));
  for (Case &c : attentions())
    cases.push_back(c);
  cases.push_back(one("cumsum", "  %r = quern.cumsum %x along \"B\" : (" + ab + ") -> " + ab, "real[A = 2, B = 3]"));
  cases.push_back(one("cumsum_reverse", "  %r = quern.cumsum %x along \"B\" reverse : (" + ab + ") -> " + ab,
                      "real[A = 2, B = 3]"));
  // A state, what it reads at each position and everywhere, and both what it leaves and what it gives on the way.
  for (std::string reversed : {"", "reversed "})
    cases.push_back(
        {reversed.empty() ? "scan" : "scan_from_end",
         {{"h", "real[A = 2]"}, {"x", "real[A = 2, B = 3]"}, {"w", "real[A = 2]"}},
         "  %last, %all = quern.scan <B = 3> " + reversed + "carry %h over %x reading %w {\n  ^bb0(%s: " + a +
             ", %u: " + a + ", %k: " + a + "):\n    %t = quern.tanh %s : (" + a + ") -> " + a +
             "\n    %m = quern.mul %t, %k : (" + a + ", " + a + ") -> " + a + "\n    %n = quern.add %m, %u : (" + a +
             ", " + a + ") -> " + a + "\n    %y = quern.mul %n, %s : (" + a + ", " + a + ") -> " + a +
             "\n    quern.yield %n, %y : " + a + ", " + a + "\n  } : (" + a + ", " + ab + ", " + a + ") -> (" + a +
             ", " + ab + ")\n  %r = quern.add %all, %last : (" + ab + ", " + a + ") -> " + ab,
         "real[A = 2, B = 3]"});
  std::string top = tensor("real[A = 2, C = 2]");
  cases.push_back(one("top_k",
                      "  %r, %i = quern.top_k %x along \"B\" into <C = 2> : (" + ab + ") -> (" + top +
                          ", !quern.tensor<int[A = 2, C = 2]>)",
                      "real[A = 2, C = 2]"));
  // Positions of one value by another: duplicates, and a name that both have.
  std::string at = "  %j, %at = quern.top_k %y along \"B\" into <C = 2> : (" + ab + ") -> (" + top +
                   ", !quern.tensor<int[A = 2, C = 2]>)\n";
  cases.push_back(
      {"gather_shared",
       {{"x", "real[A = 2, B = 3]"}, {"y", "real[A = 2, B = 3]"}},
       at + "  %r = quern.gather %x[\"B\" = %at] : (" + ab + ", !quern.tensor<int[A = 2, C = 2]>) -> " + top,
       "real[A = 2, C = 2]"});
  cases.push_back({"gather_duplicates",
                   {{"x", "real[B = 3, D = 2]"}, {"y", "real[A = 2, B = 3]"}},
                   at + "  %r = quern.gather %x[\"B\" = %at] : (!quern.tensor<real[B = 3, D = 2]>, !quern.tensor<int[A "
                        "= 2, C = 2]>) -> "
                        "!quern.tensor<real[A = 2, C = 2, D = 2]>",
                   "real[A = 2, C = 2, D = 2]"});
  cases.push_back(
      one("gather_own_name",
          "  %i = quern.index : !quern.tensor<int[B = 3]>\n  %one = quern.const 1 : i64 -> !quern.tensor<int[]>\n"
          "  %h = quern.min %i, %one : (!quern.tensor<int[B = 3]>, !quern.tensor<int[]>) -> !quern.tensor<int[B = 3]>\n"
          "  %r = quern.gather %x[\"B\" = %h] : (" +
              ab + ", !quern.tensor<int[B = 3]>) -> " + ab,
          "real[A = 2, B = 3]"));
  cases.push_back(one("gather_number",
                      "  %n = quern.const 2 : i64 -> !quern.tensor<int[]>\n"
                      "  %r = quern.gather %x[\"B\" = %n] : (" +
                          ab + ", !quern.tensor<int[]>) -> " + a,
                      "real[A = 2]"));
  // Weights that rows pick (experts): by themselves, for several rows at once, there and back.
  std::string table = tensor("real[B = 3, F = 2, D = 2]"), picked = tensor("real[A = 2, C = 2, F = 2, D = 2]"),
              rows = tensor("real[A = 2, D = 2]");
  std::string several = tensor("real[A = 2, H = 3, D = 2]"), hidden = tensor("real[A = 2, C = 2, F = 2]");
  std::string pick = at + "  %u = quern.gather %w[\"B\" = %at] : (" + table +
                     ", !quern.tensor<int[A = 2, C = 2]>) -> " + picked + "\n";
  std::string there = "quern.contract %x, %u over [\"D\"] : (" + rows + ", " + picked + ") -> " + hidden;
  cases.push_back({"contract_routed",
                   {{"x", "real[A = 2, D = 2]"}, {"w", "real[B = 3, F = 2, D = 2]"}, {"y", "real[A = 2, B = 3]"}},
                   pick + "  %r = " + there,
                   "real[A = 2, C = 2, F = 2]"});
  cases.push_back(
      {"contract_routed_shared",
       {{"x", "real[A = 2, H = 3, D = 2]"}, {"w", "real[B = 3, F = 2, D = 2]"}, {"y", "real[A = 2, B = 3]"}},
       pick + "  %r = quern.contract %x, %u over [\"D\"] : (" + several + ", " + picked +
           ") -> !quern.tensor<real[A = 2, H = 3, C = 2, F = 2]>",
       "real[A = 2, H = 3, C = 2, F = 2]"});
  cases.push_back({"contract_routed_back",
                   {{"x", "real[A = 2, D = 2]"}, {"w", "real[B = 3, F = 2, D = 2]"}, {"y", "real[A = 2, B = 3]"}},
                   pick + "  %h = " + there + "\n  %r = quern.contract %h, %u over [\"F\"] : (" + hidden + ", " +
                       picked + ") -> !quern.tensor<real[A = 2, C = 2, D = 2]>",
                   "real[A = 2, C = 2, D = 2]"});
  cases.push_back(
      {"scatter_add",
       {{"x", "real[A = 2, D = 2]"}, {"y", "real[A = 2, B = 3]"}},
       at + "  %r = quern.scatter_add %x at %at over [\"A\", \"C\"] into <V = 4> : (!quern.tensor<real[A = 2, D = 2]>, "
            "!quern.tensor<int[A = 2, C = 2]>) -> !quern.tensor<real[V = 4, D = 2]>",
       "real[V = 4, D = 2]"});
  cases.push_back(one("rename",
                      "  %r = quern.rename %x [\"A\", \"B\"] to [#quern.dim<S = 2>, #quern.dim<A = 3>] : (" + ab +
                          ") -> !quern.tensor<real[S = 2, A = 3]>",
                      "real[S = 2, A = 3]"));
  std::string wide = tensor("real[D = 6, A = 2]"), split = tensor("real[H = 2, K = 3, A = 2]");
  cases.push_back(one(
      "split", "  %r = quern.split %x \"D\" into [#quern.dim<H = 2>, #quern.dim<K = 3>] : (" + wide + ") -> " + split,
      "real[H = 2, K = 3, A = 2]", "real[D = 6, A = 2]"));
  cases.push_back(
      one("merge",
          "  %r = quern.merge %x [\"K\", \"H\"] into <D = 6> : (" + split + ") -> !quern.tensor<real[D = 6, A = 2]>",
          "real[D = 6, A = 2]", "real[H = 2, K = 3, A = 2]"));
  std::string part = tensor("real[J = 3, A = 2]");
  cases.push_back(one("cut", "  %r = quern.cut %x \"D\" at \"2\" into <J = 3> : (" + wide + ") -> " + part,
                      "real[J = 3, A = 2]", "real[D = 6, A = 2]"));
  cases.push_back(one("cut_tiles",
                      "  %p0 = quern.cut %x \"D\" at \"0\" into <J = 3> : (" + wide + ") -> " + part +
                          "\n  %p1 = quern.cut %x \"D\" at \"3\" into <J = 3> : (" + wide + ") -> " + part +
                          "\n  %r = quern.mul %p0, %p1 : (" + part + ", " + part + ") -> " + part,
                      "real[J = 3, A = 2]", "real[D = 6, A = 2]"));
  cases.push_back(one("cut_overlaps",
                      "  %p0 = quern.cut %x \"D\" at \"0\" into <J = 3> : (" + wide + ") -> " + part +
                          "\n  %p1 = quern.cut %x \"D\" at \"1\" into <J = 3> : (" + wide + ") -> " + part +
                          "\n  %r = quern.mul %p0, %p1 : (" + part + ", " + part + ") -> " + part,
                      "real[J = 3, A = 2]", "real[D = 6, A = 2]"));
  // The second operand lacks A, and B is no part of the first: repeated.
  cases.push_back({"concat",
                   {{"x", "real[J = 2, A = 2]"}, {"y", "real[J = 3]"}},
                   "  %r = quern.concat %x, %y [\"J\", \"J\"] into <D = 5> : (!quern.tensor<real[J = 2, A = 2]>, "
                   "!quern.tensor<real[J = 3]>) -> !quern.tensor<real[D = 5, A = 2]>",
                   "real[D = 5, A = 2]"});
  cases.push_back(one("unit",
                      "  %r = quern.unit %x into <U = 1> : (" + ab + ") -> !quern.tensor<real[A = 2, B = 3, U = 1]>",
                      "real[A = 2, B = 3, U = 1]"));
  cases.push_back(one("squeeze", "  %r = quern.squeeze %x \"U\" : (!quern.tensor<real[A = 2, U = 1]>) -> " + a,
                      "real[A = 2]", "real[A = 2, U = 1]"));
  cases.push_back(one("expand", "  %r = quern.expand %x : (" + a + ") -> " + ab, "real[A = 2, B = 3]", "real[A = 2]"));
  cases.push_back(one("permute", "  %r = quern.permute %x : (" + ab + ") -> !quern.tensor<real[B = 3, A = 2]>",
                      "real[B = 3, A = 2]"));
  // Loops: parameters of each iteration and of all iterations, a value from outside, two carried, one only handed on.
  std::string loop = "  %e = quern.exp %x : (" + a + ") -> " + a + "\n" +
                     "  %r, %s, %k = quern.repeat 3 carry (%c = %x, %d = %y, %h = %x) : " + a + ", " + a + ", " + a +
                     " {\n"
                     "    %w = quern.param [[\"h.0\"], [\"h.1\"], [\"h.2\"]] : " +
                     a + "\n    %v = quern.param [[\"v\"], [\"v\"], [\"v\"]] : " + a +
                     "\n"
                     "    %0 = quern.mul %c, %w : (" +
                     a + ", " + a + ") -> " + a + "\n    %1 = quern.add %0, %e : (" + a + ", " + a + ") -> " + a +
                     "\n"
                     "    %2 = quern.tanh %1 : (" +
                     a + ") -> " + a + "\n    %3 = quern.mul %d, %v : (" + a + ", " + a + ") -> " + a +
                     "\n"
                     "    %4 = quern.mul %3, %2 : (" +
                     a + ", " + a + ") -> " + a + "\n    quern.yield %4, %2, %h : " + a + ", " + a + ", " + a + "\n  }";
  cases.push_back({"repeat", {{"x", "real[A = 2]"}, {"y", "real[A = 2]"}}, loop, "real[A = 2]"});
  std::string nested = "  %r = quern.repeat 2 carry (%c = %x) : " + a +
                       " {\n    %o = quern.param [[\"o.0\"], [\"o.1\"]] : " + a +
                       "\n"
                       "    %m = quern.repeat 2 carry (%d = %c) : " +
                       a + " {\n      %w = quern.param [[\"w.0\"], [\"w.1\"], [\"w.2\"], [\"w.3\"]] : " + a +
                       "\n"
                       "      %0 = quern.mul %d, %w : (" +
                       a + ", " + a + ") -> " + a + "\n      %1 = quern.mul %0, %o : (" + a + ", " + a + ") -> " + a +
                       "\n"
                       "      %2 = quern.sin %1 : (" +
                       a + ") -> " + a + "\n      quern.yield %2 : " + a + "\n    }\n    %q = quern.mul %m, %c : (" +
                       a + ", " + a + ") -> " + a +
                       "\n"
                       "    quern.yield %q : " +
                       a + "\n  }";
  cases.push_back({"repeat_nested", {{"x", "real[A = 2]"}}, nested, "real[A = 2]"});
  return cases;
}

struct Rules : testing::TestWithParam<Case> {};
TEST_P(Rules, AgreeWithDifferences) {
  EXPECT_LT(worstError(moduleText(GetParam())), 1e-6) << moduleText(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Gradients, Rules, testing::ValuesIn(allCases()),
                         [](const auto &info) { return info.param.name; });

TEST(Gradients, EveryOperationHasARuleOrAReason) {
  Program program("module {}");
  int operations = 0;
  for (mlir::RegisteredOperationName name : program.module()->getContext()->getRegisteredOperations()) {
    if (name.getDialectNamespace() != "quern")
      continue;
    ++operations;
    EXPECT_TRUE(gradientRules().contains(name.getStringRef().drop_front(6))) << name.getStringRef().str();
  }
  EXPECT_EQ(operations, static_cast<int>(gradientRules().size())) << "the table names an operation that does not exist";
}

TEST(Gradients, EveryRuleIsCheckedAbove) {
  std::string bodies;
  for (const Case &c : allCases())
    bodies += c.body;
  for (const auto &entry : gradientRules())
    if (entry.second.rule) {
      EXPECT_THAT(bodies, HasSubstr("quern." + entry.first().str() + " "));
    }
}

/// The gradient of the sum of %r with respect to %x = `at`.
std::vector<double> gradientAt(std::vector<double> at, const std::string &body) {
  std::string type = "real[A = " + std::to_string(at.size()) + "]", t = tensor(type), text = body;
  for (size_t place; (place = text.find("$t")) != std::string::npos;)
    text.replace(place, 2, t);
  Program program("module attributes {quern.train} {\nfunc.func @loss() -> !quern.tensor<real[]> {\n  %x = quern.param "
                  "[[\"x\"]] : " +
                  t + "\n  %zero = quern.const 0.0 : f64 -> !quern.tensor<real[]>\n" + text +
                  "\n  %s = quern.reduce sum %r over [\"A\"] : (" + t +
                  ") -> !quern.tensor<real[]>\n  return %s : !quern.tensor<real[]>\n}\n}");
  differentiate(program);
  quern::ir::Interpreter interpreter(program.module());
  interpreter.setParameters([&](auto, auto) { return std::optional(at); });
  auto results = interpreter.run(program.function("loss.grad"), {});
  EXPECT_TRUE(succeeded(results));
  return succeeded(results) ? storedGradients(program.function("loss.grad"), *results).at(0).numbers
                            : std::vector<double>();
}

TEST(Gradients, TiesGoToTheSecond) {
  EXPECT_THAT(gradientAt({-1, 0, 1}, "  %r = quern.max %x, %zero : ($t, !quern.tensor<real[]>) -> $t"),
              ElementsAre(0, 0, 1));
  EXPECT_THAT(gradientAt({-1, 0, 1}, "  %r = quern.min %x, %zero : ($t, !quern.tensor<real[]>) -> $t"),
              ElementsAre(1, 0, 0));
  EXPECT_THAT(gradientAt({-1, 0, 1}, "  %r = quern.max %x, %x : ($t, $t) -> $t"), ElementsAre(1, 1, 1));
  EXPECT_THAT(gradientAt({-2, 0, 3}, "  %r = quern.abs %x : ($t) -> $t"), ElementsAre(-1, 0, 1));
}

TEST(Gradients, WhatCancelsIsZero) {
  EXPECT_THAT(gradientAt({-1, 0, 1}, "  %r = quern.sub %x, %x : ($t, $t) -> $t"), ElementsAre(0, 0, 0));
}

TEST(Gradients, EqualsShareAReduction) {
  EXPECT_THAT(gradientAt({2, 1, 2}, "  %m = quern.reduce max %x over [\"A\"] : ($t) -> !quern.tensor<real[]>\n"
                                    "  %r = quern.expand %m : (!quern.tensor<real[]>) -> $t"),
              ElementsAre(1.5, 0, 1.5));
}

TEST(Gradients, WhereTakesNothingFromTheSideNotChosen) {
  for (const char *function : {"log", "sqrt"}) // infinite slope, or no number, at 0 and below
    EXPECT_THAT(gradientAt({-1, 0, 4}, std::string("  %c = quern.compare gt %x, %zero : ($t, !quern.tensor<real[]>) -> "
                                                   "!quern.tensor<bool[A = 3]>\n  %l = quern.") +
                                           function +
                                           " %x : ($t) -> $t\n  %r = quern.where %c, %l, %zero : (!quern.tensor<bool[A "
                                           "= 3]>, $t, !quern.tensor<real[]>) -> $t"),
                ElementsAre(0, 0, 0.25));
  EXPECT_THAT(
      gradientAt({0, 2},
                 "  %c = quern.compare gt %x, %zero : ($t, !quern.tensor<real[]>) -> !quern.tensor<bool[A = 2]>\n"
                 "  %one = quern.const 1.0 : f64 -> !quern.tensor<real[]>\n  %q = quern.div %one, %x : "
                 "(!quern.tensor<real[]>, $t) -> $t\n"
                 "  %r = quern.where %c, %q, %zero : (!quern.tensor<bool[A = 2]>, $t, !quern.tensor<real[]>) -> $t"),
      ElementsAre(0, -0.25));
}

TEST(Gradients, ARowOfNothingHasNone) {
  EXPECT_THAT(
      gradientAt({1, 2},
                 "  %c = quern.compare lt %x, %zero : ($t, !quern.tensor<real[]>) -> !quern.tensor<bool[A = 2]>\n"
                 "  %inf = quern.const 0xFFF0000000000000 : f64 -> !quern.tensor<real[]>\n"
                 "  %m = quern.where %c, %x, %inf : (!quern.tensor<bool[A = 2]>, $t, !quern.tensor<real[]>) -> $t\n"
                 "  %r = quern.softmax %m over [\"A\"] : ($t) -> $t"),
      ElementsAre(0, 0));
}

TEST(Gradients, AParameterWithoutAnyIsZero) {
  EXPECT_THAT(gradientAt({1, 2}, "  %i = quern.to_int %x : ($t) -> !quern.tensor<int[A = 2]>\n"
                                 "  %r = quern.to_real %i : (!quern.tensor<int[A = 2]>) -> $t"),
              ElementsAre(0, 0));
}

TEST(Gradients, OnlyOnRequest) {
  Program program("func.func @loss() -> !quern.tensor<real[]> {\n  %x = quern.param [[\"x\"]] : "
                  "!quern.tensor<real[]>\n  return %x : !quern.tensor<real[]>\n}");
  differentiate(program);
  EXPECT_FALSE(program.function("loss.grad"));
}

} // namespace
