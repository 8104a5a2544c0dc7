// Takes: a tile program. Gives: what is wrong with it. Why: whoever writes code of one need not ask again.
#include "codegen/tile/Program.h"

#include <set>

namespace quern::codegen::tile {

namespace {
class Verifier {
public:
  explicit Verifier(const Program &program) : p(program) {}
  std::optional<std::string> run() {
    for (size_t i = 0; i < p.values.all.size() && !wrong; ++i)
      value(int(i));
    if (p.variants.empty() || p.variants.back().mostRows || !p.variants.back().aligned.empty() ||
        !p.variants.back().adjacent.empty() || p.variants.back().capability > 80)
      fail("no variant fits always");
    for (const Variant &variant : p.variants) {
      written.clear();
      for (const Stage &one : variant.stages) {
        if ((one.form == Stage::Form::Async || one.attend.groups) && variant.capability != 90)
          fail("warp groups for any card");
        if (!wrong)
          stage(one);
      }
      for (size_t i = 0; i < p.buffers.size(); ++i)
        if (p.buffers[i].role == Buffer::Role::Result && !written.count(int(i)))
          fail(variant.name + " does not write buffer " + std::to_string(i));
    }
    return wrong;
  }

private:
  const Program &p;
  std::optional<std::string> wrong;
  std::set<int> written;
  size_t statistics = 0; ///< that the stage has by now
  bool together = false; ///< its stores may read other columns' sums

