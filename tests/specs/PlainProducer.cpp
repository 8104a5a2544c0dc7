// Takes: a kernel's graph. Gives: C that copies every argument to doubles, computes every node into an array of its own and
// stores the results.
#include "tests/specs/PlainProducer.h"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <stdexcept>

using namespace quern::codegen;

namespace {
/// C expressions of positions by the names of dimensions.
using Place = std::map<std::string, std::string>;

const char *const prelude = R"(#include <math.h>
#include <stdint.h>
#include <stdlib.h>
struct dim { int32_t min, extent, stride; uint32_t flags; };
struct buffer { uint64_t device; void *interface; uint8_t *host; uint64_t flags; uint32_t type; int32_t rank; struct dim *dim; void *padding; };
static double fdiv_(double a, double b) { return b == 0 ? 0 : floor(a / b); }
static double clamp_(double a, double most) { return a < 0 ? 0 : a > most ? most : a; }
)";

/// "exp_" and so on: the real functions, in C.
std::string realFunctions() {
  std::string text;
#define QUERN_REAL_FUNCTION(NAME, WORD, VALUE) text += "static double " #WORD "_(double x) { return " #VALUE "; }\n";
  QUERN_REAL_FUNCTIONS(QUERN_REAL_FUNCTION)
#undef QUERN_REAL_FUNCTION
  for (size_t at; (at = text.find("std::")) != std::string::npos;)
    text.erase(at, 5);
  return text;
}

class Writer {
public:
  Writer(const KernelGraph &graph, const std::string &symbol) : graph(graph), symbol(symbol) {}
  std::string write();

private:
  static std::string var(const std::string &name) {
    std::string text = "i_";
    for (char c : name)
      text += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
    return text;
  }
  static std::string number(double value) {
    std::ostringstream text;
    text.precision(17);
    text << value;
    return std::isnan(value) ? "NAN" : std::isinf(value) ? (value < 0 ? "(-INFINITY)" : "INFINITY") : text.str();
  }
  std::string size(const quern::ir::Size &size) const {
    std::string sum = "(0L";
    for (const auto &[monomial, coefficient] : size.getTerms()) {
      sum += " + " + std::to_string(coefficient) + "L";
      for (const std::string &factor : monomial)
        sum += " * " + var(factor);
    }
    return sum + ")";
  }
  static std::string array(int node) { return "v" + std::to_string(node); }
  std::string offset(int node, const Place &at) const {
    std::string text = "0L";
    for (const Dim &dim : graph.nodes[node].dims)
      text = "(" + text + ") * " + size(dim.size) + " + (" + at.at(dim.name) + ")";
    return text;
  }
  std::string read(int node, const Place &at) const { return array(node) + "[" + offset(node, at) + "]"; }
  static Place placeOf(const std::vector<Dim> &dims) {
    Place at;
    for (const Dim &dim : dims)
      at[dim.name] = var(dim.name);
    return at;
  }
  /// Loops over dims around `body`.
  std::string loops(const std::vector<Dim> &dims, const std::string &body) const {
    std::string text;
    for (const Dim &dim : dims)
      text += "for (long " + var(dim.name) + " = 0; " + var(dim.name) + " < " + size(dim.size) + "; ++" +
              var(dim.name) + ") ";
    return text + "{ " + body + " }\n";
  }
  std::string place(const Layout &layout, const std::vector<Dim> &dims, const std::string &buffer) const;
  std::string elementwise(const Node &node, const Place &at) const;
  std::string combined(const Node &node, const std::string &result) const;
  std::string moved(const Node &node, Place at) const;
  std::string compute(int node) const;

  const KernelGraph &graph;
  std::string symbol;
};
} // namespace

/// An element of a buffer where the loops over dims stand.
std::string Writer::place(const Layout &layout, const std::vector<Dim> &dims, const std::string &buffer) const {
  size_t rank = dims.size();
  std::string text = "0L";
  auto add = [&](const std::string &at, size_t dim) {
    text += " + (" + at + ") * (long)" + buffer + "->dim[" + std::to_string(dim) + "].stride";
  };
  for (size_t i = 0; i < rank; ++i) {
    std::string at = var(dims[i].name), tile = std::to_string(layout.tile);
    if (!layout.packed)
      add(at, rank - 1 - i);
    else if (i + 1 == rank)
      add(at, 1);
    else if (i + 2 == rank)
      add(at + " % " + tile, 0), add(at + " / " + tile, 2);
    else
      add(at, rank - i);
  }
  return text;
}

