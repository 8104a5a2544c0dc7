// Hand-written stand-ins for compiled models, so that the runtime is tested without the compiler.
#ifndef QUERN_TESTS_RUNTIME_TOYPROGRAM_H
#define QUERN_TESTS_RUNTIME_TOYPROGRAM_H

#include "runtime/abi/Abi.h"

#include <string>
#include <vector>

namespace quern::runtime::test {

/// A decoder: 16 words, 4 wide, at most 24 positions. Row t is the mean of what it has seen, times two if the whole
/// text is longer than 8 (so what is remembered depends on the length), against a packed head. The word 13 twice in a
/// row fails a check.
extern const quern_program_table toyDecoder;
/// The same, with the function for rows of different lengths (but no check).
extern const quern_program_table toyBatch;
/// The rows that it has computed so far.
extern int64_t toyRaggedRows;
/// The decoder's function on whole texts alone: it cannot be extended step by step.
extern const quern_program_table toyWhole;
/// An encoder-decoder over the same words: the decoder adds the mean of the source, computed once a request and kept.
extern const quern_program_table toyPair;
/// An encoder to one vector a text: the masked mean of its words, of length one; nothing can be generated.
extern const quern_program_table toyEncoder;

/// Weights that fit all three ("words" [16, 4], "head" [4, 16], "scale" [4]) as a file.
std::string writeToyWeights();
/// A tokenizer for the words "a" to "p" (numbers 0 to 15).
std::string writeToyTokenizer();
/// What the decoder should say next, computed plainly.
int toyNext(const std::vector<int> &text);

} // namespace quern::runtime::test
#endif
