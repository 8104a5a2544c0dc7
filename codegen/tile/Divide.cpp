// Takes: a kernel's graph and a plan's numbers. Gives: its tile program, that of an attention or of products.
#include "codegen/tile/Divide.h"

#include "codegen/tile/Places.h"

namespace quern::codegen::tile {

std::optional<std::string> divide(const KernelGraph &graph, const Numbers &numbers, Program &program) {
  try {
    if (holdsAttention(graph))
      divideAttention(graph, numbers.attend, program);
    else
      divideProducts(graph, numbers, program);
  } catch (const Refusal &refusal) {
    return refusal.what();
  }
  return verify(program);
}

} // namespace quern::codegen::tile
