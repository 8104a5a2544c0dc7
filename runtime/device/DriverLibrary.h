// A driver's library, opened at run time: programs are built and started without its headers and without itself.
#ifndef QUERN_RUNTIME_DEVICE_DRIVERLIBRARY_H
#define QUERN_RUNTIME_DEVICE_DRIVERLIBRARY_H

#include <string>

namespace quern::runtime {

class DriverLibrary {
public:
  /// Opens `file`, or what the environment's `variable` names. Throws MachineError: "this program computes on a <interface>
  /// device, but no driver can be opened: ... <advice>".
  DriverLibrary(const char *interface, const char *file, const char *variable, const char *advice);
  /// Throws MachineError where the library has no such function: then it is older than `needed`.
  template <typename Function> void find(const char *function, Function &into, const char *needed) const {
    into = reinterpret_cast<Function>(symbol(function, needed));
  }
  /// Null where the library has none.
  template <typename Function> void find(const char *function, Function &into) const {
    into = reinterpret_cast<Function>(symbol(function, nullptr));
  }

private:
  std::string interface, file;
  void *library;
  void *symbol(const char *function, const char *needed) const;
};

} // namespace quern::runtime
#endif
