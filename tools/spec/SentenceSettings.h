// What modules.json of a sentence encoder says, for its spec.
#ifndef QUERN_TOOLS_SPEC_SENTENCESETTINGS_H
#define QUERN_TOOLS_SPEC_SENTENCESETTINGS_H

#include <string>
#include <vector>

namespace quern::tools {

/// Settings NAME=VALUE of a spec that uses `sentence_vector` of the standard library: `dense` (path, out_features, bias and
/// activation of each Dense module) and `unit` (whether a Normalize follows). Nothing where the folder has no modules.json.
/// Throws std::runtime_error for modules that no such spec computes.
std::vector<std::string> sentenceSettings(const std::string &folder);

} // namespace quern::tools
#endif
