// The patterns by which byte-level BPE cuts text into words, by hand.
#ifndef QUERN_RUNTIME_TOKENIZER_TEXT_WORDSCANNER_H
#define QUERN_RUNTIME_TOKENIZER_TEXT_WORDSCANNER_H

#include <optional>
#include <string_view>

namespace quern::runtime {

/// The patterns that nearly all published models of this kind use: GPT-2's, Llama 3's (cl100k), Qwen 2's and 3.5's, those
/// of GPT-4o (o200k) and Mistral's Tekken. They match at every place of a text, so each word ends where the next begins.
inline constexpr char gpt2Words[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
inline constexpr char llama3Words[] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
                                      "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
inline constexpr char qwen2Words[] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
                                     "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
inline constexpr char qwen35Words[] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| "
                                      "?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
inline constexpr char o200kWords[] =
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}"
    "]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}"
    "]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
inline constexpr char tekkenWords[] =
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|[^\\r\\n\\p{L}\\p{N}]?"
    "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|\\p{N}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

class WordScanner {
public:
  /// Nothing for a pattern that is spelled otherwise: the matcher of Pattern.h takes all.
  static std::optional<WordScanner> of(std::string_view pattern);
  /// Where the word that begins at `at` ends, in valid UTF-8. Its time is linear in the word and the white space behind.
  size_t end(std::string_view text, size_t at) const;

  struct Rules {
    bool leadingContractions, trailingContractions, anyCase; // "'s" before all else; at the end of a word; also "'S"
    bool anyPrefix;                                          // a word may begin with any sign, not only with a space
    bool cased;                                              // a capital after a small letter begins a word
    int digits;                                              // in one word; 0: as many as there are, a space before
    const char *tail;                                        // signs go on with these
    bool lines;                                              // white space ends at its last line end
    bool marks = false;                                      // marks are letters, too; `cased` has its own
  };

private:
  explicit WordScanner(const Rules &rules) : rules(&rules) {}
  const Rules *rules;

  size_t letters(std::string_view text, size_t at) const;
};

} // namespace quern::runtime
#endif