  void fail(const std::string &what) {
    if (!wrong)
      wrong = "tile program of " + p.name + ": " + what;
  }
  void place(int buffer, const std::vector<int> &at) {
    if (buffer < 0 || size_t(buffer) >= p.buffers.size())
      return fail("there is no buffer " + std::to_string(buffer));
    if (p.buffers[size_t(buffer)].dims.size() != at.size())
      fail("buffer " + std::to_string(buffer) + " has another number of dimensions");
    for (int position : at)
      if (p.values[position].kind != Kind::Int)
        fail("a position of buffer " + std::to_string(buffer) + " is no integer");
  }
  void value(int i) {
    const Value &v = p.values[i];
    for (int operand : v.operands)
      if (operand < 0 || operand >= i)
        fail("value " + std::to_string(i) + " stands before its operands");
    if (v.form == Value::Form::Load && !wrong)
      place(int(v.integer), v.operands);
  }
  /// Whatever it loads was written.
  void reads(int i) {
    const Value &v = p.values[i];
    for (int operand : v.operands)
      reads(operand);
    if (v.form == Value::Form::Statistic && size_t(v.integer) >= statistics)
      fail("a statistic is read before it is made");
    if (v.form == Value::Form::Sum && !v.operands.empty() && !together)
      fail("a sum of another column is read where it is not known");
    if (v.form == Value::Form::Load)
      readsBuffer(int(v.integer));
  }
  void readsBuffer(int buffer) {
    if (p.buffers[size_t(buffer)].role == Buffer::Role::Result ||
        (p.buffers[size_t(buffer)].role == Buffer::Role::Scratch && !written.count(buffer)))
      fail("buffer " + std::to_string(buffer) + " is read before it is written");
  }
  void operand(const Operand &from) {
    place(from.buffer, from.at);
    if (!wrong && p.buffers[size_t(from.buffer)].storage != Storage::BF16)
      fail("tensor cores multiply bf16");
    if (!wrong)
      readsBuffer(from.buffer);
  }
  /// A tile of `tile` rows or columns by `deep`, in copies.
  void tensor(const Operand &from, int64_t tile, int64_t deep) {
    operand(from);
    const Tensor &t = from.tensor;
    int64_t box = 1;
    for (const TensorDim &dim : t.dims) {
      box *= dim.box;
      if (dim.box < 1 || dim.box > 256)
        fail("a box that no copy has");
    }
    // Lines of 32, 64 or 128 bytes, in the order that tensor cores expect; copies that make up the tile.
    if (t.dims.size() < 2 || t.dims.size() > 5 || (t.width != 16 && t.width != 32 && t.width != 64) ||
        t.dims[0].box != t.width || t.each < 1 || tile % t.each || box != t.each * deep)
      fail("a tensor that its copies cannot read");
  }
  void factor(const Factor &one, bool depthInner) {
    reads(one.value);
    if (one.copied)
      operand(*one.copied);
    if (one.inner < 1 || one.pieces < 1 || one.pieces > 3 ||
        (one.copied && (one.pieces > 1 || one.copied->depthInner != depthInner)))
      fail("a factor of attention that tensor cores cannot read");
  }
  void groups(const Attend &a) {
    if (a.dots.size() != 1 || a.score < 0 || !a.copies() || a.dots[0].q.pieces > 1 || a.totals[0].pieces > 1 ||
        a.split || a.rows != groupRows * a.groups || a.warps != 4 * a.groups || a.keysTogether > 256 ||
        a.totals[0].v.padded() > 256)
      return fail("an attention that warp groups do not compute");
    const Operand &k = *a.dots[0].k.copied, &v = *a.totals[0].v.copied;
    tensor(k, a.keysTogether, k.tensor.width);
    tensor(v, v.tensor.width, a.keysTogether);
  }
  void attend(const Attend &a) {
    if (a.dots.empty() || a.totals.empty() || (a.score >= 0 && a.totals.size() > 1))
      return fail("an attention without products or values");
    if (a.warps < 1 || a.warps > 32 || a.rows % (16 * a.warps) || a.keysTogether % 16 || a.stages < 2)
      fail("a block of attention that its warps cannot share");
    for (const Attend::Dot &dot : a.dots) {
      factor(dot.q, true), factor(dot.k, true);
      if (dot.q.copied || dot.k.copied.has_value() != a.copies() || dot.q.inner != dot.k.inner)
        fail("a product of rows and keys that do not fit");
    }
    for (const Attend::Total &total : a.totals) {
      factor(total.v, false);
      if ((total.weights < 0) != (a.score >= 0) || total.v.copied.has_value() != a.copies())
        fail("a total without weights");
      if (total.weights >= 0)
        reads(total.weights), reads(total.whole);
      stores(total.stores);
    }
    if (a.groups)
      groups(a);
    for (int value : {a.score, a.whole, a.from, a.to})
      if (value >= 0)
        reads(value);
    for (int value : a.sinks)
      reads(value);
    if (a.score < 0 && (a.split || !a.sinks.empty() || !a.rowStores.empty()))
      fail("what only a softmax has");
    stores(a.rowStores);
  }
  void stores(const std::vector<Store> &list) {
    for (const Store &store : list) {
      place(store.buffer, store.at);
      reads(store.value);
      if (!wrong && p.buffers[size_t(store.buffer)].role == Buffer::Role::Argument)
        fail("an argument is written");
    }
    for (const Store &store : list)
      written.insert(store.buffer);
  }
  void stage(const Stage &s) {
    const Cut &c = s.cut;
    if (s.form == Stage::Form::Product) {
      if (c.rows % (16 * c.warpRows) || c.columns % (16 * c.warpColumns) || c.depth % 16 || c.stages < 2 ||
          c.threads() > 1024)
        fail("a cut that its warps cannot share");
      operand(s.x);
      for (const Operand &w : s.w)
        operand(w);
      if (s.w.empty() || !s.x.depthInner)
        fail("a product without its factors");
    } else if (s.form == Stage::Form::Async) {
      if (c.rows % groupRows || c.warpRows != c.rows / 16 || c.warpColumns != 1 || c.depth != asyncDepth ||
          c.stages < 2 || c.columns % 16 || c.columns > 256)
        fail("a cut that its warp groups cannot share");
      if (s.split > 1 && s.matrices.extent().constant() != s.split)
        fail("parts of the depth that are no blocks");
      tensor(s.x, c.rows, asyncDepth);
      for (const Operand &w : s.w)
        tensor(w, c.columns, asyncDepth);
      if (s.w.empty())
        fail("a product without its factors");
    } else if (s.form == Stage::Form::Dots) {
      for (const Operand &w : s.w)
        place(w.buffer, w.at);
      for (const Statistic &one : s.statistics)
        reads(one.value), ++statistics;
      reads(s.xValue);
      statistics = 0;
      if (s.most < 1 || s.split < 1)
        fail("dots of no rows");
      if (const int64_t tile = p.buffers[size_t(s.w[0].buffer)].layout.tile; s.slice < 1 || tile % s.slice)
        fail("dots whose columns are no part of a packed tile");
      if (s.sums >= 0)
        written.insert(s.sums);
      if ((s.sums < 0) == s.stores.empty())
        fail("dots whose sums go nowhere, or to two places");
      if (s.together && (s.together % s.slice || s.stores.empty() || s.w.size() > 1 ||
                         (s.together > s.slice && s.columns.extent().constant().value_or(1) % s.together)))
        fail("sums together that are not those of whole blocks");
      if (s.blocksThatMeet() > 1 && s.sums < 0 &&
          !(s.columns.extent().constant() && s.matrices.extent().constant() == 1))
        fail("parts of the depth whose blocks are not known");
    }
    if (s.form == Stage::Form::Attend)
      attend(s.attend);
    for (const Store &store : s.stores)
      if (store.to && s.form != Stage::Form::Map && !s.together)
        fail("only a map has rows of several results");
    together = s.together > 0;
    stores(s.stores);
    together = false;
  }
};
} // namespace

std::optional<std::string> verify(const Program &program) {
  return Verifier(program).run();
}

} // namespace quern::codegen::tile
