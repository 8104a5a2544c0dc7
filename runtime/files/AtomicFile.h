// A file that appears whole or not at all.
#ifndef QUERN_RUNTIME_FILES_ATOMICFILE_H
#define QUERN_RUNTIME_FILES_ATOMICFILE_H

#include <string>

namespace quern::runtime {

/// Write, then `commit`: data is synced, renamed to its place, and the folder synced. Without commit nothing stays.
/// Every failure is a UserError that says what and why.
class AtomicFile {
public:
  explicit AtomicFile(const std::string &path);
  ~AtomicFile();
  AtomicFile(const AtomicFile &) = delete;
  AtomicFile &operator=(const AtomicFile &) = delete;
  void write(const void *data, size_t bytes);
  void commit();

private:
  std::string target, temporary;
  int descriptor = -1;
  bool direct = false; // devices and pipes are written in place
  [[noreturn]] void fail(int code);
};

} // namespace quern::runtime
#endif