std::string Writer::elementwise(const Node &node, const Place &at) const {
  std::vector<std::string> v;
  for (int operand : node.operands)
    v.push_back(read(operand, at));
  static const std::map<Op, std::string> calls = [] {
    std::map<Op, std::string> all = {{Op::Abs, "fabs"},       {Op::Floor, "floor"},   {Op::Ceil, "ceil"},
                                     {Op::Round, "rint"},     {Op::ToInt, "trunc"},   {Op::ToReal, ""},
                                     {Op::Neg, "-"},          {Op::Not, "(double)!"}, {Op::Pow, "pow"},
                                     {Op::FloorDiv, "fdiv_"}, {Op::Max, "fmax"},      {Op::Min, "fmin"}};
#define QUERN_REAL_FUNCTION(NAME, WORD, VALUE) all[Op::NAME] = #WORD "_";
    QUERN_REAL_FUNCTIONS(QUERN_REAL_FUNCTION)
    return all;
  }();
  static const std::map<Op, std::string> between = {{Op::Add, "+"}, {Op::Sub, "-"},  {Op::Mul, "*"},
                                                    {Op::Div, "/"}, {Op::And, "&&"}, {Op::Or, "||"}};
  static const char *const predicates[] = {"<", "<=", ">", ">=", "==", "!="};
  if (auto call = calls.find(node.op); call != calls.end())
    return call->second + "(" + v[0] + (v.size() > 1 ? ", " + v[1] : "") + ")";
  if (auto sign = between.find(node.op); sign != between.end())
    return "(" + v[0] + " " + sign->second + " " + v[1] + ")";
  if (node.op == Op::Mod)
    return v[0] + " - fdiv_(" + v[0] + ", " + v[1] + ") * " + v[1];
  if (node.op == Op::Where)
    return "(" + v[0] + " != 0 ? " + v[1] + " : " + v[2] + ")";
  if (node.op != Op::Compare)
    throw std::logic_error("not an elementwise operation");
  return "(double)(" + v[0] + " " + predicates[static_cast<int>(node.predicate)] + " " + v[1] + ")";
}

/// Statements that leave the element in `result`.
std::string Writer::combined(const Node &node, const std::string &result) const {
  std::vector<Dim> over;
  for (const std::string &name : node.names)
    for (int operand : node.operands)
      if (graph.nodes[operand].has(name)) {
        over.push_back(graph.nodes[operand].dims[graph.nodes[operand].find(name)]);
        break;
      }
  Place at = placeOf(node.dims), inside = at;
  for (const Dim &dim : over) // a softmax keeps its dimension: another variable runs along it
    inside[dim.name] = var(dim.name) + "_over";
  auto along = [&](const std::string &body) {
    std::string text;
    for (const Dim &dim : over) {
      std::string i = inside[dim.name];
      text += "for (long " + i + " = 0; " + i + " < " + size(dim.size) + "; ++" + i + ") ";
    }
    return text + body + "; ";
  };
  std::string x = read(node.operands[0], inside);
  if (node.op == Op::Attention || node.op == Op::AttentionShift || node.op == Op::AttentionShare) {
    // Each name is of one operand: the keys of the scores and the values, then a dimension of each sink.
    auto scores = [&](const std::string &use) {
      std::string text;
      for (size_t n = 0; n < node.names.size(); ++n) {
        int operand = node.operands[n ? n + 1 : 0];
        const Dim &dim = graph.nodes[operand].dims[graph.nodes[operand].find(node.names[n])];
        Place score = at;
        score[dim.name] = "i_score";
        text += "for (long i_score = 0; i_score < " + size(dim.size) +
                "; ++i_score) { double score = " + read(operand, score) + "; " + use + " } ";
      }
      return text;
    };
    std::string text = "double most = -INFINITY, sum = 0; " + scores("most = fmax(most, score);") + result +
                       " = 0; if (most != -INFINITY) { " + scores("sum += exp(score - most);");
    if (node.op != Op::Attention)
      return text + result + " = " + (node.op == Op::AttentionShift ? "most" : "1 / sum") + "; }";
    const Node &score = graph.nodes[node.operands[0]];
    const Dim &key = score.dims[score.find(node.names[0])];
    Place where = at;
    where[key.name] = "i_score";
    return text + "for (long i_score = 0; i_score < " + size(key.size) + "; ++i_score) " + result + " += exp(" +
           read(node.operands[0], where) + " - most) / sum * " + read(node.operands[1], where) + "; }";
  }
  switch (node.op) {
  case Op::Contract:
  case Op::WeightedSum:
    return result + " = 0; " + along(result + " += " + x + " * " + read(node.operands[1], inside));
  case Op::Softmax:
    return "double most = -INFINITY, sum = 0; " + along("most = fmax(most, " + x + ")") + "if (most == -INFINITY) " +
           result + " = 0; else { " + along("sum += exp(" + x + " - most)") + result + " = exp(" +
           read(node.operands[0], at) + " - most) / sum; }";
  case Op::Cumsum: {
    const std::string &name = node.names[0];
    std::string seen = inside[name] + (node.integer ? " >= " : " <= ") + at[name];
    return result + " = 0; " + along("if (" + seen + ") " + result + " += " + x);
  }
  case Op::Argmax:
    return "double most = 0; " + result + " = -1; " +
           along("if (" + result + " < 0 || " + x + " > most) { most = " + x + "; " + result + " = " +
                 inside[node.names[0]] + "; }");
  default:
    break;
  }
  switch (node.reduction) {
  case Reduction::Sum:
    return result + " = 0; " + along(result + " += " + x);
  case Reduction::Mean:
    return "double count = 0; " + result + " = 0; " + along("{ " + result + " += " + x + "; ++count; }") + result +
           " /= count;";
  case Reduction::Max:
    return result + " = -INFINITY; " + along(result + " = fmax(" + result + ", " + x + ")");
  case Reduction::Min:
    return result + " = INFINITY; " + along(result + " = fmin(" + result + ", " + x + ")");
  case Reduction::Any:
    return result + " = 0; " + along("if (" + x + ") " + result + " = 1");
  default:
    return result + " = 1; " + along("if (!" + x + ") " + result + " = 0");
  }
}

