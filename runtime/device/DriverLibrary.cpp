// Takes: a library's name. Gives: its functions, or a sentence about what is missing.
#include "runtime/device/DriverLibrary.h"

#include "runtime/Error.h"

#include <cstdlib>
#include <dlfcn.h>

namespace quern::runtime {

DriverLibrary::DriverLibrary(const char *interface, const char *standard, const char *variable, const char *advice)
    : interface(interface) {
  const char *own = std::getenv(variable);
  file = own && *own ? own : standard;
  library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library)
    return;
  const char *reason = ::dlerror();
  throw MachineError("this program computes on " + this->interface +
                     ", but no driver can be opened: " + (reason ? reason : file) + ". " + advice);
}

void *DriverLibrary::symbol(const char *function, const char *needed) const {
  if (void *found = ::dlsym(library, function))
    return found;
  if (!needed)
    return nullptr;
  throw MachineError("the driver of " + interface + " is too old: " + file + " has no " + function + "; " + needed +
                     " or later is needed");
}

} // namespace quern::runtime
