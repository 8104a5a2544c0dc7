// Takes: the outermost of a stage's loops. Gives: their lengths, and where what they read and write is.
#include "codegen/halide/lowered/PlainLoops.h"

#include "codegen/halide/lowered/Loops.h"

#include <algorithm>
#include <optional>
#include <stdexcept>

using namespace Halide;
using namespace Halide::Internal;

namespace quern::codegen {

/// Halide begins some loops at 0, and says so in their names.
static std::string nameOf(const std::string &loop, const std::string &prefix) {
  std::string name = loop.substr(prefix.size());
  return name.substr(0, name.find(".rebased"));
}

PlainLoops::PlainLoops(const std::string &prefix, const For *outermost) {
  Stmt body = outermost;
  while (true) {
    if (const For *loop = body.as<For>()) {
      loops[nameOf(loop->name, prefix)] = loop;
      body = loop->body;
    } else if (const LetStmt *let = body.as<LetStmt>()) {
      lets.emplace_back(let->name, let->value);
      body = let->body;
    } else {
      break;
    }
  }
  stored = body.as<Store>();
  if (!stored)
    throw std::logic_error("loops of " + prefix + " that do more than store");
}

Expr PlainLoops::extent(const std::string &loop) const {
  auto found = loops.find(loop);
  return found == loops.end() ? Expr(1) : at(found->second->extent);
}

int PlainLoops::extentOf(const std::string &loop) const {
  std::optional<int64_t> known = as_const_int(extent(loop));
  if (!known)
    throw std::logic_error("a loop over " + loop + " has no known length");
  return static_cast<int>(*known);
}

Expr PlainLoops::at(Expr value, const std::string &further, int by) const {
  value = without(lets, value);
  for (const auto &[name, loop] : loops)
    value = substitute(loop->name, name == further ? loop->min + by : loop->min, value);
  return simplify(value);
}

Expr PlainLoops::strideOf(const Expr &index, const std::string &loop, int by) const {
  return simplify(at(index, loop, by) - at(index));
}

namespace {
class Replace : public IRMutator {
public:
  explicit Replace(std::vector<MarkedLoops> marked) : marked(std::move(marked)) {}

private:
  std::vector<MarkedLoops> marked;

  using IRMutator::visit;
  Stmt visit(const For *loop) override {
    for (const MarkedLoops &one : marked)
      if (loop->name.rfind(one.prefix, 0) == 0 &&
          std::find(one.names.begin(), one.names.end(), nameOf(loop->name, one.prefix)) != one.names.end())
        return one.replace(loop);
    return IRMutator::visit(loop);
  }
};
} // namespace

void replaceLoops(Pipeline &pipeline, std::vector<MarkedLoops> marked) {
  if (marked.empty())
    return;
  pipeline.add_custom_lowering_pass(new Replace(std::move(marked)));
}

} // namespace quern::codegen
