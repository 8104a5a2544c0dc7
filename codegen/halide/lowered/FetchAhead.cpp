// Takes: a kernel's loops as Halide has lowered them. Gives: the same, with a request beside each read of a buffer, for the line
// that stands some bytes behind it. Reads of one iteration that share a line ask once.
#include "codegen/halide/lowered/FetchAhead.h"

#include "codegen/halide/lowered/Lets.h"

#include <algorithm>
#include <optional>
#include <set>

using namespace Halide;
using namespace Halide::Internal;

namespace quern::codegen {

namespace {

/// Positions of 64 bits are made of casts, which Halide's simplifier does not look through.
class CastLast : public IRMutator {
  using IRMutator::visit;
  Expr visit(const Cast *cast) override {
    auto wide = [&](const Expr &value) { return mutate(Cast::make(cast->type, value)); };
    if (cast->type == Int(64) && cast->value.type() == Int(32)) {
      if (const Add *sum = cast->value.as<Add>())
        return wide(sum->a) + wide(sum->b);
      if (const Sub *difference = cast->value.as<Sub>())
        return wide(difference->a) - wide(difference->b);
      if (const Mul *product = cast->value.as<Mul>())
        return wide(product->a) * wide(product->b);
    }
    return IRMutator::visit(cast);
  }
};

/// Vectors of neighbouring elements that a statement reads of a buffer.
class Reads : public IRVisitor {
public:
  struct Read {
    int64_t bytes;
    Expr at;   ///< its first byte, as the statement says it
    Expr full; ///< the same without the names of `lets`
  };
  Reads(const std::string &buffer, const Lets &lets) : buffer(buffer), lets(lets) {}
  std::vector<Read> reads;

private:
  const std::string &buffer;
  Lets lets, own; ///< around the statement, within it

  using IRVisitor::visit;
  void visit(const Load *load) override {
    if (const Ramp *ramp = load->index.as<Ramp>(); load->name == buffer && (ramp || load->type.is_scalar())) {
      const int64_t each = load->type.bytes();
      Expr at = without(own, cast<int64_t>(ramp ? ramp->base : load->index)) * make_const(Int(64), each);
      reads.push_back({each * load->type.lanes(), at, castsLast(without(lets, at))});
    }
    IRVisitor::visit(load);
  }
  void visit(const Let *let) override {
    own.emplace_back(let->name, let->value);
    IRVisitor::visit(let);
    own.pop_back();
  }
};

/// Lines that have been asked for, as distances from one of them.
struct Run {
  std::string buffer;
  Expr first;
  std::set<int64_t> lines;
};

int64_t lineOf(int64_t byte) {
  return byte >= 0 ? byte / lineBytes : -((lineBytes - 1 - byte) / lineBytes);
}

class Fetch : public MutatorWithLets {
public:
  explicit Fetch(const std::vector<FetchedAhead> &fetched) : fetched(fetched) {}

private:
  std::vector<FetchedAhead> fetched;
  std::vector<const FetchedAhead *> active; ///< whose loops are around
  std::vector<Run> runs;                    ///< of the innermost loop

  using MutatorWithLets::visit;
  Stmt visit(const For *loop) override {
    std::vector<Run> outer;
    std::swap(outer, runs);
    const size_t before = active.size();
    for (const FetchedAhead &one : fetched)
      if (loop->name.rfind(one.loops, 0) == 0 && std::find(active.begin(), active.end(), &one) == active.end())
        active.push_back(&one);
    Stmt changed = IRMutator::visit(loop);
    active.resize(before);
    std::swap(outer, runs);
    return changed;
  }

  Stmt visit(const Store *store) override {
    std::vector<Stmt> all;
    for (const FetchedAhead *one : active) {
      Reads found(one->buffer, lets);
      store->accept(&found);
      for (const Reads::Read &read : found.reads)
        ask(*one, read, all);
    }
    all.emplace_back(store);
    return Block::make(all);
  }

  /// What the read becomes later.
  static Expr ahead(const FetchedAhead &one, const Reads::Read &read) {
    if (one.rows.empty())
      return read.at + make_const(Int(64), one.bytes);
    return substitute(one.rows, Variable::make(Int(32), one.rows) + one.rowsAhead, read.full);
  }

  /// For the lines of a read that nobody asked for in this iteration.
  void ask(const FetchedAhead &one, const Reads::Read &read, std::vector<Stmt> &all) {
    int64_t first = 0; // of the read, from the run's first
    auto run = std::find_if(runs.begin(), runs.end(), [&](const Run &known) {
      if (known.buffer != one.buffer)
        return false;
      std::optional<int64_t> distance = as_const_int(simplify(read.full - known.first));
      first = distance.value_or(0);
      return distance.has_value();
    });
    if (run == runs.end())
      run = runs.insert(runs.end(), Run{one.buffer, read.full, {}});
    for (int64_t line = lineOf(first); line <= lineOf(first + read.bytes - 1); ++line)
      if (run->lines.insert(line).second)
        all.push_back(
            requestLine(one.buffer, ahead(one, read) + make_const(Int(64), line * lineBytes - first), one.cache));
  }
};

} // namespace

Expr castsLast(const Expr &position) {
  return CastLast().mutate(position);
}

Stmt requestLine(const std::string &buffer, const Expr &byte, int cache, bool toWrite) {
  Expr memory = reinterpret(UInt(64), Variable::make(Handle(), buffer));
  Expr address = reinterpret(Handle(), memory + cast<uint64_t>(simplify(byte)));
  // LLVM's intrinsic: of a read or a write, how near (3: the first cache), of data.
  return Evaluate::make(Call::make(Int(32), "llvm.prefetch.p0", {address, int(toWrite), 4 - cache, 1}, Call::Extern));
}

void fetchAhead(Pipeline &pipeline, const std::vector<FetchedAhead> &fetched) {
  if (!fetched.empty())
    pipeline.add_custom_lowering_pass(new Fetch(fetched));
}

} // namespace quern::codegen
