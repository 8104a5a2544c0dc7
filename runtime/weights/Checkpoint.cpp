// Takes: what the user calls "the weights". Gives: one table of tensors over all shards.
#include "runtime/weights/Checkpoint.h"

#include "runtime/Error.h"
#include "runtime/formats/PackedTensors.h"
#include "runtime/gguf/Gguf.h"
#include "runtime/weights/JoinedExperts.h"
#include "runtime/weights/TextPart.h"
#include "support/Json.h"

#include <functional>
#include <set>

namespace quern::runtime {

namespace {

using Carried = std::map<std::string, std::shared_ptr<const MappedFile>>;
using Tensors = std::map<std::string, StoredTensor>;
using Opener = std::function<std::shared_ptr<const MappedFile>(const std::string &name)>;

/// One table of tensors: of a file, or of shards with an index.
class TableSource : public TensorSource {
public:
  TableSource(std::string path, Tensors read) : label(std::move(path)), tensors(std::move(read)) {
    joinPackedTensors(tensors);
    others = singleExperts(tensors);
    Tensors ofTextPart;
    for (const auto *table : {&tensors, &others})
      for (const auto &[name, tensor] : *table)
        if (std::string inner = nameInTextPart(name); !inner.empty() && inner != name)
          ofTextPart.emplace(inner, tensor);
    multimodal = !ofTextPart.empty();
    others.merge(ofTextPart);
  }
  const std::string &path() const override { return label; }
  std::vector<std::string> names() const override { return namesIn(tensors); }
  std::vector<std::string> otherNames() const override { return namesIn(others); }
  const StoredTensor *find(const std::string &name) const override {
    for (const auto *table : {&tensors, &others})
      if (auto found = table->find(name); found != table->end())
        return &found->second;
    return nullptr;
  }
  bool hasTextPart() const override { return multimodal; }

private:
  std::string label;
  Tensors tensors, others;
  bool multimodal;

  static std::vector<std::string> namesIn(const Tensors &table) {
    std::vector<std::string> result;
    for (const auto &[name, tensor] : table)
      result.push_back(name);
    return result;
  }
};

Tensors readFileOfTensors(std::shared_ptr<const MappedFile> file) {
  return GgufFile::isGguf(*file) ? ggufTensors(GgufFile(file)) : readSafetensors(std::move(file));
}

/// Weights of a module of sentence-transformers, which are in a folder of their own: 2_Dense.linear.weight.
void addModule(Tensors &tensors, const std::string &path, std::shared_ptr<const MappedFile> file) {
  const std::string label = file->name();
  for (auto &[name, tensor] : readSafetensors(std::move(file)))
    if (!tensors.emplace(path + "." + name, std::move(tensor)).second)
      throw UserError(label + " holds " + quote(path + "." + name) + ", which is among the model's own weights, too");
}

/// The index maps each tensor's name to the shard that holds it.
Tensors readIndex(const std::string &path, std::string_view text, const Opener &open) {
  std::map<std::string, std::string> where;
  std::set<std::string> keys;
  // The parser keeps the last of equal keys without a word; which shard is meant is then anybody's guess.
  auto twice = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json &value) {
    if (event == nlohmann::json::parse_event_t::key && depth == 2 && !keys.insert(value.get<std::string>()).second)
      throw UserError(path + " lists " + quote(value.get<std::string>()) + " twice");
    return true;
  };
  try {
    checkJsonDepth(text, path);
    nlohmann::json index = nlohmann::json::parse(text.data(), text.data() + text.size(), twice);
    if (!index.is_object() || !index["weight_map"].is_object())
      throw UserError(path + " is no valid index of shards: it has no object 'weight_map'");
    for (const auto &[name, shard] : index["weight_map"].items())
      where[name] = shard.is_string() ? shard.get<std::string>() : "";
  } catch (const nlohmann::json::exception &error) {
    throw UserError(path + " is no valid index of shards: " + jsonReason(error.what()));
  }
  std::set<std::string> shards;
  for (const auto &[name, shard] : where) {
    if (shard.empty() || shard.find('/') != std::string::npos)
      throw UserError(path + " names for " + quote(name) + " the shard " + quote(shard) +
                      ", which is no file beside it");
    shards.insert(shard);
  }
  Tensors tensors;
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
  return tensors;
}

/// The file that a folder's weights are in; of a file itself.
std::string fileOf(const std::string &path) {
  if (!isFolder(path))
    return path;
  for (const char *name : {"model.safetensors", "model.safetensors.index.json"})
    if (fileExists(path + "/" + name))
      return path + "/" + name;
  const std::string gguf = support::ggufOf(path);
  return gguf.empty() ? path : gguf;
}

/// model.gguf, and model-00002-of-00003.gguf and the like, as the compiler names what it appends.
GgufFile carriedGguf(const Carried &files) {
  std::vector<std::shared_ptr<const MappedFile>> parts;
  for (const auto &[name, file] : files)
    if (name.ends_with(".gguf"))
      parts.push_back(file);
  return GgufFile(parts);
}

std::optional<std::string> textOf(const GgufFile &file, const std::string &name) {
  std::string text = ggufText(file, name);
  return text.empty() ? std::nullopt : std::optional(std::move(text));
}

} // namespace

