// Names that statements give to values, in the order in which they are given.
#ifndef QUERN_CODEGEN_HALIDE_LOWERED_LETS_H
#define QUERN_CODEGEN_HALIDE_LOWERED_LETS_H

#include <Halide.h>

#include <string>
#include <utility>
#include <vector>

namespace quern::codegen {

using Lets = std::vector<std::pair<std::string, Halide::Expr>>;

/// The same value, with what the names stand for in their place.
inline Halide::Expr without(const Lets &lets, Halide::Expr value) {
  for (auto let = lets.rbegin(); let != lets.rend(); ++let)
    value = Halide::Internal::substitute(let->first, let->second, value);
  return value;
}

/// A statement that may use the names.
inline Halide::Internal::Stmt within(const Lets &lets, Halide::Internal::Stmt stmt) {
  for (auto let = lets.rbegin(); let != lets.rend(); ++let)
    stmt = Halide::Internal::LetStmt::make(let->first, let->second, stmt);
  return stmt;
}

/// A visitor that knows the names around where it is, beside those it is given.
class VisitorWithLets : public Halide::Internal::IRVisitor {
protected:
  explicit VisitorWithLets(const Lets &around) : lets(around) {}
  Lets lets;

  using IRVisitor::visit;
  void visit(const Halide::Internal::LetStmt *let) override { named(let); }
  void visit(const Halide::Internal::Let *let) override { named(let); }

private:
  template <typename T> void named(const T *let) {
    lets.emplace_back(let->name, let->value);
    IRVisitor::visit(let);
    lets.pop_back();
  }
};

/// A mutator that knows the names around where it is.
class MutatorWithLets : public Halide::Internal::IRMutator {
protected:
  Lets lets;

  using IRMutator::visit;
  Halide::Internal::Stmt visit(const Halide::Internal::LetStmt *let) override {
    lets.emplace_back(let->name, let->value);
    Halide::Internal::Stmt body = mutate(let->body);
    lets.pop_back();
    return Halide::Internal::LetStmt::make(let->name, let->value, body);
  }
};

} // namespace quern::codegen
#endif
