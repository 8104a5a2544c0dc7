// Square blocks of words, rows for columns, in registers: Halide 21 has no schedule for it, and gathers number by number.
#ifndef QUERN_CODEGEN_HALIDE_LOWERED_TURNWORDS_H
#define QUERN_CODEGEN_HALIDE_LOWERED_TURNWORDS_H

#include <Halide.h>

#include <string>
#include <vector>

namespace quern::codegen {

inline constexpr int wordsTurned = 16; ///< of AMX, and of AVX-512's vectors

/// `func(column, row, ...) = turnedWord(other(row, column, ...))`, in two serial loops of `words` iterations alone.
struct TurnedWords {
  Halide::Func func;
  std::string column, row; ///< names of loops
  int words = wordsTurned; ///< a power of two
};

/// A word of 32 bits read from memory; what no pass replaces does not link.
Halide::Expr turnedWord(const Halide::Expr &word);

/// Defines a copy whose words lie across in memory: `across` has them as they are read there, its first two loops exchanged.
void defineTurned(Halide::Func copy, Halide::Func across, std::vector<Halide::Var> args, const Halide::Expr &value);
/// A block of these words for each iteration of `level`, their vectors along `inner`.
void scheduleAcross(Halide::Func across, const Halide::LoopLevel &level, const Halide::Var &inner,
                    const Halide::Var &outer, const Halide::Var &piece, int pieces, int words = wordsTurned);

/// Replaces these loops in what the pipeline becomes.
void turnWords(Halide::Pipeline &pipeline, const std::vector<TurnedWords> &turned);

} // namespace quern::codegen
#endif
