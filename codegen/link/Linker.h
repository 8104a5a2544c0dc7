// The system's linker and its tools, as libraries: nothing that a compiler package brings is run.
#ifndef QUERN_CODEGEN_LINK_LINKER_H
#define QUERN_CODEGEN_LINK_LINKER_H

#include <map>
#include <string>
#include <vector>

namespace quern::codegen {

/// Runs LLD for ELF with `arguments`, as after `ld`, but for the output. False with `error` set: LLD's own words. One link
/// at a time. Throws UserError where the disk is full.
bool runLinker(const std::vector<std::string> &arguments, const std::string &output, std::string &error);

/// A shared library of `objects`; what they do not define is looked for in the process that opens it.
bool linkShared(const std::vector<std::string> &objects, const std::string &output, std::string &error);

/// Gives symbols of the executable or object `file` other names, in place.
bool renameSymbols(const std::string &file, const std::map<std::string, std::string> &names, std::string &error);

/// Leaves of the object `file` only the global names in `kept`; others become local or go.
bool keepGlobals(const std::string &file, const std::vector<std::string> &kept, std::string &error);

/// An archive with an index, of one object.
bool archiveObject(const std::string &object, const std::string &output, std::string &error);

} // namespace quern::codegen
#endif
