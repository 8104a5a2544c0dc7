// A part of a parameter, written as kernels read it.
#ifndef QUERN_RUNTIME_WEIGHTS_FILLWEIGHTS_H
#define QUERN_RUNTIME_WEIGHTS_FILLWEIGHTS_H

#include "runtime/abi/Description.h"
#include "runtime/weights/TensorSource.h"

namespace quern::runtime {

/// Elements (dense) or tiles (packed) [first, first + count) of one parameter, and the zeros where they are written.
struct FillJob {
  const WeightLayout &layout;
  int64_t first, count;
  void *to;
};

/// From a stored tensor. What is not moved as it is goes through strips of some 256 floats: no f32 copy of it exists beside it.
void fillWeights(const FillJob &job, const StoredTensor &source);

/// Random, as randomElement says.
void fillRandom(const FillJob &job, const ParameterInfo &parameter, uint64_t seed, uint64_t number);

/// One element of a random tensor: depends only on the seed, the parameter's number and the element's.
float randomElement(const ParameterInfo &parameter, uint64_t seed, uint64_t number, uint64_t element);

} // namespace quern::runtime
#endif
