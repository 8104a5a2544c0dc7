// Takes: a kernel's loops as Halide has lowered them, where the values of a tuple are stored one after the other. Gives: the
// same, with all values before all stores.
//
//   p[i] = f(p[i], m[i]); m[i] = g(p[i], m[i])   becomes   let a = f(p[i], m[i]), b = g(p[i], m[i]): p[i] = a; m[i] = b
//
// Why: a result may be written over an argument, of which Halide does not know.
#include "codegen/halide/lowered/StoreTogether.h"

#include "codegen/halide/lowered/Lets.h"

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

using namespace Halide;
using namespace Halide::Internal;

namespace quern::codegen {

namespace {

class ValuesFirst : public IRMutator {
public:
  ValuesFirst(std::string name, size_t results) : name(std::move(name)), results(results) {}

private:
  /// One of the statements after each other that a block has, without the names around it.
  struct Item {
    Lets lets; ///< which it is the first to see
    Stmt stmt;
  };
  std::string name;
  size_t results;

  const Store *resultOf(const Stmt &stmt) const {
    const auto *store = stmt.as<Store>();
    return store && store->name.compare(0, name.size(), name) == 0 ? store : nullptr;
  }

  /// `lets`: around what comes next.
  static void flatten(const Stmt &stmt, Lets &lets, std::vector<Item> &items) {
    if (const auto *block = stmt.as<Block>()) {
      flatten(block->first, lets, items);
      flatten(block->rest, lets, items);
    } else if (const auto *let = stmt.as<LetStmt>()) {
      lets.emplace_back(let->name, let->value);
      flatten(let->body, lets, items);
    } else {
      items.push_back({std::move(lets), stmt});
      lets.clear();
    }
  }

  Stmt rewrite(const Stmt &stmt) {
    Lets lets;
    std::vector<Item> items;
    flatten(stmt, lets, items);
    if (std::none_of(items.begin(), items.end(), [&](const Item &item) { return resultOf(item.stmt); }))
      return Stmt();
    Stmt all;
    for (size_t end = items.size(); end;) {
      const size_t from = resultOf(items[end - 1].stmt) ? end - std::min(end, results) : end - 1;
      Stmt part = end - from > 1 ? together(items, from, end) : within(items[from].lets, mutate(items[from].stmt));
      // The part's names, of CSE, each of which stands for one value, go on to what is behind it.
      all = all.defined() ? followedBy(part, all) : part;
      end = from;
    }
    return all;
  }

  static Stmt followedBy(const Stmt &stmt, const Stmt &next) {
    if (const auto *let = stmt.as<LetStmt>())
      return LetStmt::make(let->name, let->value, followedBy(let->body, next));
    return Block::make(stmt, next);
  }

  /// The results of one element.
  Stmt together(const std::vector<Item> &items, size_t from, size_t end) const {
    Lets lets;
    std::vector<Stmt> stores;
    for (size_t i = from; i < end; ++i) {
      const Store *store = resultOf(items[i].stmt);
      if (!store || end - from != results || store->name != name + std::to_string(i - from))
        throw std::logic_error("results of " + name + " are not stored together");
      lets.insert(lets.end(), items[i].lets.begin(), items[i].lets.end());
      lets.emplace_back(unique_name('r'), store->value);
      stores.push_back(Store::make(store->name, Variable::make(store->value.type(), lets.back().first), store->index,
                                   store->param, store->predicate, store->alignment));
    }
    return within(lets, Block::make(stores));
  }

  using IRMutator::visit;
  Stmt visit(const Store *store) override {
    if (resultOf(store))
      throw std::logic_error(store->name + " is stored without the results beside it");
    return IRMutator::visit(store);
  }
  Stmt visit(const Block *block) override {
    Stmt changed = rewrite(block);
    return changed.defined() ? changed : IRMutator::visit(block);
  }
  Stmt visit(const LetStmt *let) override {
    Stmt changed = rewrite(let);
    return changed.defined() ? changed : IRMutator::visit(let);
  }
};

} // namespace

void storeTogether(Pipeline &pipeline, const Func &results) {
  pipeline.add_custom_lowering_pass(new ValuesFirst(results.name() + ".", size_t(results.outputs())));
}

} // namespace quern::codegen
