// Byte-level byte-pair encoding, learnt from texts.
#ifndef QUERN_RUNTIME_TOKENIZER_MODEL_TRAINBPE_H
#define QUERN_RUNTIME_TOKENIZER_MODEL_TRAINBPE_H

#include <string>
#include <string_view>
#include <vector>

namespace quern::runtime {

/// A tokenizer.json with at most `size` tokens: the 256 bytes, merges of the most frequent pairs (of pairs as frequent,
/// that with the smaller numbers), then `special`. It ends early where no pair occurs `least` times. Throws UserError
/// if `size` has no room for the bytes and the special tokens, or a special token is empty or there twice.
std::string trainBpe(const std::vector<std::string_view> &texts, size_t size, const std::vector<std::string> &special,
                     int64_t least = 2);

} // namespace quern::runtime
#endif
