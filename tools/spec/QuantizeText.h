// Where the formats of weights are said: by --quantize, in a file that it names, in the config.json of a quantised folder.
#ifndef QUERN_TOOLS_SPEC_QUANTIZETEXT_H
#define QUERN_TOOLS_SPEC_QUANTIZETEXT_H

#include <string>
#include <string_view>

namespace quern::tools {

/// `quant_method` of what `quern quantize` writes.
inline constexpr char ownMethod[] = "quern";

/// "FORMAT[,GLOB=FORMAT]..." of what --quantize was given: itself, or the content of the file of that name.
/// Throws std::runtime_error, with the line of the file.
std::string quantizeText(const std::string &given);

/// The same of a text with a line for each format, "GLOB = FORMAT", or FORMAT alone for all weights, which comes first; # begins
/// a comment. `name` is for messages.
std::string formatsOfLines(std::string_view text, const std::string &name);

/// What the config.json of a quantised folder says; empty for any other. `name` is for messages.
std::string quantizeOfConfig(const std::string &configText, const std::string &name);

/// The same of a checkpoint's folder; empty for a file, or where there is no config.json.
std::string quantizeOfCheckpoint(const std::string &weights);

} // namespace quern::tools
#endif
