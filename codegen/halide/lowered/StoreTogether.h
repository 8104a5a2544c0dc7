// Several results of one loop, which may replace what they are made of: all of an element are computed before the first of them
// is stored.
#ifndef QUERN_CODEGEN_HALIDE_LOWERED_STORETOGETHER_H
#define QUERN_CODEGEN_HALIDE_LOWERED_STORETOGETHER_H

#include <Halide.h>

#include <string>

namespace quern::codegen {

/// `results`: a Func with several values, whose loops write each of them. Throws std::logic_error where one is stored without the
/// others.
void storeTogether(Halide::Pipeline &pipeline, const Halide::Func &results);

} // namespace quern::codegen
#endif
