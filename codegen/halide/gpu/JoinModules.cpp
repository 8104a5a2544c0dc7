// Takes: modules of launches. Gives: one module, in which each table has a name of its own.
#include "codegen/halide/gpu/JoinModules.h"

#include <map>

using namespace Halide;
using namespace Halide::Internal;

namespace quern::codegen {
namespace {

class Renamed : public IRMutator {
public:
  std::map<std::string, std::string> names;

private:
  using IRMutator::visit;
  Expr visit(const Variable *variable) override {
    auto found = names.find(variable->name);
    return found == names.end() ? Expr(variable) : Variable::make(variable->type, found->second);
  }
};

} // namespace

Module joinModules(const std::string &name, const std::vector<Module> &modules) {
  Module all(name, modules.at(0).target());
  for (size_t i = 0; i < modules.size(); ++i) {
    Renamed renamed;
    for (const Buffer<> &table : modules[i].buffers()) {
      std::string own = table.name() + "_" + std::to_string(i);
      renamed.names[table.name() + ".buffer"] = own + ".buffer";
      all.append(Buffer<>(Runtime::Buffer<>(table.get()->copy()), own));
    }
    for (LoweredFunc function : modules[i].functions()) {
      function.body = renamed.mutate(function.body);
      all.append(function);
    }
  }
  all.set_any_strict_float(true); // what is asked of single launches stays as it is in their sources
  return all;
}

} // namespace quern::codegen
