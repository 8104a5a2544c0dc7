// Patterns of names: "*" any characters, "?" one, "[abc]", "[a-z]" and "[!a-z]" one of a set; and lists of names.
#ifndef QUERN_SUPPORT_GLOB_H
#define QUERN_SUPPORT_GLOB_H

#include <string_view>

namespace quern::support {

/// Whether all of `text` fits. A '[' that nothing closes stands for itself. Time is at most the product of the lengths.
bool matchGlob(std::string_view glob, std::string_view text);

/// Whether a list of names with spaces between them has this one. None has an empty name.
bool listsName(std::string_view names, std::string_view name);

} // namespace quern::support
#endif
