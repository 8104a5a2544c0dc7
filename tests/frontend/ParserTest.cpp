// Reading: trees, line ends, recovery.
#include "Support.h"

#include "frontend/syntax/Parser.h"

using namespace quern::frontend;
using namespace quern::frontend::testing;

namespace {

struct Parsed {
  Diagnostics diagnostics;
  Ast ast;
  explicit Parsed(const std::string &text) { ast = parse(std::make_shared<Source>("case.quern", text), diagnostics); }
};

/// A tree as text with all brackets.
std::string show(const Expr &expr) {
  switch (expr.kind) {
  case Expr::Integer:
    return std::to_string(expr.as<IntegerExpr>().value);
  case Expr::Variable:
  case Expr::DimName:
    return expr.as<NamedExpr>().name;
  case Expr::Unary:
    return std::string("(") + spelling(expr.as<UnaryExpr>().op) + " " + show(*expr.as<UnaryExpr>().value) + ")";
  case Expr::Binary:
    return "(" + show(*expr.as<BinaryExpr>().left) + " " + spelling(expr.as<BinaryExpr>().op) + " " +
           show(*expr.as<BinaryExpr>().right) + ")";
  case Expr::Chain:
    return "<" + std::to_string(expr.as<ChainExpr>().operands.size()) + ">";
  case Expr::Choose:
    return "(" + show(*expr.as<ChooseExpr>().then) + " if " + show(*expr.as<ChooseExpr>().condition) + " else " +
           show(*expr.as<ChooseExpr>().otherwise) + ")";
  case Expr::Null:
    return "null";
  case Expr::Index:
    return show(*expr.as<IndexExpr>().value) + "[" + show(*expr.as<IndexExpr>().items[0].value) + "]";
  case Expr::Unit:
    return "1";
  case Expr::Call:
    return expr.as<CallExpr>().name + "(...)" + (expr.as<CallExpr>().path.empty() ? "" : "@");
  default:
    return expr.isDim() ? dimText(expr) : "?";
  }
}

std::string tree(const std::string &expression) {
  Parsed parsed("quern 1\nmodel m {\n  y = " + expression + "\n}\n");
  if (parsed.diagnostics.hasErrors())
    return outcomeOf(parsed.diagnostics).text;
  return show(*parsed.ast.models[0].statements[0]->as<AssignStmt>().values[0]);
}

TEST(Parser, BindsOperatorsAsTheReferenceSays) {
  EXPECT_EQ(tree("-x ^ 2"), "(- (x ^ 2))");
  EXPECT_EQ(tree("2 ^ -1 ^ 2"), "(2 ^ (- (1 ^ 2)))");
  EXPECT_EQ(tree("-7 // 2"), "((- 7) // 2)");
  EXPECT_EQ(tree("a ?? b == c"), "(a ?? (b == c))");
  EXPECT_EQ(tree("a ?? b if c else d"), "((a ?? b) if c else d)");
  EXPECT_EQ(tree("a + b * c - d"), "((a + (b * c)) - d)");
  EXPECT_EQ(tree("not a and b or c"), "(((not a) and b) or c)");
  EXPECT_EQ(tree("a <= b < c"), "<3>");
  EXPECT_EQ(tree("a if b else c if d else e"), "(a if b else (c if d else e))");
  EXPECT_EQ(tree("f(x) @ \"p\" * 2"), "(f(...)@ * 2)");
}

TEST(Parser, BracketsHoldDimensionsOrPositions) {
  EXPECT_EQ(tree("x[K]"), "x[K]");
  EXPECT_EQ(tree("list[K - 1]"), "list[(K - 1)]");
  EXPECT_EQ(tree("list[1]"), "list[1]");
  EXPECT_EQ(tree("list[(1 + i) % 2]"), "list[((1 + i) % 2)]");
  EXPECT_EQ(tree("x[(H, K + K)]"), "x[(H, K + K)]");
}

TEST(Parser, LinesEndStatementsUnlessSomethingIsOpen) {
  Parsed parsed("quern 1\nmodel m {\n  a = 1 +\n    2\n  b = f(3,\n    4)\n  c, d = 1,\n    2\n  if a == 3 { e = 1 }\n "
                " else { e = 2 }\n}\n");
  EXPECT_FALSE(parsed.diagnostics.hasErrors()) << outcomeOf(parsed.diagnostics).text;
  EXPECT_EQ(parsed.ast.models[0].statements.size(), 4u);
  EXPECT_EQ(parsed.ast.models[0].statements[3]->as<IfStmt>().otherwise.size(), 1u);
}

TEST(Parser, GoesOnAtTheNextStatementOfTheSameDepth) {
  Parsed parsed("quern 1\nmodel m {\n  forward(x: [B]) -> [B] {\n    a = (1 + \n    b = ]\n    repeat i of 3 {\n      "
                "c = 1\n    }\n    d = 4\n  }\n"
                "  block g(x: [..) { return x }\n  block h(x: [..]) { return x }\n}\n");
  EXPECT_EQ(parsed.diagnostics.errorCount(), 4u) << outcomeOf(parsed.diagnostics).text;
  EXPECT_NE(outcomeOf(parsed.diagnostics).text.find("case.quern:4:9: error Q002: this '(' is not closed"),
            std::string::npos);
  ASSERT_EQ(parsed.ast.models.size(), 1u);
  EXPECT_EQ(parsed.ast.models[0].functions[0]->body.back()->kind, Stmt::Assign);
  EXPECT_EQ(parsed.ast.models[0].blocks.back()->name, "h");
}

TEST(Parser, StringsHoldExpressionsAndEscapes) {
  Parsed parsed("quern 1\nmodel m {\n  a = \"h.{i + 1}.w\\\"\\{x}\"\n}\n");
  ASSERT_FALSE(parsed.diagnostics.hasErrors()) << outcomeOf(parsed.diagnostics).text;
  auto &string = parsed.ast.models[0].statements[0]->as<AssignStmt>().values[0]->as<StringExpr>();
  EXPECT_EQ(string.texts, (std::vector<std::string>{"h.", ".w\"{x}"}));
  EXPECT_EQ(show(*string.values[0]), "(i + 1)");
  EXPECT_EQ(string.values[0]->at.str(), "case.quern:3:11");
}

TEST(Parser, ReadsEveryFormOfTheGrammar) {
  Parsed parsed(R"(quern 1
block f[A, C -> D, E](x: [.., A], n: int[..], m: bool[] = true, eps = 1e-5) { return x }
model m @ "a" | ("b") {
  config { a = 1, b @ "x" | "y.z" = null
    c == false
    ignore "p", "q*" }
  ignore "*.bias"
  dim V = a, W = 2
  param w: [V, (W, V), 1] @ "w" | "v" ~ uniform(0.1)
  block g() { return 1 }
  forward(t: int[B, T], k: bool[B, T] = true) -> [B, T] {
    repeat i in 1..3 @ "l.{i}" { t = t[T: 1..T -> T, B = 0][T -> (W, 1 + 1)] }
    if a == 1 { t = t } else if a == 2 { t = t } else { t = t }
    require a in [1, 2], "a is {a}"
    _, u: int[..] = t
    return t
  }
})");
  EXPECT_EQ(parsed.diagnostics.errorCount(), 1u)
      << outcomeOf(parsed.diagnostics).text; // a type stands after one name only
}

} // namespace
