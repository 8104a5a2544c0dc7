// The characters that stand for bytes in byte-level vocabularies: printable ones for themselves, the others shifted up
// from U+0100.
#ifndef QUERN_RUNTIME_TOKENIZER_TEXT_BYTECHARS_H
#define QUERN_RUNTIME_TOKENIZER_TEXT_BYTECHARS_H

#include <string>
#include <string_view>

namespace quern::runtime {

/// Each byte as its character, in UTF-8.
std::string toByteChars(std::string_view bytes);
/// The inverse; false (and nothing appended) if some character stands for no byte.
bool appendBytes(std::string &bytes, std::string_view chars);

} // namespace quern::runtime
#endif
