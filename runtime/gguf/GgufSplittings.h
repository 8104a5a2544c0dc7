// How vocabularies of byte-pair encoding in GGUF files cut text into words: what tokenizer.json of the same models says.
#ifndef QUERN_RUNTIME_GGUF_GGUFSPLITTINGS_H
#define QUERN_RUNTIME_GGUF_GGUFSPLITTINGS_H

#include <string>
#include <string_view>

namespace quern::runtime {

struct Splitting {
  enum : unsigned {
    WholeWords = 1, // a word that is a token is not joined from its parts (ignore_merges)
    Begins = 2,     // BOS before a text, if the file does not say
    Ends = 4,       // EOS behind it
    Composed = 8,   // the text is put in normal form C
    Characters = 16 // the vocabulary's tokens are characters, with bytes as a fallback
  };
  const char *names;    // values of `tokenizer.ggml.pre`
  const char *steps[6]; // one after the other: patterns, or pre-tokenizers as JSON
  unsigned is = 0;      // of the above
};

/// Files that are older than `tokenizer.ggml.pre` have none; what is theirs follows from the architecture where all of its
/// models had the same. Null where nothing is known.
const Splitting *splittingOf(const std::string &pre, const std::string &architecture);

/// All names, for messages.
std::string knownSplittings();

} // namespace quern::runtime
#endif
