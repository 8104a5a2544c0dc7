// A kernel of every family, for tests that hold for all of them.
#ifndef QUERN_TESTS_CODEGEN_SUPPORT_FAMILIES_H
#define QUERN_TESTS_CODEGEN_SUPPORT_FAMILIES_H

#include "codegen/Targets.h"
#include "tests/codegen/support/GraphMaker.h"
#include "tests/codegen/support/Reference.h"

#include <memory>

namespace quern::codegen {

struct FamilyKernel {
  std::unique_ptr<GraphMaker> maker;
  std::vector<Lengths> lengths; ///< one, less than a tile, several, more than a task's
  const KernelGraph &graph() const { return maker->graph; }
};

/// Packed weights have the target's tile.
std::vector<FamilyKernel> everyFamily(const CpuTarget &target);

} // namespace quern::codegen
#endif
