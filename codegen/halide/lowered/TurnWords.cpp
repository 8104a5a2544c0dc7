// Takes: a lowered kernel in which square blocks of words (16 x 16) are copied number by number, rows for columns. Gives: the same by
// vectors.
//
//   for row, column: turned[column, row] = words[row, column]   =>   16 vectors; four times: each two are interleaved; 16 stores
//
// Interleaving vectors i and i + 8 to 2 i and 2 i + 1 moves a bit of the vector's number to the lane's, so that after four
// times each has taken the place of the other.
#include "codegen/halide/lowered/TurnWords.h"

#include "codegen/halide/lowered/Lets.h"
#include "codegen/halide/lowered/PlainLoops.h"

#include <optional>
#include <stdexcept>

using namespace Halide;
using namespace Halide::Internal;

namespace quern::codegen {
namespace {

constexpr char wordName[] = "quern_turned_word";

std::string prefixOf(const TurnedWords &turned) {
  return turned.func.name() + ".s0.";
}

Expr vectorAt(const Expr &first, int words) {
  return Ramp::make(first, make_one(first.type()), words);
}

/// Every other lane is of `b`; of either the upper or the lower half.
Expr interleaved(const Expr &a, const Expr &b, bool upper) {
  const int words = a.type().lanes(), half = words / 2;
  std::vector<int> lanes;
  for (int i = upper ? half : 0, end = i + half; i < end; ++i) {
    lanes.push_back(i);
    lanes.push_back(words + i);
  }
  return Shuffle::make({a, b}, lanes);
}

Stmt byVectors(const TurnedWords &turned, const For *outermost) {
  PlainLoops loops(prefixOf(turned), outermost);
  const int words = turned.words;
  const Store *store = loops.store();
  const Call *word = store->value.as<Call>();
  const Load *load = word && word->name == wordName ? word->args[0].as<Load>() : nullptr;
  // Of offsets of 64 bits Halide leaves some differences as they are.
  auto liesAlong = [&](const Expr &index, const std::string &loop) {
    std::optional<int64_t> apart = as_const_int(loops.strideOf(index, loop));
    return !apart || *apart == 1;
  };
  if (!load || load->type != UInt(32) || loops.extentOf(turned.column) != words ||
      loops.extentOf(turned.row) != words || !liesAlong(load->index, turned.row) ||
      !liesAlong(store->index, turned.column))
    throw std::logic_error("words of " + turned.func.name() + " that cannot be turned");
  Lets lets;
  std::vector<Expr> vectors;
  auto keep = [&](const Expr &value) {
    lets.emplace_back(unique_name(turned.func.name() + ".turned"), value);
    return Variable::make(value.type(), lets.back().first);
  };
  for (int i = 0; i < words; ++i)
    vectors.push_back(
        keep(Load::make(UInt(32, words), load->name, vectorAt(loops.at(load->index, turned.column, i), words),
                        load->image, load->param, const_true(words), ModulusRemainder())));
  for (int width = 1; width < words; width *= 2) {
    std::vector<Expr> next;
    for (int i = 0; i < words / 2; ++i)
      for (bool upper : {false, true})
        next.push_back(keep(interleaved(vectors[i], vectors[i + words / 2], upper)));
    vectors = next;
  }
  std::vector<Stmt> stores;
  for (int i = 0; i < words; ++i)
    stores.push_back(Store::make(store->name, vectors[i], vectorAt(loops.at(store->index, turned.row, i), words),
                                 store->param, const_true(words), ModulusRemainder()));
  return within(lets, Block::make(stores));
}

} // namespace

Expr turnedWord(const Expr &word) {
  return Call::make(UInt(32), wordName, {word}, Call::PureExtern);
}

void defineTurned(Func copy, Func across, std::vector<Var> args, const Expr &value) {
  std::swap(args[0], args[1]);
  across(args) = value;
  Expr word = turnedWord(across(std::vector<Expr>(args.begin(), args.end())));
  std::swap(args[0], args[1]);
  copy(args) = word;
}

void scheduleAcross(Func across, const LoopLevel &level, const Var &inner, const Var &outer, const Var &piece,
                    int pieces, int words) {
  across.compute_at(level)
      .bound_extent(inner, words)
      .bound_extent(outer, words)
      .bound_extent(piece, pieces)
      .reorder(inner, piece, outer)
      .vectorize(inner)
      .unroll(piece);
}

void turnWords(Pipeline &pipeline, const std::vector<TurnedWords> &turned) {
  std::vector<MarkedLoops> marked;
  for (const TurnedWords &one : turned)
    marked.push_back(
        {prefixOf(one), {one.column, one.row}, [one](const For *outermost) { return byVectors(one, outermost); }});
  replaceLoops(pipeline, std::move(marked));
}

} // namespace quern::codegen
