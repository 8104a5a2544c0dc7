// Takes: a tile program. Gives: text.
#include "codegen/tile/Program.h"

#include <algorithm>
#include <set>
#include <sstream>

namespace quern::codegen::tile {

namespace {
const char *const coordinates[] = {"row", "column", "matrix", "depth"};

/// Of operations that occur in programs.
std::string nameOf(const Value &v) {
  static const std::map<Op, const char *> names = [] {
    std::map<Op, const char *> table = {{Op::Neg, "neg"},        {Op::Abs, "abs"},     {Op::Floor, "floor"},
                                        {Op::Ceil, "ceil"},      {Op::Round, "round"}, {Op::ToInt, "to_int"},
                                        {Op::ToReal, "to_real"}, {Op::Narrow, "bf16"}, {Op::Not, "not"},
                                        {Op::Add, "add"},        {Op::Sub, "sub"},     {Op::Mul, "mul"},
                                        {Op::Div, "div"},        {Op::Mod, "mod"},     {Op::Pow, "pow"},
                                        {Op::Max, "max"},        {Op::Min, "min"},     {Op::And, "and"},
                                        {Op::Or, "or"},          {Op::Where, "where"}, {Op::FloorDiv, "floordiv"}};
#define QUERN_REAL_FUNCTION(NAME, WORD, VALUE) table[Op::NAME] = #WORD;
    QUERN_REAL_FUNCTIONS(QUERN_REAL_FUNCTION)
    return table;
  }();
  static const char *const predicates[] = {"lt", "le", "gt", "ge", "eq", "ne"};
  auto at = names.find(v.op);
  return at != names.end() ? at->second : predicates[int(v.predicate)];
}

class Printer {
public:
  explicit Printer(const Program &program) : p(program) {}
  std::string run() {
    out << "tile program " << p.name << "\n";
    for (size_t i = 0; i < p.buffers.size(); ++i) {
      const Buffer &b = p.buffers[i];
      static const char *const roles[] = {"argument", "result", "scratch"};
      out << "  b" << i << ": " << roles[int(b.role)] << " " << storageName(b.storage) << axis({b.dims});
      if (b.layout.packed)
        out << " packed by " << b.layout.tile;
      out << "\n";
    }
    for (const Variant &variant : p.variants) {
      out << "  " << variant.name;
      if (variant.mostRows)
        out << ", up to " << variant.mostRows << " rows";
      for (size_t i = 0; i < variant.aligned.size(); ++i)
        out << (i ? ", b" : ", aligned b") << variant.aligned[i];
      out << ":\n";
      for (const Stage &one : variant.stages)
        stage(one);
    }
    return out.str();
  }

private:
  const Program &p;
  std::ostringstream out;

