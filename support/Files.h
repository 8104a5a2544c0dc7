// Paths, which files are one model, and whole files as text.
#ifndef QUERN_SUPPORT_FILES_H
#define QUERN_SUPPORT_FILES_H

#include <cstdint>
#include <string>
#include <vector>

namespace quern::support {

/// The part of a path before the last slash, "." without one.
std::string folderOf(const std::string &path);
/// The part after it.
std::string nameOf(const std::string &path);
bool isFolder(const std::string &path);
/// Anything that is there and no folder: a file, a pipe.
bool fileExists(const std::string &path);
/// Names in a folder, sorted, without "." and "..". Throws UserError.
std::vector<std::string> namesIn(const std::string &folder);
/// Puts the folder `from` in the place of `to`, at once and whole; one that was there is then at `from`. Both are on one file
/// system. Throws UserError.
void moveFolder(const std::string &from, const std::string &to);
/// Waits until the folder's entries are on disk, where the file system can.
void syncFolder(const std::string &path);

/// The paths of all parts of a model, the first of them first, where `path` is named as one of several
/// (NAME-00002-of-00003.gguf); else `path` alone. Nothing is looked for.
std::vector<std::string> ggufParts(const std::string &path);
/// The GGUF models in a folder: files, and of those in several parts the first part that is there.
std::vector<std::string> ggufModels(const std::string &folder);
/// The GGUF file that a folder stands for: model.gguf, or the only model; empty if there is none or several.
std::string ggufOf(const std::string &folder);

/// A module of sentence-transformers, as modules.json of a checkpoint lists them.
struct SentenceModule {
  std::string kind; ///< "Transformer", "Pooling", "Dense", "Normalize": the class without the names before it
  std::string path; ///< its folder in the checkpoint's; empty for the model itself
};

/// In the order in which they act; nothing where the folder has no modules.json. Throws UserError.
std::vector<SentenceModule> sentenceModules(const std::string &folder);

/// The folders of modules that have a model.safetensors of their own. Programs read its tensors with the folder's name
/// before theirs: 2_Dense.linear.weight.
std::vector<std::string> modulesWithWeights(const std::string &folder);

/// The user's folder of what is kept between runs: $QUERN_CACHE, else quern in $XDG_CACHE_HOME or ~/.cache.
std::string defaultCacheFolder();

/// More than any text that is read as a whole.
constexpr uint64_t textLimit = uint64_t(1) << 30;

/// The whole content of a file, which may be a pipe. Throws UserError beyond `limit` bytes, of a device beyond 16 MiB;
/// it is asked of a regular file's size before anything is read.
std::string readFile(const std::string &path, uint64_t limit = textLimit);

/// The beginning of a small file of the system, such as those in /proc; empty if it cannot be read.
std::string readSmallFile(const std::string &path);

} // namespace quern::support
#endif
