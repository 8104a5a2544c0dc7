// Programs that `quern run` compiled, by the content of everything they were made of.
#ifndef QUERN_TOOLS_CLI_PROGRAMCACHE_H
#define QUERN_TOOLS_CLI_PROGRAMCACHE_H

#include <string>
#include <vector>

namespace quern::tools {

class ProgramCache {
public:
  /// Makes the folder. Throws std::runtime_error.
  explicit ProgramCache(const std::string &folder);

  /// A program's file: `name` for people, a key of `contents` for the rest.
  std::string path(const std::string &name, const std::vector<std::string> &contents) const;
  /// Whether the program is there as `keep` found it: a checksum beside it says so. Notes that it was used.
  bool has(const std::string &path) const;
  /// Writes the checksum of a program that was just compiled, and removes the programs that were not used for longest.
  void keep(const std::string &path) const;

private:
  std::string folder;
};

} // namespace quern::tools
#endif