std::optional<std::string> textInside(const std::shared_ptr<const MappedFile> &weights, const std::string &name) {
  return GgufFile::isGguf(*weights) ? textOf(GgufFile(weights), name) : std::nullopt;
}

std::optional<std::string> textInside(const Carried &carried, const std::string &name) {
  return carried.count("model.gguf") ? textOf(carriedGguf(carried), name) : std::nullopt;
}

std::optional<std::string> textInside(const std::string &weights, const std::string &name) {
  std::string path = fileOf(weights);
  return fileExists(path) && !path.ends_with(".json") ? textInside(MappedFile::open(path), name) : std::nullopt;
}

std::unique_ptr<TensorSource> TensorSource::open(const std::string &given) {
  const std::string path = fileOf(given);
  if (fileExists(path + "/adapter_config.json"))
    throw UserError(path + " holds a LoRA adapter, which is beside a model: --weights MODEL --adapter " + path);
  if (isFolder(path))
    throw UserError(path + " holds neither model.safetensors nor model.safetensors.index.json nor model.gguf nor one "
                           "GGUF model alone");
  const std::string folder = folderOf(path), name = path.substr(path.rfind('/') + 1);
  Tensors tensors = path.ends_with(".json")
                        ? readIndex(path, readFile(path),
                                    [&](const std::string &shard) { return MappedFile::open(folder + "/" + shard); })
                        : readFileOfTensors(MappedFile::open(path));
  if (name == "model.safetensors" || name == "model.safetensors.index.json")
    for (const std::string &module : support::modulesWithWeights(folder))
      addModule(tensors, module, MappedFile::open(folder + "/" + module + "/model.safetensors"));
  return std::make_unique<TableSource>(path, std::move(tensors));
}

std::unique_ptr<TensorSource> TensorSource::open(const std::string &label, const Carried &files) {
  auto file = [&](const std::string &name) {
    auto found = files.find(name);
    if (found == files.end())
      throw UserError(label + " carries no " + name);
    return found->second;
  };
  if (files.count("model.gguf"))
    return std::make_unique<TableSource>(label, ggufTensors(carriedGguf(files)));
  Tensors tensors = files.count("model.safetensors")
                        ? readFileOfTensors(file("model.safetensors"))
                        : readIndex(label, file("model.safetensors.index.json")->text(), file);
  for (const auto &[name, carried] : files)
    if (size_t slash = name.find('/'); slash != std::string::npos && name.ends_with("/model.safetensors"))
      addModule(tensors, name.substr(0, slash), carried);
  return std::make_unique<TableSource>(label, std::move(tensors));
}

} // namespace quern::runtime
