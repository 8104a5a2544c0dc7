// What passes ask of loops that Halide has lowered, and make of them.
#ifndef QUERN_CODEGEN_HALIDE_LOWERED_LOOPS_H
#define QUERN_CODEGEN_HALIDE_LOWERED_LOOPS_H

#include <Halide.h>

#include <string>
#include <utility>

namespace quern::codegen {

/// By the end of its name, behind which Halide may say that it now begins at 0.
inline bool isLoop(const Halide::Internal::For *loop, const std::string &name) {
  return loop->name.ends_with(name) || loop->name.ends_with(name + ".rebased");
}

inline Halide::Expr variable(const Halide::Internal::For *loop) {
  return Halide::Internal::Variable::make(Halide::Int(32), loop->name);
}

/// The same iterations of another body.
inline Halide::Internal::Stmt withBody(const Halide::Internal::For *loop, Halide::Internal::Stmt body) {
  return Halide::Internal::For::make(loop->name, loop->min, loop->extent, loop->for_type, loop->partition_policy,
                                     loop->device_api, std::move(body));
}

} // namespace quern::codegen
#endif