std::string Writer::moved(const Node &node, Place at) const {
  int x = node.operands[0];
  Place p = at;
  auto sizeOf = [&](int operand, const std::string &name) {
    return size(graph.nodes[operand].dims[graph.nodes[operand].find(name)].size);
  };
  switch (node.op) {
  case Op::Rename:
    for (size_t i = 0; i < node.names.size(); ++i)
      p[node.names[i]] = at.at(node.into[i].name);
    break;
  case Op::Split: {
    std::string position = "0L";
    for (const Dim &part : node.into)
      position = "((" + position + ") * " + size(part.size) + " + " + at.at(part.name) + ")";
    p[node.names[0]] = position;
    break;
  }
  case Op::Merge: {
    std::string position = at.at(node.into[0].name);
    for (size_t i = node.names.size(); i-- > 0;) {
      p[node.names[i]] = "(" + position + " % " + sizeOf(x, node.names[i]) + ")";
      position = "(" + position + " / " + sizeOf(x, node.names[i]) + ")";
    }
    break;
  }
  case Op::Cut:
    p[node.names[0]] = "(" + at.at(node.into[0].name) + " + " + size(node.size) + ")";
    break;
  case Op::Squeeze:
    p[node.names[0]] = "0L";
    break;
  case Op::Gather:
    p[node.names[0]] = "(long)clamp_(" + read(node.operands[1], at) + ", " + sizeOf(x, node.names[0]) + " - 1)";
    break;
  case Op::Concat: {
    std::string text, before = "0L", here = at.at(node.into[0].name);
    for (size_t i = 0; i < node.operands.size(); ++i) {
      Place part = at;
      part[node.names[i]] = "(" + here + " - (" + before + "))";
      before += " + " + sizeOf(node.operands[i], node.names[i]);
      std::string value = read(node.operands[i], part);
      text += i + 1 == node.operands.size() ? value : here + " < " + before + " ? " + value + " : ";
    }
    return "(" + text + ")";
  }
  default:
    break;
  }
  return array(x) + "[" + offset(x, p) + "]";
}

std::string Writer::compute(int i) const {
  const Node &node = graph.nodes[i];
  Place at = placeOf(node.dims);
  std::string result = read(i, at);
  auto assign = [&](const std::string &value) { return result + " = " + value + ";"; };
  if (node.op == Op::Const)
    return assign(
        number(node.storage == Storage::F32 ? static_cast<float>(node.numbers[0]) : static_cast<double>(node.integer)));
  if (node.op == Op::Size)
    return assign(size(node.size));
  if (node.op == Op::Index)
    return assign(var(node.dims[0].name));
  if (node.op == Op::Values) {
    std::string list;
    for (double value : node.numbers)
      list += number(static_cast<float>(value)) + ", ";
    return "static const double table[] = {" + list + "}; " + assign("table[" + var(node.dims[0].name) + "]");
  }
  if (graph.isElementwise(i))
    return assign(elementwise(node, at));
  return node.op <= Op::TopKPositions ? combined(node, result) : assign(moved(node, at));
}

