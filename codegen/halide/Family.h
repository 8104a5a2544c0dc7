// What the builder knows of families. A producer lists those that it builds with, so a further family is its files and a
// line of that list.
#ifndef QUERN_CODEGEN_HALIDE_FAMILY_H
#define QUERN_CODEGEN_HALIDE_FAMILY_H

#include <vector>

namespace quern::codegen {

class KernelBuilder;

/// Takes the nodes of a kernel that it defines (`KernelBuilder::take`), which it finds in the builder's match.
using KernelFamily = void (*)(KernelBuilder &builder);

struct KernelFamilies {
  std::vector<KernelFamily> list;
  void (*schedule)(KernelBuilder &builder); ///< makes the loops of all that no family scheduled
};

} // namespace quern::codegen
#endif
