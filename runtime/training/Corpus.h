// Texts and files of token numbers, as one stream of tokens.
#ifndef QUERN_RUNTIME_TRAINING_CORPUS_H
#define QUERN_RUNTIME_TRAINING_CORPUS_H

#include "runtime/tokenizer/Tokenizer.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace quern::runtime {

/// A tokenizer and the text of its tokenizer.json, which goes beside every checkpoint.
struct TrainTokenizer {
  std::string json;
  std::optional<Tokenizer> tokenizer; // none: the data are numbers already
  std::string name;                   // as messages call it
  bool characters = false;            // one token a character, and none for unknown ones
};

/// `name`: "bytes"; "chars", the characters of `text` in the order of their code; or a tokenizer.json, or its folder.
TrainTokenizer makeTokenizer(const std::string &name, const std::string &text);

/// A text of UTF-8; what is not is replaced, with a warning. Throws UserError if there is none.
std::string readText(const std::string &path);

/// Whether a file holds token numbers: *.bin (16 bits each, little endian) or *.u32.
bool isTokenFile(const std::string &path);
std::vector<int32_t> readTokenFile(const std::string &path);

/// The tokens of a text, without any that a template puts around texts. Throws UserError for a character that `chars`
/// has not seen.
std::vector<int32_t> encodeText(const TrainTokenizer &tokenizer, const std::string &text, const std::string &path);

/// Throws UserError, with the place and `hint`, for a number that the model has no embedding for.
void checkBound(const std::vector<int32_t> &tokens, int64_t bound, const std::string &path,
                const std::string &hint = "");

} // namespace quern::runtime
#endif
