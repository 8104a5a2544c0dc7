// Stand-ins for parts of the C library.
#ifndef QUERN_RUNTIME_MACHINE_LIBCPARTS_H
#define QUERN_RUNTIME_MACHINE_LIBCPARTS_H

namespace quern::runtime {

/// Does nothing, but being called it makes the linker take LibcParts.o from the archive.
void useOwnLibcParts();

} // namespace quern::runtime
#endif
