// Takes: what the user calls "the weights". Gives: one table of tensors over all shards.
#include "runtime/weights/Checkpoint.h"

#include "runtime/Error.h"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstdio>
#include <functional>
#include <set>
#include <sys/stat.h>

namespace quern::runtime {

namespace {

using Opener = std::function<std::shared_ptr<const MappedFile>(const std::string &name)>;

/// One file, or shards with an index: one table of tensors.
class SafetensorsSource : public TensorSource {
public:
  SafetensorsSource(std::string path, std::map<std::string, StoredTensor> tensors)
      : label(std::move(path)), tensors(std::move(tensors)) {}
  const std::string &path() const override { return label; }
  std::vector<std::string> names() const override {
    std::vector<std::string> result;
    for (const auto &[name, tensor] : tensors)
      result.push_back(name);
    return result;
  }
  const StoredTensor *find(const std::string &name) const override {
    auto found = tensors.find(name);
    return found == tensors.end() ? nullptr : &found->second;
  }

private:
  std::string label;
  std::map<std::string, StoredTensor> tensors;
};

std::unique_ptr<TensorSource> openFile(const std::string &path, std::shared_ptr<const MappedFile> file) {
  return std::make_unique<SafetensorsSource>(path, readSafetensors(std::move(file)));
}

/// The index maps each tensor's name to the shard that holds it.
std::unique_ptr<TensorSource> openIndex(const std::string &path, std::string_view text, const Opener &open) {
  std::map<std::string, std::string> where;
  try {
    nlohmann::json index = nlohmann::json::parse(text.data(), text.data() + text.size());
    for (const auto &[name, shard] : index.at("weight_map").items())
      where[name] = shard.get<std::string>();
  } catch (const nlohmann::json::exception &error) {
    throw UserError(path + " is no valid index of shards: " + error.what());
  }
  std::set<std::string> shards;
  for (const auto &[name, shard] : where) {
    if (shard.empty() || shard.find('/') != std::string::npos)
      throw UserError(path + " names the shard " + quote(shard) + ", which is no file beside it");
    shards.insert(shard);
  }
  std::map<std::string, StoredTensor> tensors;
  for (const std::string &shard : shards) {
    for (auto &[name, tensor] : readSafetensors(open(shard))) {
      auto listed = where.find(name);
      if (listed == where.end() || listed->second != shard)
        throw UserError(path + " does not list tensor " + quote(name) + " of " + shard);
      tensors.emplace(name, std::move(tensor));
    }
  }
  for (const auto &[name, shard] : where)
    if (!tensors.count(name))
      throw UserError(path + " lists tensor " + quote(name) + ", but " + shard + " does not hold it");
  return std::make_unique<SafetensorsSource>(path, std::move(tensors));
}

} // namespace

std::string folderOf(const std::string &path) {
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

bool isFolder(const std::string &path) {
  struct stat status;
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

bool fileExists(const std::string &path) {
  struct stat status;
  return ::stat(path.c_str(), &status) == 0 && !S_ISDIR(status.st_mode);
}

std::string readFile(const std::string &path, uint64_t limit) {
  std::FILE *file = std::fopen(path.c_str(), "rbe");
  if (!file)
    throw UserError("cannot open " + path + ": " + systemMessage(errno));
  std::string content;
  char buffer[1 << 16];
  size_t count;
  while ((count = std::fread(buffer, 1, sizeof(buffer), file)) > 0 && content.size() <= limit)
    content.append(buffer, count);
  bool failed = std::ferror(file);
  int code = errno;
  std::fclose(file);
  if (failed)
    throw UserError("cannot read " + path + ": " + systemMessage(code));
  if (content.size() > limit)
    throw UserError(path + " is longer than " + formatBytes(double(limit)));
  return content;
}

std::unique_ptr<TensorSource> TensorSource::open(const std::string &path) {
  if (isFolder(path)) {
    for (const char *name : {"/model.safetensors", "/model.safetensors.index.json"})
      if (fileExists(path + name))
        return open(path + name);
    throw UserError(path + " holds neither model.safetensors nor model.safetensors.index.json");
  }
  if (path.ends_with(".json")) {
    std::string folder = folderOf(path);
    return openIndex(path, readFile(path),
                     [&](const std::string &name) { return MappedFile::open(folder + "/" + name); });
  }
  return openFile(path, MappedFile::open(path));
}

std::unique_ptr<TensorSource>
TensorSource::open(const std::string &label, const std::map<std::string, std::shared_ptr<const MappedFile>> &files) {
  auto file = [&](const std::string &name) {
    auto found = files.find(name);
    if (found == files.end())
      throw UserError(label + " carries no " + name);
    return found->second;
  };
  if (files.count("model.safetensors"))
    return openFile(label, file("model.safetensors"));
  return openIndex(label, file("model.safetensors.index.json")->text(), file);
}

} // namespace quern::runtime
