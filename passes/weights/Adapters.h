// Which matrices have adapters: `--lora`.
#ifndef QUERN_PASSES_WEIGHTS_ADAPTERS_H
#define QUERN_PASSES_WEIGHTS_ADAPTERS_H

#include "ir/Dialect.h"

#include <string>
#include <vector>

namespace quern::passes {

struct AdapterChoice {
  int64_t rank = 0;
  std::vector<std::string> globs;

  /// "RANK[,GLOB]...". Throws std::runtime_error.
  static AdapterChoice parse(llvm::StringRef text);
  /// Without globs the matrices of layers; else those of which a name fits one.
  bool fits(ir::ParamOp param, bool inLayers) const;
};

} // namespace quern::passes
#endif