std::string Writer::write() {
  static const std::map<Storage, std::string> types = {
      {Storage::F32, "float"}, {Storage::I32, "int32_t"}, {Storage::U8, "uint8_t"}};
  std::ostringstream out;
  size_t buffers = graph.argumentLayouts.size() + graph.results.size();
  std::string parameters, pointers;
  for (const std::string &name : graph.symbols)
    parameters += ", int32_t " + var(name),
        pointers += ", *(int32_t *)a[" + std::to_string(&name - graph.symbols.data()) + "]";
  for (size_t i = 0; i < buffers; ++i) {
    parameters += ", struct buffer *b" + std::to_string(i);
    pointers += ", a[" + std::to_string(graph.symbols.size() + i) + "]";
  }
  out << prelude << realFunctions() << "int " << symbol << "(" << parameters.substr(2) << ") {\n";
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node &node = graph.nodes[i];
    std::string count = "1";
    for (const Dim &dim : node.dims)
      count += " * " + size(dim.size);
    out << "double *" << array(static_cast<int>(i)) << " = malloc(sizeof(double) * (" << count << " + 1));\n";
    if (node.op == Op::Argument) {
      std::string buffer = "b" + std::to_string(i);
      out << loops(node.dims, read(static_cast<int>(i), placeOf(node.dims)) + " = ((" + types.at(node.storage) + " *)" +
                                  buffer + "->host)[" + place(graph.argumentLayouts[i], node.dims, buffer) + "];");
    } else {
      out << loops(node.dims, compute(static_cast<int>(i)));
    }
  }
  for (size_t r = 0; r < graph.results.size(); ++r) {
    const Node &node = graph.nodes[graph.results[r]];
    std::string buffer = "b" + std::to_string(graph.argumentLayouts.size() + r);
    out << loops(node.dims, "((" + types.at(node.storage) + " *)" + buffer + "->host)[" +
                                place(graph.resultLayouts[r], node.dims, buffer) +
                                "] = " + read(graph.results[r], placeOf(node.dims)) + ";");
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    out << "free(" << array(static_cast<int>(i)) << ");\n";
  out << "return 0;\n}\nint " << symbol << "_argv(void **a) { return " << symbol << "(" << pointers.substr(2)
      << "); }\n";
  return out.str();
}

namespace {
class PlainProducer : public KernelProducer {
public:
  std::string name() const override { return "plain"; }
  std::string revision() const override { return "1"; }

  std::optional<std::string> refuses(const KernelGraph &graph, const CpuTarget &) const override {
    for (const Node &node : graph.nodes)
      if (isNarrow(node.storage) || node.op == Op::ScatterAdd || node.op == Op::TopK || node.op == Op::TopKPositions)
        return "it has no loops for bf16, sums by position and top-k";
    return std::nullopt;
  }

  std::vector<Anchor> anchors(const KernelGraph &, const CpuTarget &) const override { return {}; }

  KernelPlan choose(const KernelGraph &, const CpuTarget &, const ScheduleTable &) const override {
    return {name(), {}};
  }

  std::optional<std::string> refuses(const KernelPlan &plan, const KernelGraph &, const CpuTarget &) const override {
    return plan.parts.empty() ? std::nullopt : std::optional<std::string>("plain loops have no numbers");
  }

  Scratch make(const KernelGraph &graph, const KernelPlan &, const CpuTarget &, const std::string &symbol,
               EmitForm form, const std::string &path) const override {
    if (form == EmitForm::Llvm)
      throw std::runtime_error("kernel " + graph.name + ": plain loops have no LLVM IR");
    std::string source = path + ".c";
    std::ofstream(source) << Writer(graph, symbol).write();
    std::string command =
        std::string("cc -w -O1 -fPIC") + (form == EmitForm::Object ? " -c " : " -S ") + source + " -o " + path;
    if (std::system(command.c_str()))
      throw std::runtime_error("kernel " + graph.name + ": failed: " + command);
    return {};
  }

  std::string loops(const KernelGraph &graph, const KernelPlan &, const CpuTarget &) const override {
    return Writer(graph, "kernel").write();
  }
};
} // namespace

const KernelProducer &quern::test::plainProducer() {
  static const PlainProducer producer;
  return producer;
}
