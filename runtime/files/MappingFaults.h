// What happens where a mapped file becomes shorter while it is in use.
#ifndef QUERN_RUNTIME_FILES_MAPPINGFAULTS_H
#define QUERN_RUNTIME_FILES_MAPPINGFAULTS_H

#include <cstddef>

namespace quern::runtime {

/// From now on a page of a mapped file that cannot be read (the file was truncated, the disk failed) ends the process
/// with a sentence that names the file, and with status 2, instead of a signal without a word. For programs, not for the
/// library: signals are its user's.
void reportMappingFaults();

/// Called by MappedFile. `name` lives as long as the mapping.
void noteMapping(const void *begin, size_t bytes, const char *name);
void forgetMapping(const void *begin);

} // namespace quern::runtime
#endif
