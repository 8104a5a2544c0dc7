// Attention: scores, mask, softmax and weighted sum without the matrix of scores ever being stored.
#ifndef QUERN_CODEGEN_ATTENTIONFAMILY_H
#define QUERN_CODEGEN_ATTENTIONFAMILY_H

#include "codegen/KernelBuilder.h"

namespace quern::codegen {

class AttentionFamily {
public:
  /// Nodes that the family computes itself, as flags; the value of the last of them is defined.
  static std::vector<char> claim(KernelBuilder &builder);
};

} // namespace quern::codegen
#endif
