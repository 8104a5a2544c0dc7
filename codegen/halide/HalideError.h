// Halide's exceptions as the compiler's.
#ifndef QUERN_CODEGEN_HALIDE_HALIDEERROR_H
#define QUERN_CODEGEN_HALIDE_HALIDEERROR_H

#include <Halide.h>

#include <new>
#include <stdexcept>
#include <string_view>

namespace quern::codegen {

/// What `work` gives. What Halide throws becomes std::runtime_error, "WHAT: its words"; std::bad_alloc where it had no memory.
template <typename Work> auto naming(const std::string &what, Work work) {
  try {
    return work();
  } catch (const Halide::Error &error) {
    // Halide says so where memory for its fibers' stacks could not be had.
    if (std::string_view(error.what()).find("mprotect failed") != std::string_view::npos)
      throw std::bad_alloc();
    throw std::runtime_error(what + ": " + error.what());
  }
}

} // namespace quern::codegen
#endif
