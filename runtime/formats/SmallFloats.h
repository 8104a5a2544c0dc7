// Floating-point numbers of one byte.
#ifndef QUERN_RUNTIME_FORMATS_SMALLFLOATS_H
#define QUERN_RUNTIME_FORMATS_SMALLFLOATS_H

#include <cstdint>

namespace quern::runtime {

/// The eight bits of OCP 8-bit floats (Micikevicius et al. 2022). E4M3 has no infinities; E5M2 is the upper byte of
/// binary16.
float e4m3ToFloat(uint8_t bits);
float e5m2ToFloat(uint8_t bits);

} // namespace quern::runtime
#endif
