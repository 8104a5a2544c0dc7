// From object files to one executable, or to a library.
#ifndef QUERN_CODEGEN_LINK_LINK_H
#define QUERN_CODEGEN_LINK_LINK_H

#include <map>
#include <string>
#include <vector>

namespace quern::codegen {

/// Parts of the runtime that not every program has.
struct LinkedParts {
  std::vector<std::string> libraries; ///< training, tuning
  std::string device{};               ///< what reaches it (Targets.h); empty: none
  /// Names that functions are to have for who samples the program: of each name the beginning that is replaced. Empty: the
  /// program has no names.
  std::map<std::string, std::string> names{};
};

/// Links `objects` and the runtime without what is not called to a file of the compiler's own; fully static, unless a
/// device's driver is to be opened. False with `error` set: the linker's own words.
bool linkProgram(const std::vector<std::string> &objects, const std::string &output, const LinkedParts &parts,
                 std::string &error);

/// Makes an archive of one object: `objects` and the runtime, of whose names only those of quern.h can be seen; a file of
/// the compiler's own, with quern.h beside it. Programs link it with the C++ library.
bool linkLibrary(const std::vector<std::string> &objects, const std::string &output, std::string &error);

/// The archives that linkProgram links. Throws std::runtime_error where they are missing.
std::vector<std::string> runtimeFiles(bool training);

/// Runs a program without a shell; its standard error is kept in `messages`. Returns its exit status, 127 if it could
/// not be started.
int runCommand(const std::vector<std::string> &command, std::string &messages);

} // namespace quern::codegen
#endif
