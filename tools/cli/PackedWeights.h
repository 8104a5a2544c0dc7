// Weights that `quern run` packed for a program, so that its next start maps them and reads nothing else.
#ifndef QUERN_TOOLS_CLI_PACKEDWEIGHTS_H
#define QUERN_TOOLS_CLI_PACKEDWEIGHTS_H

#include <cstdint>
#include <string>

namespace quern::tools {

/// A folder of packed checkpoints. Each is known by the program (whose name says its content) and by the names, sizes and times of
/// the checkpoint's files: a change of any of them makes another one.
class PackedWeights {
public:
  /// `most`: bytes that all may have together.
  explicit PackedWeights(std::string folder, uint64_t most = sizeLimit()) : folder(std::move(folder)), most(most) {}

  /// Where the checkpoint is packed for the program, which packs it where it does not; empty where that cannot be: it is
  /// too large, or the program refuses. A packed file that has changed since is named on stderr and made anew.
  std::string get(const std::string &program, const std::string &checkpoint, bool report) const;

  /// $QUERN_PACKED_SIZE in MiB, else 16 GiB; 0: nothing is packed. Throws std::runtime_error.
  static uint64_t sizeLimit();

private:
  bool make(const std::string &program, const std::string &checkpoint, const std::string &entry) const;
  void evict(const std::string &kept, const std::string &program, const std::string &checkpoint) const;

  std::string folder;
  uint64_t most;
};

} // namespace quern::tools
#endif
