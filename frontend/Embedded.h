// Texts that are built into the compiler (Embed.cmake writes the definitions).
#ifndef QUERN_FRONTEND_EMBEDDED_H
#define QUERN_FRONTEND_EMBEDDED_H

#include <string>
#include <string_view>
#include <vector>

namespace quern::frontend {

struct EmbeddedSpec {
  std::string name;
  std::string_view text;
};

extern const std::string_view standardLibraryText;
/// examples/architectures.json.
extern const std::string_view architecturesText;
/// The project's examples/*.quern.
const std::vector<EmbeddedSpec> &embeddedSpecs();

} // namespace quern::frontend
#endif
