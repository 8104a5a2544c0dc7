// A tile program executed on the processor by plain loops: what it means, whatever code is made of it.
#ifndef QUERN_CODEGEN_TILE_HOSTRUN_H
#define QUERN_CODEGEN_TILE_HOSTRUN_H

#include "codegen/tile/HostValues.h"

namespace quern::codegen::tile {

/// `buffers`: arguments, then results. Runs the variant, or the first that fits the lengths.
void runOnHost(const Program &program, const std::map<std::string, int64_t> &lengths, std::vector<HostBuffer> buffers,
               std::optional<size_t> variant = std::nullopt);

} // namespace quern::codegen::tile
#endif
