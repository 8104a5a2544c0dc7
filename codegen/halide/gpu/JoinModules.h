// Several pipelines as one object.
#ifndef QUERN_CODEGEN_HALIDE_GPU_JOINMODULES_H
#define QUERN_CODEGEN_HALIDE_GPU_JOINMODULES_H

#include <Halide.h>

namespace quern::codegen {

/// All their functions, for the target of the first. Halide's own link_modules gives the sources of their launches, which all
/// have one name, to the wrong functions.
Halide::Module joinModules(const std::string &name, const std::vector<Halide::Module> &modules);

} // namespace quern::codegen
#endif
