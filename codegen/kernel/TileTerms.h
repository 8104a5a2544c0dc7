// f32 by AMX, which multiplies bf16: a number of f32 is the sum of three of bf16 (its bits 1 to 8, 9 to 16, 17 to 24), and a
// product the sum of those products of theirs that f32 can still see (Henry, Tang and Heinecke, "Leveraging the bfloat16
// Artificial Intelligence Datatype For Higher-Precision Computations", 2019).
#ifndef QUERN_CODEGEN_KERNEL_TILETERMS_H
#define QUERN_CODEGEN_KERNEL_TILETERMS_H

#include <vector>

namespace quern::codegen {

inline constexpr int piecesOfF32 = 3;

/// One of these products: which piece of a row's number, and which of a column's; 0 is the largest.
struct TileTerm {
  int row, column;
};

/// 1, 3 or 6 of them. As far as can be, one shares a piece with the term before it, which is then in a register.
inline std::vector<TileTerm> termsOf(int rowPieces, int columnPieces) {
  if (rowPieces == 1 && columnPieces == 1)
    return {{0, 0}};
  if (columnPieces == 1)
    return {{2, 0}, {1, 0}, {0, 0}};
  if (rowPieces == 1)
    return {{0, 2}, {0, 1}, {0, 0}};
  return {{1, 1}, {1, 0}, {2, 0}, {0, 2}, {0, 1}, {0, 0}}; // two loops, in each of which no piece comes back
}

} // namespace quern::codegen
#endif
