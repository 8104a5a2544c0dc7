// The one way in which results reach a path that a user named.
#ifndef QUERN_SUPPORT_OUTPUTFILE_H
#define QUERN_SUPPORT_OUTPUTFILE_H

#include <string>
#include <string_view>

namespace quern::support {

/// A file that appears whole or not at all: written under another name beside its place, synced, renamed when it is
/// committed. Links are followed, so they go on pointing to it. Devices, pipes and /dev/stdout are written through.
/// What a killed process left of an earlier attempt is removed. Every failure is a UserError that says what and why.
class OutputFile {
public:
  /// `executable`: the file may be run by whoever may read it.
  explicit OutputFile(const std::string &path, bool executable = false);
  ~OutputFile();
  OutputFile(const OutputFile &) = delete;
  OutputFile &operator=(const OutputFile &) = delete;

  void write(const void *data, size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// Appends the content of a file.
  void copy(const std::string &path);
  /// Whether a file will be there, until it is committed; else a device or a pipe takes what is written.
  bool isFile() const { return !temporary.empty(); }
  /// Bytes written so far.
  size_t size() const { return written; }
  void commit();

private:
  std::string path, target, temporary; // `temporary` is empty where the target is written directly
  int descriptor = -1;
  size_t written = 0;
  void openTemporary(bool executable);
  [[noreturn]] void fail(int code) const;
};

/// Where links lead, also those to a file that is not there yet.
std::string followLinks(std::string path);
/// Whether a file of that name is one that an OutputFile writes before it is committed.
bool isUnfinished(std::string_view name);
/// Removes the unfinished files in `folder` whose writers were killed. What cannot be read or removed stays.
void removeAbandoned(const std::string &folder);

/// All of it at once.
void writeFile(const std::string &path, std::string_view content);

} // namespace quern::support
#endif
