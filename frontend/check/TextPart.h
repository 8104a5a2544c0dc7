// The part of a multimodal checkpoint that reads and writes text.
#ifndef QUERN_FRONTEND_CHECK_TEXTPART_H
#define QUERN_FRONTEND_CHECK_TEXTPART_H

#include <nlohmann/json.hpp>
#include <optional>

namespace quern::frontend {

/// Where a multimodal config.json keeps what its text part is.
inline constexpr const char *textPart = "text_config";

/// The config.json that the text part has as a model by itself; nothing if `config` has no such part. The outer object
/// says how weights are stored and tied, and has what the inner one lacks of the tokens at which a text begins and ends.
std::optional<nlohmann::ordered_json> textPartOf(const nlohmann::ordered_json &config);

} // namespace quern::frontend
#endif
