// Regular expressions as tokenizer.json writes them (Oniguruma's dialect), in the words of PCRE2.
#ifndef QUERN_RUNTIME_TOKENIZER_TEXT_DIALECT_H
#define QUERN_RUNTIME_TOKENIZER_TEXT_DIALECT_H

#include <string>

namespace quern::runtime {

/// The same pattern for PCRE2 with UTF, UCP and MULTILINE. Throws UserError for what has no such words.
std::string translateRegex(const std::string &source);

} // namespace quern::runtime
#endif
