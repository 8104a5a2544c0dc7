// Tokens that are found in the text before anything else happens to it: special ones such as "<s>", and added words.
#ifndef QUERN_RUNTIME_TOKENIZER_ADDEDTOKENS_H
#define QUERN_RUNTIME_TOKENIZER_ADDEDTOKENS_H

#include "runtime/tokenizer/Normalizer.h"
#include "runtime/tokenizer/text/ByteTrie.h"

#include <nlohmann/json_fwd.hpp>

#include <bitset>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace quern::runtime {

struct AddedToken {
  int id = 0;
  std::string content;
  std::string text; // what is looked for and what it decodes to: the content, normalized if the token is
  bool singleWord = false, stripLeft = false, stripRight = false, normalized = false;
  /// Left out where special tokens are. As in the library, its text decides: that of a special token which a normalizer
  /// changes is no special token's content.
  bool special = false;
};

class AddedTokens {
public:
  /// A stretch of text, or a token (id >= 0) found in it.
  struct Part {
    std::string_view text;
    int id;
  };

  /// The list `added_tokens`. Those with `normalized` are looked for in normalized text, in the form that `normalizer`
  /// gives them.
  void read(const nlohmann::json &list, const Normalizer *normalizer);
  /// Cuts out the tokens for raw, or for normalized text: leftmost first, of those the longest.
  std::vector<Part> split(std::string_view text, bool normalizedText) const;

  const AddedToken *find(int id) const;
  const AddedToken *find(std::string_view content) const;

private:
  std::map<int, AddedToken> tokens;
  ByteTrie tries[2];          // of raw and of normalized ones: id
  std::bitset<256> firsts[2]; // bytes that they begin with
};

} // namespace quern::runtime
#endif
