// Bytes as text: RFC 4648, section 4.
#ifndef QUERN_RUNTIME_TOKENIZER_TEXT_BASE64_H
#define QUERN_RUNTIME_TOKENIZER_TEXT_BASE64_H

#include <optional>
#include <string>
#include <string_view>

namespace quern::runtime {

std::string encodeBase64(std::string_view bytes);
/// Nothing for what is no base64. The padding may be missing.
std::optional<std::string> decodeBase64(std::string_view text);

} // namespace quern::runtime
#endif
