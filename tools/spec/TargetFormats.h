// What numbers a target's programs have where nobody says.
#ifndef QUERN_TOOLS_SPEC_TARGETFORMATS_H
#define QUERN_TOOLS_SPEC_TARGETFORMATS_H

#include "tools/spec/SpecOptions.h"

#include <string>

namespace quern::tools {

/// For cuda, where --precision was not given: bf16, of weights, of what they multiply and of what generation keeps (unless
/// --kv-cache says), or of what a gradient keeps; sums are f32. --quantize and a quantised folder keep their formats, and what
/// those multiply is bf16 (unless --activations or a format says). An .mlir file has its own. Whether anything was chosen.
bool takeTargetsFormats(SpecOptions &spec, const std::string &target, const std::string &weights,
                        const boost::program_options::variables_map &given);

} // namespace quern::tools
#endif