  static std::string axis(const Axis &axis) {
    std::string text = "[";
    for (const Dim &dim : axis.dims)
      text += (text.size() > 1 ? ", " : "") + dim.name + " = " + dim.size.str();
    return text + "]";
  }
  std::string list(const std::vector<int> &values) {
    std::string text = "[";
    for (int value : values)
      text += (text.size() > 1 ? ", " : "") + name(value);
    return text + "]";
  }
  std::string name(int i) {
    const Value &v = p.values[i];
    std::ostringstream text;
    switch (v.form) {
    case Value::Form::Number:
      v.kind == Kind::Real ? text << v.real : text << v.integer;
      return text.str();
    case Value::Form::Coordinate:
      return coordinates[v.integer];
    case Value::Form::Length:
      return "(" + v.size.str() + ")";
    case Value::Form::Sum:
      return "sum" + (v.operands.empty() ? std::to_string(v.integer) : " at " + name(v.operands[0]));
    case Value::Form::Statistic:
      return "statistic" + std::to_string(v.integer);
    default:
      return "%" + std::to_string(i);
    }
  }
  static std::string boxes(const Operand &from) {
    std::string text;
    for (const TensorDim &dim : from.tensor.dims)
      text += (text.empty() ? " in boxes of " : " x ") + std::to_string(dim.box);
    return text;
  }
  void define(const std::set<int> &needed) {
    for (int i : needed) {
      const Value &v = p.values[i];
      if (v.form == Value::Form::Apply)
        out << "      %" << i << " = " << nameOf(v) << " " << list(v.operands) << "\n";
      else if (v.form == Value::Form::Load)
        out << "      %" << i << " = load b" << v.integer << list(v.operands) << "\n";
      else if (v.form == Value::Form::Table)
        out << "      %" << i << " = one of " << v.numbers.size() << " at " << name(v.operands[0]) << "\n";
    }
  }
  void need(int i, std::set<int> &needed) {
    if (needed.insert(i).second)
      for (int operand : p.values[i].operands)
        need(operand, needed);
  }
  void attend(const Stage &s) {
    const Attend &a = s.attend;
    out << " matrices " << axis(s.matrices) << " keys " << axis(a.keys) << "\n      " << a.rows << " rows, "
        << a.keysTogether << " keys at a time, " << a.stages << " stages, " << a.warps << " warps";
    if (a.groups)
      out << ", in " << a.groups << " groups" << (a.turns ? " in turn" : "");
    if (a.split)
      out << ", keys in " << a.split << " parts";
    out << "\n";
    std::set<int> needed;
    auto factor = [&](const Factor &one) {
      for (int position : one.copied ? one.copied->at : std::vector<int>{one.value})
        need(position, needed);
    };
    auto values = [&](const std::vector<int> &list) {
      for (int value : list)
        if (value >= 0)
          need(value, needed);
    };
    auto ofStores = [&](const std::vector<Store> &stores) {
      for (const Store &store : stores)
        values(store.at), values({store.value});
    };
    for (const Attend::Dot &dot : a.dots)
      factor(dot.q), factor(dot.k);
    for (const Attend::Total &total : a.totals)
      factor(total.v), values({total.weights, total.whole}), ofStores(total.stores);
    ofStores(a.rowStores);
    values(a.sinks), values({a.score, a.whole, a.from, a.to});
    define(needed);
    auto held = [&](const char *what, const Factor &one) {
      out << "      " << what << " = ";
      one.copied ? out << "copy b" << one.copied->buffer << list(one.copied->at) : out << name(one.value);
      out << ", " << one.inner << " in " << one.pieces << (one.pieces > 1 ? " pieces\n" : " piece\n");
    };
    for (const Attend::Dot &dot : a.dots)
      held("q", dot.q), held("k", dot.k);
    if (a.from >= 0)
      out << "      keys from " << name(a.from) << "\n";
    if (a.to >= 0)
      out << "      keys to " << name(a.to) << "\n";
    if (a.score >= 0)
      out << "      softmax of " << name(a.score) << (a.sinks.empty() ? "" : " and " + list(a.sinks)) << " times "
          << a.scale << "\n      of a row that sees all keys " << name(a.whole) << "\n";
    for (const Attend::Total &total : a.totals) {
      held("v", total.v);
      if (total.weights >= 0)
        out << "      weights " << name(total.weights) << "\n";
      put(total.stores);
    }
    put(a.rowStores);
  }
  void put(const std::vector<Store> &stores, bool ofColumns = false) {
    for (const Store &store : stores) {
      out << "      store b" << store.buffer << list(store.at) << " = " << name(store.value);
      if (store.to)
        out << (ofColumns ? " for columns from " : " for rows from ") << store.from.str() << " to " << store.to->str();
      out << "\n";
    }
  }
  void stage(const Stage &s) {
    const Cut &c = s.cut;
    static const char *const forms[] = {"product", "dots", "map", "reduce", "async product", "attend"};
    out << "    " << forms[int(s.form)] << " rows " << axis(s.rows) << " columns " << axis(s.columns);
    static const char *const reductions[] = {"sum", "mean", "max", "min", "any", "all"};
    if (s.form == Stage::Form::Reduce)
      out << " by " << reductions[int(s.reduction)];
    if (s.form == Stage::Form::Attend)
      return attend(s);
    const bool async = s.form == Stage::Form::Async, tiles = async || s.form == Stage::Form::Product;
    if (tiles || s.form == Stage::Form::Dots)
      out << " matrices " << axis(s.matrices) << " depth " << s.depth.str();
    if (tiles)
      out << "\n      tile " << c.rows << " x " << c.columns << " x " << c.depth << ", " << c.stages << " stages, "
          << c.warpRows << " x " << c.warpColumns << " warps";
    if (tiles && s.split > 1)
      out << ", depth in " << s.split << " parts";
    if (s.form == Stage::Form::Dots)
      out << "\n      up to " << s.most << " rows, " << s.slice << " columns a block, depth in " << s.split
          << " parts, " << s.ahead << " steps ahead";
    if (s.together)
      out << ", sums of " << s.together << " columns together";
    out << "\n";
    std::set<int> needed;
    auto operand = [&](const Operand &from) {
      for (int position : from.at)
        need(position, needed);
    };
    if (tiles)
      operand(s.x);
    for (const Operand &w : s.w)
      operand(w);
    if (s.form == Stage::Form::Dots)
      need(s.xValue, needed);
    for (const Statistic &one : s.statistics)
      need(one.value, needed);
    for (const Store &store : s.stores) {
      need(store.value, needed);
      for (int position : store.at)
        need(position, needed);
    }
    define(needed);
    if (tiles)
      out << "      x = copy b" << s.x.buffer << list(s.x.at) << (s.x.depthInner ? "" : ", rows side by side")
          << boxes(s.x) << "\n";
    for (size_t i = 0; i < s.statistics.size(); ++i)
      out << "      statistic" << i << " = " << reductions[int(s.statistics[i].reduction)] << " of "
          << s.statistics[i].extent.str() << ": " << name(s.statistics[i].value) << "\n";
    if (s.form == Stage::Form::Dots)
      out << "      x = " << name(s.xValue) << "\n";
    for (const Operand &w : s.w)
      out << "      w = copy b" << w.buffer << list(w.at) << (w.depthInner ? "" : ", columns side by side") << boxes(w)
          << "\n";
    put(s.stores, s.form == Stage::Form::Dots);
    if (s.form == Stage::Form::Dots && s.sums >= 0)
      out << "      store b" << s.sums << " = sums\n";
  }
};
} // namespace

std::string text(const Program &program) {
  return Printer(program).run();
}

} // namespace quern::codegen::tile
