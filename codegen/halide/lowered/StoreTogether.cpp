// Takes: a kernel's loops as Halide has lowered them, where the values of a tuple are stored one after the other. Gives: the
// same, with all values before all stores.
//
//   p[i] = f(p[i], m[i]); m[i] = g(p[i], m[i])   becomes   let a = f(p[i], m[i]), b = g(p[i], m[i]): p[i] = a; m[i] = b
//
// Why: a result may be written over an argument, of which Halide does not know.
#include "codegen/halide/lowered/StoreTogether.h"

#include <stdexcept>
#include <vector>

using namespace Halide;
using namespace Halide::Internal;

namespace quern::codegen {

namespace {

class ValuesFirst : public IRMutator {
public:
  ValuesFirst(std::string name, size_t results) : name(std::move(name)), results(results) {}

private:
  std::string name;
  size_t results;

  struct Value {
    std::vector<std::pair<std::string, Expr>> lets; ///< what its expressions have names for, outermost first
    const Store *store = nullptr;
  };

  bool isResult(const Store *store) const { return store && store->name.compare(0, name.size(), name) == 0; }
  Value valueOf(Stmt stmt) const {
    Value value;
    for (const LetStmt *let; (let = stmt.as<LetStmt>()); stmt = let->body)
      value.lets.emplace_back(let->name, let->value);
    const auto *store = stmt.as<Store>();
    value.store = isResult(store) ? store : nullptr;
    return value;
  }

  using IRMutator::visit;
  Stmt visit(const Store *store) override {
    if (isResult(store))
      throw std::logic_error(store->name + " is stored without the results beside it");
    return IRMutator::visit(store);
  }
  Stmt visit(const Block *block) override {
    std::vector<Value> all;
    Stmt rest = block;
    while (all.size() < results && rest.defined()) {
      const auto *more = rest.as<Block>();
      Value value = valueOf(more ? more->first : rest);
      if (!value.store)
        break;
      all.push_back(std::move(value));
      rest = more ? more->rest : Stmt();
    }
    if (all.size() < results)
      return IRMutator::visit(block);
    std::vector<std::pair<std::string, Expr>> lets;
    std::vector<Stmt> stores;
    for (const Value &value : all) {
      lets.insert(lets.end(), value.lets.begin(), value.lets.end()); // CSE gives each a name of its own
      const Store *store = value.store;
      lets.emplace_back(unique_name('r'), store->value);
      stores.push_back(Store::make(store->name, Variable::make(store->value.type(), lets.back().first), store->index,
                                   store->param, store->predicate, store->alignment));
    }
    Stmt together = Block::make(stores);
    for (size_t i = lets.size(); i-- > 0;)
      together = LetStmt::make(lets[i].first, lets[i].second, together);
    return rest.defined() ? Block::make(together, mutate(rest)) : together;
  }
};

} // namespace

void storeTogether(Pipeline &pipeline, const Func &results) {
  pipeline.add_custom_lowering_pass(new ValuesFirst(results.name() + ".", size_t(results.outputs())));
}

} // namespace quern::codegen
