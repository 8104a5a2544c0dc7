// Takes: a kernel's loops as Halide has lowered them. Gives: the same, with requests for the lines of a strip before it is copied.
// Why beside the products: a core has as many lines under way as it has buffers for, so a copy from memory takes as long
// however early in its own loop it asks; the products leave these buffers idle.
//
//   for each task (parallel):  for each part of the depth:
//     strip = columns                                    the lines are there
//     for each tile of columns, of rows
//       ask for a share of the next part's lines, or of the next task's first part
//       sums
#include "codegen/halide/lowered/FetchNext.h"

#include "codegen/halide/lowered/FetchAhead.h"
#include "codegen/halide/lowered/Lets.h"
#include "codegen/halide/lowered/Loops.h"

#include <algorithm>
#include <optional>

using namespace Halide;
using namespace Halide::Internal;

namespace quern::codegen {

namespace {

/// Whether a loop is `whole`, or one of those that a schedule has split it into.
bool isOf(const For *loop, const std::string &whole) {
  return (loop->name + ".").starts_with(whole + ".");
}

/// Where a copy reads, in elements of its buffer.
struct Copied {
  Expr first;                    ///< of its first column at its first step, by the loops around the copy
  Expr ofStep, ofColumn, ofTile; ///< from a number to the next one, along each
  Expr steps;                    ///< of the depth
  int bytes = 0;                 ///< of an element
};

/// The first vector that a copy reads.
class CopyVisitor : public VisitorWithLets {
public:
  CopyVisitor(const FetchedNext &wanted, const Lets &around) : VisitorWithLets(around), wanted(wanted) {}
  std::optional<Copied> found;

private:
  const FetchedNext &wanted;
  std::vector<const For *> loops;

  using VisitorWithLets::visit;
  void visit(const For *loop) override {
    loops.push_back(loop);
    IRVisitor::visit(loop);
    loops.pop_back();
  }

  /// `value` in the first iteration of the copy's loops, but the next one of `moved`.
  Expr at(const Expr &value, const std::string &moved = "") const {
    Expr result = value;
    for (auto loop = loops.rbegin(); loop != loops.rend(); ++loop) // where one begins may depend on those around it
      result = substitute((*loop)->name, without(lets, (*loop)->min) + (isOf(*loop, moved) ? 1 : 0), result);
    return result;
  }

  void visit(const Load *load) override {
    const Ramp *ramp = load->index.as<Ramp>();
    if (found || load->name != wanted.buffer || !ramp)
      return;
    const std::string own = wanted.strip + ".s0.", depth = own + wanted.depth;
    const Expr index = without(lets, ramp->base), first = at(index);
    auto apart = [&](const std::string &loop) { return simplify(at(index, loop) - first); };
    Copied copy{first, apart(depth), ramp->stride, apart(own + "tile"), 1, load->type.bytes()};
    for (const For *loop : loops) {
      if (isOf(loop, depth))
        copy.steps = without(lets, loop->extent);
      if (loop->name.starts_with(own))
        continue;
      // Vectors along the depth, which are turned (TurnWords.cpp): their loop goes from column to column.
      copy.steps = copy.steps * ramp->lanes;
      copy.ofStep = ramp->stride;
      copy.ofColumn = apart(loop->name);
    }
    if (wanted.inStep > 1) {
      copy.steps = copy.steps * wanted.inStep;
      copy.ofStep = simplify(copy.ofStep / wanted.inStep);
    }
    found = copy;
  }
};

class AskForNext : public MutatorWithLets {
public:
  explicit AskForNext(const std::vector<FetchedNext> &strips) : strips(strips) {}

private:
  std::vector<FetchedNext> strips;
  std::vector<const For *> loops;
  const FetchedNext *strip = nullptr; ///< that has been copied, and whose products have not asked yet
  Copied copied;

  using MutatorWithLets::visit;
  Stmt visit(const ProducerConsumer *part) override {
    auto wanted = std::find_if(strips.begin(), strips.end(),
                               [&](const FetchedNext &one) { return part->is_producer && part->name == one.strip; });
    if (wanted == strips.end())
      return IRMutator::visit(part);
    CopyVisitor copy(*wanted, lets);
    part->body.accept(&copy);
    strip = copy.found ? &*wanted : nullptr;
    copied = copy.found.value_or(Copied());
    return part;
  }

  Stmt visit(const For *loop) override {
    // Of whole tiles: the loop over the last ones comes second.
    if (strip && isLoop(loop, ".rt")) {
      const FetchedNext &asked = *strip;
      strip = nullptr;
      return withRequests(loop, asked);
    }
    loops.push_back(loop);
    Stmt changed = IRMutator::visit(loop);
    loops.pop_back();
    return changed;
  }

  /// Where the next strip begins: at the next part of the depth, else at the first of the next task.
  std::optional<Expr> beginOfNext(const FetchedNext &asked) const {
    const For *part = nullptr, *task = nullptr, *tile = nullptr;
    for (const For *loop : loops) {
      if (loop->for_type == ForType::Parallel)
        task = loop;
      else if (isLoop(loop, ".parts$x"))
        part = loop;
      else if (isLoop(loop, asked.beside))
        tile = loop;
    }
    if (!task)
      return {};
    Expr first = substitute(task->name, variable(task) + 1, copied.first);
    if (part)
      first =
          select(variable(part) + 1 < part->min + part->extent,
                 substitute(part->name, variable(part) + 1, copied.first), substitute(part->name, part->min, first));
    return tile ? first + (variable(tile) - tile->min) * copied.ofTile : first;
  }

  Stmt withRequests(const For *tiles, const FetchedNext &asked) const {
    std::optional<Expr> first = beginOfNext(asked);
    const bool along = is_const_one(copied.ofStep); // lines run along the depth, else along the columns
    if (!first || (!along && !is_const_one(copied.ofColumn)))
      return tiles;
    const int perLine = lineBytes / copied.bytes;
    // Lines of a step, or of as many as a line has; then those of the next.
    const int beside = along ? asked.columns : std::max(1, asked.columns / perLine);
    const int column = along ? 1 : perLine, step = along ? perLine : 1;
    const std::string name = asked.strip + ".next";
    Expr from = Variable::make(Int(64), name), share = Variable::make(Int(32), name + ".share"),
         line = Variable::make(Int(32), name + ".line");
    Expr number = (variable(tiles) - tiles->min) * share + line;
    Expr index = from + cast<int64_t>(number % beside * column) * cast<int64_t>(copied.ofColumn) +
                 cast<int64_t>(number / beside * step) * cast<int64_t>(copied.ofStep);
    // A strip is larger than the first cache.
    Stmt request = requestLine(asked.buffer, index * make_const(Int(64), copied.bytes), 2);
    Stmt requests = For::make(name + ".line", 0, share, ForType::Serial, Partition::Never, DeviceAPI::None, request);
    Stmt loop = withBody(tiles, Block::make(requests, tiles->body));
    Expr lines = (copied.steps + (step - 1)) / step * beside, count = max(tiles->extent, 1);
    return LetStmt::make(name, simplify(cast<int64_t>(*first)),
                         LetStmt::make(name + ".share", simplify((lines + count - 1) / count), loop));
  }
};

} // namespace

void fetchNext(Pipeline &pipeline, const std::vector<FetchedNext> &strips) {
  if (!strips.empty())
    pipeline.add_custom_lowering_pass(new AskForNext(strips));
}

} // namespace quern::codegen
