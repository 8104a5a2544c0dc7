// Halide's single header, precompiled once for the files inside the Halide boundary.
#include <Halide.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>
