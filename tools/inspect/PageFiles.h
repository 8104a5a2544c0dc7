// The page's own files, built in (page/Embed.cmake writes the definitions).
#ifndef QUERN_TOOLS_INSPECT_PAGEFILES_H
#define QUERN_TOOLS_INSPECT_PAGEFILES_H

namespace quern::tools {
extern const char *const pageTemplate, *const pageStyle, *const pageScript;
}
#endif
