// What a kernel's graph is made of, as families see it: known before anything is built.
#ifndef QUERN_CODEGEN_KERNEL_KERNELMATCH_H
#define QUERN_CODEGEN_KERNEL_KERNELMATCH_H

#include "codegen/Targets.h"
#include "codegen/kernel/AttentionGradient.h"
#include "codegen/kernel/AttentionPattern.h"
#include "codegen/kernel/ContractionPattern.h"

#include <map>

namespace quern::codegen {

/// What is known about a kernel's part before the run, by name: `rows`, `inner` ... 0 is what only the run knows.
using Facts = std::map<std::string, int64_t>;

/// A part of a kernel that a family takes care of; a plan has numbers for each.
struct Anchor {
  std::string family;
  int node = -1; ///< -1: all nodes that no other anchor takes
  Facts facts;
};

struct KernelMatch {
  std::vector<AttentionPattern> attentions;
  std::optional<GradientPattern> gradient;
  std::map<int, ContractionPattern> contractions; ///< by their node, but those inside of attention
  std::vector<Anchor> anchors;                    ///< in the order of nodes; what remains comes last

  /// Nodes that attention or its gradient define, in whatever order.
  std::vector<char> inside;
};

/// What is known about every part for a target: `vector`, `registers`.
Facts factsOf(const CpuTarget &target);
KernelMatch matchKernel(const KernelGraph &graph, const CpuTarget &target);

} // namespace quern::codegen
#endif
