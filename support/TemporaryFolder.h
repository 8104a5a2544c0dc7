// A folder for work in progress.
#ifndef QUERN_SUPPORT_TEMPORARYFOLDER_H
#define QUERN_SUPPORT_TEMPORARYFOLDER_H

#include <string>

namespace quern::support {

/// `$TMPDIR/quern-work-RANDOM`, which goes away with the object; those of killed processes go when the next one is
/// made. Throws UserError.
class TemporaryFolder {
public:
  TemporaryFolder();
  /// `base`/`prefix`RANDOM likewise: for what is renamed within a file system.
  TemporaryFolder(const std::string &base, const std::string &prefix);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;
  const std::string &path() const { return folder; }

private:
  std::string folder;
  int held = -1; // a lock says that its process lives
};

} // namespace quern::support
#endif
