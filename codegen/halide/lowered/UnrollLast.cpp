// Takes: a kernel's loops as Halide has lowered them. Gives: the same, without loops that were named: their statements one after
// the other.
#include "codegen/halide/lowered/UnrollLast.h"

#include <algorithm>
#include <optional>
#include <stdexcept>

using namespace Halide;
using namespace Halide::Internal;

namespace quern::codegen {

/// FUNC.STAGE.VARIABLE: Halide adds what was split on the way, and that it begins some loops at 0.
static std::string scheduledName(const std::string &loop) {
  const std::string name = loop.substr(0, loop.find(".rebased"));
  const size_t stage = name.find('.'), variable = name.find('.', stage + 1);
  return variable == std::string::npos ? name : name.substr(0, variable) + name.substr(name.rfind('.'));
}

namespace {

class Unroll : public IRMutator {
public:
  explicit Unroll(std::vector<std::string> loops) : loops(std::move(loops)) {}

private:
  std::vector<std::string> loops;

  using IRMutator::visit;
  Stmt visit(const For *loop) override {
    if (std::find(loops.begin(), loops.end(), scheduledName(loop->name)) == loops.end())
      return IRMutator::visit(loop);
    std::optional<int64_t> length = as_const_int(loop->extent);
    if (!length)
      throw std::logic_error("a loop over " + loop->name + " has no known length");
    std::vector<Stmt> all;
    for (int i = 0; i < *length; ++i)
      all.push_back(mutate(simplify(substitute(loop->name, simplify(loop->min + i), loop->body))));
    return Block::make(all);
  }
};

} // namespace

void unrollLast(Pipeline &pipeline, std::vector<std::string> loops) {
  if (!loops.empty())
    pipeline.add_custom_lowering_pass(new Unroll(std::move(loops)));
}

} // namespace quern::codegen
