// Low-rank adapters: W = W0 + scale * U V for a stored matrix W [rows, columns], U [rows, rank], V [rank, columns].
#ifndef QUERN_RUNTIME_TRAINING_LORA_H
#define QUERN_RUNTIME_TRAINING_LORA_H

#include <cstdint>

namespace quern::runtime {

/// One matrix with its adapter; all dense and row-major.
struct LoraMatrix {
  int64_t rows, columns, rank;
  float scale;
};

/// The gradients of U and V from that of W: scale * dW V', scale * U' dW.
void loraGradients(const LoraMatrix &matrix, const float *dw, const float *u, const float *v, float *du, float *dv);
/// w = base + scale * U V.
void loraMerge(const LoraMatrix &matrix, const float *base, const float *u, const float *v, float *w);

} // namespace quern::runtime
#endif
