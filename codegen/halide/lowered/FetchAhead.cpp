// Takes: a kernel's loops as Halide has lowered them. Gives: the same, with requests for the lines that stand some bytes behind
// what an iteration reads of a buffer. Reads of one iteration that share a line ask once.
// All requests come behind what an iteration does: LLVM moves no read across one, so requests between reads make it read many
// vectors early and keep them on the stack (docs/design/contractions.md).
#include "codegen/halide/lowered/FetchAhead.h"

#include "codegen/halide/lowered/Lets.h"
#include "codegen/halide/lowered/Loops.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

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

/// Lines that are asked for, as distances from one of them.
struct Run {
  std::string buffer;
  Expr first;          ///< byte that is read
  std::string address; ///< name of the address of what is asked for instead
  std::set<int64_t> lines;
};

Expr addressOf(const std::string &buffer, const Expr &byte) {
  Expr memory = reinterpret(UInt(64), Variable::make(Handle(), buffer));
  return memory + cast<uint64_t>(simplify(byte));
}

Stmt requestAt(const Expr &address, int cache, bool toWrite = false) {
  // LLVM's intrinsic: of a read or a write, how near (3: the first cache), of data.
  return Evaluate::make(Call::make(Int(32), "llvm.prefetch.p0",
                                   {reinterpret(Handle(), address), int(toWrite), 4 - cache, 1}, Call::Extern));
}

int64_t lineOf(int64_t byte) {
  return byte >= 0 ? byte / lineBytes : -((lineBytes - 1 - byte) / lineBytes);
}

class Fetch : public MutatorWithLets {
public:
  explicit Fetch(const std::vector<FetchedAhead> &fetched) : fetched(fetched) {}

private:
  std::vector<FetchedAhead> fetched;
  std::vector<const FetchedAhead *> active; ///< whose loops are around
  std::vector<Run> runs;                    ///< of the statement that `gathered` mutates, as what follows
  Lets addresses;                           ///< of the runs
  std::vector<Stmt> requests;               ///< in their order
  size_t outside = 0;                       ///< of `lets`, how many stand around that statement
  int named = 0;

  using MutatorWithLets::visit;
  Stmt visit(const For *loop) override {
    const size_t before = active.size();
    for (const FetchedAhead &one : fetched)
      if (loop->name.rfind(one.loops, 0) == 0 && std::find(active.begin(), active.end(), &one) == active.end())
        active.push_back(&one);
    Stmt changed = withBody(loop, gathered(loop->body));
    active.resize(before);
    return changed;
  }

  /// What is asked for under a condition stays under it.
  Stmt visit(const IfThenElse *test) override {
    Stmt then = gathered(test->then_case);
    return IfThenElse::make(test->condition, then, test->else_case.defined() ? gathered(test->else_case) : Stmt());
  }

  /// A buffer has no address before its memory is allocated.
  Stmt visit(const Allocate *made) override {
    return Allocate::make(made->name, made->type, made->memory_type, made->extents, made->condition,
                          gathered(made->body), made->new_expr, made->free_function, made->padding);
  }

  /// The statement before all requests that are made in it, but for those of its own loops, conditions and allocations.
  Stmt gathered(const Stmt &stmt) {
    auto around = std::make_tuple(std::exchange(runs, {}), std::exchange(addresses, {}), std::exchange(requests, {}),
                                  std::exchange(outside, lets.size()));
    Stmt changed = mutate(stmt);
    requests.insert(requests.begin(), changed);
    Stmt all = within(addresses, Block::make(requests));
    std::tie(runs, addresses, requests, outside) = around;
    return all;
  }

  Stmt visit(const Store *store) override {
    askForReadsOf(*store);
    return store;
  }

  /// What a statement reads more than once.
  Stmt visit(const LetStmt *let) override {
    askForReadsOf(*let->value.get());
    return MutatorWithLets::visit(let);
  }

  void askForReadsOf(const IRNode &node) {
    for (const FetchedAhead *one : active) {
      Reads found(one->buffer, lets);
      node.accept(&found);
      for (const Reads::Read &read : found.reads)
        ask(*one, read);
    }
  }

  /// What the read becomes later.
  Expr ahead(const FetchedAhead &one, const Reads::Read &read) const {
    if (one.rows.empty())
      return without(Lets(lets.begin() + outside, lets.end()), read.at) + make_const(Int(64), one.bytes);
    return substitute(one.rows, Variable::make(Int(32), one.rows) + one.rowsAhead, read.full);
  }

  /// For the lines of a read that nobody asked for. One address serves a run, so that requests differ by constants.
  void ask(const FetchedAhead &one, const Reads::Read &read) {
    int64_t first = 0; // of the read, from the run's first
    auto run = std::find_if(runs.begin(), runs.end(), [&](const Run &known) {
      if (known.buffer != one.buffer)
        return false;
      std::optional<int64_t> distance = as_const_int(simplify(read.full - known.first));
      first = distance.value_or(0);
      return distance.has_value();
    });
    if (run == runs.end()) {
      run = runs.insert(runs.end(), Run{one.buffer, read.full, "quern.asked." + std::to_string(named++), {}});
      addresses.emplace_back(run->address, addressOf(one.buffer, ahead(one, read)));
    }
    Expr address = Variable::make(UInt(64), run->address);
    for (int64_t line = lineOf(first); line <= lineOf(first + read.bytes - 1); ++line)
      if (run->lines.insert(line).second)
        requests.push_back(requestAt(address + cast<uint64_t>(make_const(Int(64), line * lineBytes)), one.cache));
  }
};

} // namespace

Expr castsLast(const Expr &position) {
  return CastLast().mutate(position);
}

Stmt requestLine(const std::string &buffer, const Expr &byte, int cache, bool toWrite) {
  return requestAt(addressOf(buffer, byte), cache, toWrite);
}

void fetchAhead(Pipeline &pipeline, const std::vector<FetchedAhead> &fetched) {
  if (!fetched.empty())
    pipeline.add_custom_lowering_pass(new Fetch(fetched));
}

} // namespace quern::codegen
