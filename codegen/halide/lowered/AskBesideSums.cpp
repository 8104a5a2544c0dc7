// Takes: a kernel's loops as Halide has lowered them. Gives: the same, with requests for lines beside the products.
// Why there: a core has few buffers for lines that are under way. A tile's results are stored at once, each to a line that is with
// nobody yet, and they take the buffers that the next tile's reads need. The first tile of a task's columns waits for memory.
//
//   for each task (parallel): for each tile of rows
//     for k: ask for the next line of result[tile], to be written
//            ask for a share of the columns of a later task
//            sums += ...
//     result[tile] = epilogue(sums)
#include "codegen/halide/lowered/AskBesideSums.h"

#include "codegen/halide/lowered/FetchAhead.h"
#include "codegen/halide/lowered/Lets.h"
#include "codegen/halide/lowered/Loops.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

using namespace Halide;
using namespace Halide::Internal;

namespace quern::codegen {

namespace {

/// Where a vector begins in its buffer, in bytes, without the names of `lets`; undefined if its elements are no neighbours.
Expr beginOf(const Expr &index, Type type, const Lets &lets) {
  const Ramp *ramp = index.as<Ramp>();
  if (!ramp || !is_const_one(ramp->stride))
    return {};
  return castsLast(without(lets, cast<int64_t>(ramp->base)) * make_const(Int(64), type.bytes()));
}

/// Rows of neighbouring lines, at equal distances.
struct Lines {
  std::string buffer;
  Expr first; ///< byte, of 64 bits
  int64_t beside, distance, rows;
};

/// Vectors that a statement stores outside of what the kernel allocates.
class Stores : public VisitorWithLets {
public:
  Stores(const Lets &around, const std::set<std::string> &allocated) : VisitorWithLets(around), own(allocated) {}

  std::optional<Lines> lines() const {
    if (buffers.size() != 1 || begins.empty() || looped)
      return {};
    const int64_t first = *begins.begin(), count = int64_t(begins.size());
    int64_t beside = 1;
    while (begins.contains(first + beside * lineBytes))
      ++beside;
    auto next = begins.upper_bound(first + (beside - 1) * lineBytes);
    const int64_t distance = next == begins.end() ? 0 : *next - first, rows = count / beside;
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t line = 0; line < beside; ++line)
        if (!begins.contains(first + row * distance + line * lineBytes))
          return {};
    if (count % beside)
      return {};
    return Lines{*buffers.begin(), simplify(base + make_const(Int(64), first)), beside, distance, rows};
  }

private:
  std::set<std::string> buffers, own;
  std::set<int64_t> begins; ///< of lines, from the first store's
  bool looped = false;      ///< some in a loop of the statement
  Expr base;

  using VisitorWithLets::visit;
  void visit(const Allocate *allocate) override {
    own.insert(allocate->name);
    IRVisitor::visit(allocate);
  }
  void visit(const For *loop) override {
    looped = true;
    IRVisitor::visit(loop);
  }
  void visit(const Store *store) override {
    if (own.contains(store->name))
      return;
    buffers.insert(store->name);
    Expr at = beginOf(store->index, store->value.type(), lets);
    if (!at.defined())
      return;
    if (!base.defined())
      base = at;
    if (std::optional<int64_t> distance = as_const_int(simplify(at - base)))
      for (int64_t line = 0; line < store->value.type().bytes() * store->value.type().lanes(); line += lineBytes)
        begins.insert(*distance + line);
  }
};

/// The outermost loop of an update, and where it first reads columns.
class Update : public VisitorWithLets {
public:
  Update(const SumsOfTile &sums, const Lets &around) : VisitorWithLets(around), sums(sums) {}
  const For *loop = nullptr;
  Expr columns; ///< byte, by the loop's variable and those around it

private:
  const SumsOfTile &sums;
  bool within = false;
  std::vector<const For *> inner; ///< loops in the update's outermost

  using VisitorWithLets::visit;
  void visit(const For *each) override {
    const bool outermost = !loop && each->name.rfind(sums.func + ".s1.", 0) == 0;
    if (outermost)
      loop = each;
    within |= outermost;
    if (within && !outermost)
      inner.push_back(each);
    IRVisitor::visit(each);
    if (within && !outermost)
      inner.pop_back();
    within &= !outermost;
  }
  void visit(const Load *load) override {
    if (within && !columns.defined() && load->name == sums.columns) {
      columns = beginOf(load->index, load->type, lets);
      for (auto each = inner.rbegin(); columns.defined() && each != inner.rend(); ++each)
        columns = substitute((*each)->name, without(lets, (*each)->min), columns);
    }
    IRVisitor::visit(load);
  }
};

/// Puts statements before what one loop does in an iteration.
class Prepend : public IRMutator {
public:
  Prepend(const For *wanted, const std::vector<Stmt> &requests) : wanted(wanted), requests(requests) {}

private:
  const For *wanted;
  const std::vector<Stmt> &requests;

