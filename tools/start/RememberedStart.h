// What `quern run` came to, so that the same words start the same program at once: without the compiler, whose libraries alone take
// longer to load than a program takes to its first word.
#ifndef QUERN_TOOLS_START_REMEMBEREDSTART_H
#define QUERN_TOOLS_START_REMEMBEREDSTART_H

#include <optional>
#include <string>
#include <vector>

namespace quern::tools {

struct RememberedStart {
  std::vector<std::string> words; ///< of the program, which is the first
  std::vector<std::string>
      watched;                   ///< files and folders that decided: as long as none has changed, the words are right
  std::vector<std::string> used; ///< of the cache: kept for longer, the more often they are used
  std::vector<std::string> said; ///< lines on stderr, each time
};

/// Where the start of `quern` with these words is kept: they count with the folder they are said in and Quern's variables.
std::string startFile(const std::vector<std::string> &words);

/// `asked`: the words that `file` is for. What cannot be written is not remembered; the last some hundred are.
void rememberStart(const std::string &file, const std::vector<std::string> &asked, const RememberedStart &start);
/// Nothing if there is none, or something has changed since. Notes what is used.
std::optional<RememberedStart> findStart(const std::string &file, const std::vector<std::string> &asked);

} // namespace quern::tools
#endif
