// The words of a command line.
#ifndef QUERN_TOOLS_ARGUMENTS_H
#define QUERN_TOOLS_ARGUMENTS_H

#include <string>
#include <vector>

namespace quern::tools {

using Arguments = std::vector<std::string>;

} // namespace quern::tools
#endif