  using IRMutator::visit;
  Stmt visit(const For *loop) override {
    if (loop != wanted)
      return IRMutator::visit(loop);
    std::vector<Stmt> all = requests;
    all.push_back(loop->body);
    return withBody(loop, Block::make(all));
  }
};

class AskBesideSums : public MutatorWithLets {
public:
  explicit AskBesideSums(const std::vector<SumsOfTile> &sums) : sums(sums) {}

private:
  std::vector<SumsOfTile> sums;
  std::set<std::string> allocated;
  const For *task = nullptr, *tile = nullptr; ///< the loops around

  using MutatorWithLets::visit;
  Stmt visit(const For *loop) override {
    const For *ofTasks = task, *ofTiles = tile;
    if (loop->for_type == ForType::Parallel)
      task = loop;
    if (isLoop(loop, ".rt"))
      tile = loop;
    Stmt changed = IRMutator::visit(loop);
    task = ofTasks, tile = ofTiles;
    return changed;
  }

  Stmt visit(const Allocate *allocate) override {
    allocated.insert(allocate->name);
    return MutatorWithLets::visit(allocate);
  }

  Stmt visit(const Block *block) override {
    const auto *made = block->first.as<ProducerConsumer>();
    auto of = std::find_if(sums.begin(), sums.end(),
                           [&](const SumsOfTile &one) { return made && made->is_producer && made->name == one.func; });
    if (of == sums.end())
      return MutatorWithLets::visit(block);
    Update update(*of, lets);
    made->accept(&update);
    if (!update.loop || is_const_zero(update.loop->extent))
      return block;
    Lets before;
    std::vector<Stmt> requests;
    Stores stores(lets, allocated);
    block->rest.accept(&stores);
    if (std::optional<Lines> lines = stores.lines())
      askForResults(*lines, update.loop, of->func, before, requests);
    if (update.columns.defined() && task && tile)
      askForColumns(update, *of, before, requests);
    return within(before, Block::make(Prepend(update.loop, requests).mutate(block->first), block->rest));
  }

  /// All lines of the tile, one after the other; some twice where there are more iterations.
  static void askForResults(const Lines &lines, const For *loop, const std::string &name, Lets &before,
                            std::vector<Stmt> &requests) {
    const int count = int(lines.beside * lines.rows), turns = int(as_const_int(loop->extent).value_or(count));
    const int each = (count + turns - 1) / turns; // in an iteration
    constexpr int bits = 16;                      // of a fraction of a line
    Expr share = Variable::make(Int(32), name + ".share"), done = variable(loop) - loop->min;
    before.emplace_back(name + ".share", min((count << bits) / max(loop->extent, 1), 1 << bits));
    before.emplace_back(name + ".results", lines.first);
    for (int i = 0; i < each; ++i) {
      Expr line = each > 1 ? done * each + i : (done * share) >> bits;
      Expr byte = Variable::make(Int(64), name + ".results") +
                  cast<int64_t>(line / int(lines.beside)) * make_const(Int(64), lines.distance) +
                  cast<int64_t>(line % int(lines.beside) * lineBytes);
      requests.push_back(requestLine(lines.buffer, byte, 1, /*toWrite=*/true));
    }
  }

  /// As many bytes further in each iteration as all tiles of rows come to the end with, but no more than a line.
  void askForColumns(const Update &update, const SumsOfTile &of, Lets &before, std::vector<Stmt> &requests) const {
    const For *loop = update.loop;
    std::optional<int64_t> turns = as_const_int(loop->extent);
    Expr first = substitute(loop->name, loop->min, update.columns);
    std::optional<int64_t> bytes =
        as_const_int(simplify(substitute(loop->name, loop->min + 1, update.columns) - first));
    if (!turns || !bytes || *bytes * *turns > std::numeric_limits<int32_t>::max())
      return;
    Expr rounds = max(tile->extent, 1) * int(*turns), done = (variable(tile) - tile->min) * int(*turns);
    Expr step = Variable::make(Int(32), of.func + ".step");
    before.emplace_back(of.func + ".step", min((int(*bytes * *turns) + rounds - 1) / rounds, lineBytes));
    before.emplace_back(of.func + ".later",
                        substitute(task->name, variable(task) + of.tasks, first) + cast<int64_t>(done * step));
    Expr byte = Variable::make(Int(64), of.func + ".later") + cast<int64_t>((variable(loop) - loop->min) * step);
    requests.push_back(requestLine(of.columns, byte, 2)); // the first cache is too small for them
  }
};

} // namespace

void askBesideSums(Pipeline &pipeline, const std::vector<SumsOfTile> &sums) {
  if (!sums.empty())
    pipeline.add_custom_lowering_pass(new AskBesideSums(sums));
}

} // namespace quern::codegen
