// Takes: a kernel's loops as Halide has lowered them. Gives: the same, with conditions asked where they are known first.
//
//   for each block                               for each block
//     sums = ... in registers                      if (order[block] >= 0)
//     for each step                                  sums = ... in registers
//       group = ... in registers             ->      for each step
//       if (order[block] >= 0) sums += group             group = ...;  sums += group
//     if (order[block] >= 0) result = sums           result = sums
#include "codegen/halide/lowered/AskFirst.h"

#include "codegen/halide/lowered/Lets.h"
#include "codegen/halide/lowered/Loops.h"

#include <algorithm>
#include <optional>
#include <set>

using namespace Halide;
using namespace Halide::Internal;

namespace quern::codegen {

namespace {

using Conditions = std::vector<Expr>;

bool has(const Conditions &conditions, const Expr &condition) {
  return std::any_of(conditions.begin(), conditions.end(), [&](const Expr &its) { return equal(its, condition); });
}

/// Without the names that statements give, so that two of them compare.
void split(const Lets &lets, const Expr &condition, Conditions &into) {
  if (const And *both = condition.as<And>()) {
    split(lets, both->a, into);
    split(lets, both->b, into);
  } else {
    into.push_back(without(lets, condition));
  }
}

bool isRequest(const Evaluate *evaluate) {
  const Call *call = evaluate->value.as<Call>();
  return is_const(evaluate->value) || (call && call->is_intrinsic(Call::prefetch));
}

/// What a statement does that is seen after it: the conditions of all of that, and what it writes on the way.
class Effects : public VisitorWithLets {
public:
  Effects() : VisitorWithLets({}) {}
  std::optional<Conditions> common; ///< of all effects; none if there is none
  std::set<std::string> written, named;

private:
  Conditions around;
  std::set<std::string> own;

  void effect() {
    if (!common)
      common = around;
    std::erase_if(*common, [&](const Expr &condition) { return !has(around, condition); });
  }

  using VisitorWithLets::visit;
  void visit(const Allocate *allocate) override {
    own.insert(allocate->name);
    IRVisitor::visit(allocate);
  }
  void visit(const For *loop) override {
    named.insert(loop->name);
    IRVisitor::visit(loop);
  }
  void visit(const Store *store) override {
    written.insert(store->name);
    if (!own.contains(store->name))
      effect();
  }
  void visit(const Evaluate *evaluate) override {
    if (!isRequest(evaluate))
      effect();
  }
  void visit(const AssertStmt *) override { effect(); }
  void visit(const IfThenElse *test) override {
    const size_t before = around.size();
    split(lets, test->condition, around);
    test->then_case.accept(this);
    around.resize(before);
    if (test->else_case.defined())
      test->else_case.accept(this);
  }
};

class Reads : public IRVisitor {
public:
  std::set<std::string> memory, names;

private:
  using IRVisitor::visit;
  void visit(const Load *load) override {
    memory.insert(load->name);
    IRVisitor::visit(load);
  }
  void visit(const Variable *variable) override { names.insert(variable->name); }
};

/// A statement where a condition holds.
class Holds : public MutatorWithLets {
public:
  explicit Holds(Expr condition) : condition(std::move(condition)) {}

private:
  Expr condition;

  using MutatorWithLets::visit;
  Stmt visit(const IfThenElse *test) override {
    Conditions asked;
    split(lets, test->condition, asked);
    const size_t before = asked.size();
    std::erase_if(asked, [&](const Expr &its) { return equal(its, condition); });
    if (asked.size() == before)
      return MutatorWithLets::visit(test);
    Stmt body = mutate(test->then_case);
    for (const Expr &rest : asked)
      body = IfThenElse::make(rest, body);
    return body;
  }
};

class Ask : public IRMutator {
  using IRMutator::visit;

  static bool intersect(const std::set<std::string> &some, const std::set<std::string> &others) {
    return std::any_of(some.begin(), some.end(), [&](const std::string &name) { return others.contains(name); });
  }

  Stmt visit(const For *loop) override {
    Stmt body = mutate(loop->body);
    Effects effects;
    body.accept(&effects);
    Conditions before, each;
    std::set<std::string> later; // what is asked within about these may be what the next condition relies on
    for (const Expr &condition : effects.common.value_or(Conditions())) {
      Reads reads;
      condition.accept(&reads);
      if (intersect(reads.memory, effects.written) || intersect(reads.names, effects.named) ||
          intersect(reads.names, later))
        later.insert(reads.names.begin(), reads.names.end());
      else if (!has(before, condition) && !has(each, condition))
        (reads.names.contains(loop->name) ? each : before).push_back(condition);
    }
    for (const Conditions &all : {before, each})
      for (const Expr &condition : all)
        body = Holds(condition).mutate(body);
    auto under = [](const Conditions &conditions, Stmt stmt) {
      for (auto condition = conditions.rbegin(); condition != conditions.rend(); ++condition)
        stmt = IfThenElse::make(*condition, stmt);
      return stmt;
    };
    return under(before, withBody(loop, under(each, body)));
  }
};

} // namespace

void askFirst(Pipeline &pipeline) {
  pipeline.add_custom_lowering_pass(new Ask);
}

} // namespace quern::codegen
