// Takes: a word of the command line. Gives: the checkpoint behind it and its architecture, or what is missing.
// Why so much is looked at here: a program finds each of these faults, too, but only after the spec was compiled, and it
// does not know where the folder came from.
#include "tools/spec/ModelPath.h"

#include "runtime/gguf/Gguf.h"
#include "support/Error.h"
#include "support/Files.h"
#include "support/Json.h"
#include "support/Nearest.h"
#include "tools/spec/QuantizeText.h"
#include "tools/spec/SentenceSettings.h"

#include <cstdlib>
#include <regex>
#include <set>
#include <stdexcept>

using quern::support::fileExists;
using quern::support::isFolder;
using quern::support::namesIn;
using quern::support::quote;
using Json = nlohmann::json;

namespace quern::tools {

static constexpr uint64_t textLimit = 100'000'000; // of an index: a hundred bytes for each of a million tensors

static std::string variable(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

/// Where huggingface_hub keeps what it downloads.
static std::string hubCache() {
  for (const char *name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"})
    if (std::string path = variable(name); !path.empty())
      return path;
  if (std::string home = variable("HF_HOME"); !home.empty())
    return home + "/hub";
  if (std::string base = variable("XDG_CACHE_HOME"); !base.empty())
    return base + "/huggingface/hub";
  return variable("HOME") + "/.cache/huggingface/hub";
}

/// "models--org--name" as "org/name".
static std::string nameOfFolder(std::string folder) {
  folder = folder.substr(std::string("models--").size());
  if (size_t dashes = folder.find("--"); dashes != std::string::npos)
    folder.replace(dashes, 2, "/");
  return folder;
}

static std::vector<std::string> cachedModels(const std::string &hub) {
  std::vector<std::string> models;
  if (isFolder(hub))
    for (const std::string &entry : namesIn(hub))
      if (entry.starts_with("models--"))
        models.push_back(nameOfFolder(entry));
  return models;
}

/// The snapshot of a model that the cache holds: of a branch or tag by its file in refs/, or of a commit.
static std::string snapshotOf(const std::string &folder, const std::string &model, const std::string &revision) {
  std::string wanted = revision.empty() ? "main" : revision, commit = wanted;
  if (std::string ref = folder + "/refs/" + wanted; fileExists(ref)) {
    commit = support::readFile(ref, 1000);
    commit.erase(commit.find_last_not_of(" \n\r\t") + 1);
  }
  if (std::string snapshot = folder + "/snapshots/" + commit; !commit.empty() && isFolder(snapshot))
    return snapshot;
  std::string known;
  if (isFolder(folder + "/refs"))
    for (const std::string &name : namesIn(folder + "/refs"))
      known += (known.empty() ? "" : ", ") + name;
  if (isFolder(folder + "/snapshots"))
    for (const std::string &name : namesIn(folder + "/snapshots"))
      known += (known.empty() ? "" : ", ") + name;
  throw std::runtime_error("the cache has no revision " + quote(wanted) + " of " + model + " (" + folder + ")" +
                           (known.empty() ? "" : "; it has " + known + ", and " + model + "@REVISION names one") +
                           "; hf download " + model + " fetches the model");
}

/// A folder of the hub's cache, or nothing where the word cannot be a model's name.
static std::string findInCache(const std::string &word) {
  static const std::regex form(R"(([A-Za-z0-9_.\-]+/)?[A-Za-z0-9_.\-]+(@[A-Za-z0-9_.\-/]+)?)");
  if (!std::regex_match(word, form) || word.find("..") != std::string::npos)
    return "";
  std::string model = word.substr(0, word.find('@')), revision = word.substr(std::min(word.size(), model.size() + 1));
  std::string folder = "models--" + model, hub = hubCache();
  if (size_t slash = folder.find('/'); slash != std::string::npos)
    folder.replace(slash, 1, "--");
  if (isFolder(hub + "/" + folder))
    return snapshotOf(hub + "/" + folder, model, revision);
  bool looksLikeFile = model.find('/') == std::string::npos ? model.find('.') != std::string::npos
                                                            : model.ends_with(".quern") || model.ends_with(".mlir");
  if (looksLikeFile)
    return "";
  throw std::runtime_error("there is no file or folder " + word + ", and no such model in " + hub +
                           support::didYouMean(model, cachedModels(hub)) + "; hf download " + model + " fetches it");
}

/// The only GGUF model of a folder without config.json, as publishers of such files lay them out; otherwise nothing.
static std::string onlyGguf(const std::string &folder, const std::string &name) {
  if (fileExists(folder + "/config.json") || fileExists(folder + "/model.safetensors"))
    return "";
  const std::vector<std::string> found = support::ggufModels(folder);
  if (found.size() < 2)
    return found.empty() ? "" : found[0];
  std::string list;
  for (size_t i = 0; i < found.size() && i < 8; ++i)
    list += (i ? ", " : "") + support::printable(support::nameOf(found[i]));
  throw std::runtime_error(name + " holds " + std::to_string(found.size()) + " GGUF files (" + list +
                           (found.size() > 8 ? ", ..." : "") + "); give one of them: " + support::printable(found[0]));
}

ModelPath findModel(const std::string &name) {
  using Kind = ModelPath::Kind;
  auto inFolder = [&](const std::string &folder) {
    std::string gguf = onlyGguf(folder, name);
    return gguf.empty() ? ModelPath{Kind::Checkpoint, folder} : ModelPath{Kind::Gguf, gguf};
  };
  if (isFolder(name))
    return inFolder(name);
  if (fileExists(name)) {
    if (name.ends_with(".gguf"))
      return {Kind::Gguf, name};
    std::string file = support::nameOf(name);
    if (file == "config.json" || file == "model.safetensors" || file == "model.safetensors.index.json")
      return {Kind::Checkpoint, support::folderOf(name)};
    if (name.ends_with(".safetensors"))
      throw std::runtime_error(name +
                               " is a file of weights alone; give the folder of a checkpoint (config.json and "
                               "model.safetensors), or the spec: quern run SPEC --config CONFIG --weights " +
                               name);
    return {Kind::Spec, name};
  }
  std::string folder = findInCache(name);
  return folder.empty() ? ModelPath{Kind::Spec, name} : inFolder(folder);
}

/// All names that the index of shards lists.
static std::set<std::string> shardsOf(const std::string &index) {
  Json json = support::parseJson(support::readFile(index, textLimit), index);
  std::set<std::string> shards;
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object())
    throw std::runtime_error(index + " is no index of safetensors files");
  for (const auto &[tensor, shard] : json["weight_map"].items())
    if (shard.is_string())
      shards.insert(shard.get<std::string>());
  return shards;
}

/// The weights that a program will look for, all there. Throws std::runtime_error.
static std::string findWeights(const std::string &folder, const std::string &name) {
  if (std::string whole = folder + "/model.safetensors"; fileExists(whole))
    return whole;
  if (std::string index = folder + "/model.safetensors.index.json"; fileExists(index)) {
    std::set<std::string> shards = shardsOf(index);
    std::string missing;
    size_t count = 0;
    for (const std::string &shard : shards)
      if (!fileExists(folder + "/" + shard) && ++count <= 3)
        missing += (missing.empty() ? "" : ", ") + support::printable(shard);
    if (count)
      throw std::runtime_error(name + ": " + std::to_string(count) + " of " + std::to_string(shards.size()) +
                               " files of weights are missing (" + missing + (count > 3 ? ", ..." : "") +
                               "); download the model again");
    return index;
  }
  std::string safetensors, gguf, pickle;
  for (const std::string &file : namesIn(folder)) {
    if (!fileExists(folder + "/" + file) && !isFolder(folder + "/" + file)) // as an interrupted download leaves it
      throw std::runtime_error(name + ": the link " + support::printable(file) +
                               " leads nowhere; hf download fetches what is missing");
    if (file.ends_with(".safetensors") && file.find("adapter") == std::string::npos)
      safetensors = file;
    if (file.ends_with(".gguf"))
      gguf = file;
    if (file.ends_with(".bin") || file.ends_with(".pt") || file.ends_with(".pth") || file.ends_with(".index.json"))
      pickle = pickle.empty() ? file : pickle;
  }
  std::string start = name + " holds no model.safetensors and no index of its parts";
  if (!safetensors.empty())
    throw std::runtime_error(start + "; if " + safetensors +
                             " is the model, name it model.safetensors or give the spec: quern run SPEC --config " +
                             folder + " --weights " + folder + "/" + safetensors);
  if (!gguf.empty())
    throw std::runtime_error(start + ", only " + gguf + "; give that file instead of the folder");
  if (!pickle.empty())
    throw std::runtime_error(start + ", only " + pickle +
                             ", which is no safetensors file; save it as one: in Python, "
                             "transformers.CLASS.from_pretrained(...).save_pretrained(FOLDER), where CLASS is what " +
                             folder + "/config.json names as its architecture");
  throw std::runtime_error(start + "; is the download complete?");
}

/// What the checkpoint's other files say, as settings of the spec.
static std::vector<std::string> settingsOf(const frontend::Architecture &architecture, const std::string &folder) {
  std::vector<std::string> settings;
  for (const auto &[file, fields] : architecture.settings) {
    std::string path = folder + "/" + file;
    if (!fileExists(path))
      continue;
    Json json = support::parseJson(support::readFile(path, textLimit), path);
    // Newer files say pooling_mode = "mean" where older ones have a flag for each way.
    static const std::map<std::string, std::string> flags = {{"mean", "pooling_mode_mean_tokens"},
                                                             {"cls", "pooling_mode_cls_token"},
                                                             {"lasttoken", "pooling_mode_lasttoken"}};
    if (json.is_object() && json.contains("pooling_mode")) {
      const std::string mode = json["pooling_mode"].is_string() ? json["pooling_mode"].get<std::string>() : "";
      auto flag = flags.find(mode);
      json[flag == flags.end() ? "pooling_mode = " + json["pooling_mode"].dump() : flag->second] = true;
    }
    std::string known, given;
    size_t before = settings.size();
    for (const auto &[field, setting] : fields) {
      known += (known.empty() ? "" : " or ") + field;
      if (json.is_object() && json.contains(field) && json[field] == true)
        settings.push_back(setting);
    }
    for (const auto &[field, value] : json.items())
      if (value == true)
        given += (given.empty() ? "" : ", ") + support::printable(field);
    if (json.is_object() && json.value("include_prompt", Json(true)) == false)
      throw std::runtime_error(
          path + " says include_prompt = false: words of a prompt are read and not pooled, which is not computed");
    if (settings.size() != before + 1)
      throw std::runtime_error(path + " says " + (given.empty() ? "nothing" : given) + ", but " + architecture.spec +
                               ".quern computes either " + known + "; quern init --from " + folder +
                               " writes the spec, to be changed");
    for (std::string &setting : sentenceSettings(folder))
      settings.push_back(std::move(setting));
  }
  return settings;
}

/// The architecture that a config names, or an error that says what is known.
static frontend::FoundArchitecture architectureOf(const std::string &text, const std::string &config,
                                                  const std::string &folder = "") {
  frontend::Diagnostics diagnostics;
  std::optional<frontend::FoundArchitecture> found =
      frontend::findArchitecture(text, config, diagnostics, [&](const std::string &file) {
        return !folder.empty() && fileExists(folder + "/" + file);
      });
  if (!found) {
    const std::string &message = diagnostics.list().front().message;
    throw std::runtime_error((message.starts_with(config) ? "" : config + ": ") + message);
  }
  return *found;
}

/// The file's values choose the spec as the config.json of the same model would. Of several parts the first is the name of all.
static Checkpoint readGguf(const std::string &given) {
  runtime::GgufFile file(runtime::MappedFile::open(given));
  const std::string &path = file.file()->name();
  frontend::FoundArchitecture found = architectureOf(runtime::ggufConfig(file).dump(), path);
  return {found.architecture, found.foundBy, path, "", path};
}

/// The model that a LoRA adapter belongs to: a path, also from the adapter's folder, or a name in the local cache.
static Checkpoint readAdapter(const std::string &folder) {
  std::string file = folder + "/adapter_config.json", base;
  Json json = support::parseJson(support::readFile(file, textLimit), file);
  if (auto found = json.find("base_model_name_or_path"); found != json.end() && found->is_string())
    base = found->get<std::string>();
  if (base.empty())
    throw std::runtime_error(file + " names no base_model_name_or_path; run that model, with --adapter " + folder);
  if (std::string beside = folder + "/" + base; !isFolder(base) && isFolder(beside))
    base = beside;
  ModelPath model = findModel(base);
  if (model.kind == ModelPath::Kind::Spec || fileExists(model.path + "/adapter_config.json"))
    throw std::runtime_error(file + ": its base model " + support::quote(base) +
                             " is not there; quern run MODEL with --adapter " + folder);
  Checkpoint checkpoint = readCheckpoint(model, base);
  checkpoint.adapter = folder;
  return checkpoint;
}

Checkpoint readCheckpoint(const ModelPath &model, const std::string &name) {
  if (model.kind == ModelPath::Kind::Gguf)
    return readGguf(model.path);
  const std::string &folder = model.path, config = folder + "/config.json";
  if (!fileExists(config) && fileExists(folder + "/adapter_config.json"))
    return readAdapter(folder);
  if (!fileExists(config))
    throw std::runtime_error(name + " is no checkpoint: it holds no config.json; is the download complete?");
  std::string text = support::readFile(config, textLimit);
  frontend::FoundArchitecture found = architectureOf(text, config, folder);
  const frontend::Architecture &architecture = *found.architecture;
  if (!found.otherClass.empty())
    throw std::runtime_error(config + ": the model is a " + support::printable(found.otherClass) + ", but " +
                             architecture.spec + ".quern is for " + architecture.classList() + "; quern init --from " +
                             folder + " writes it, to be changed (docs/porting.md)");
  if (Json json = support::parseJson(text, config);
      json.contains("quantization_config") && json["quantization_config"].is_object()) {
    Json method = json["quantization_config"].value("quant_method", Json("unknown"));
    static const std::set<std::string> read = {
        "gptq",     "awq",    "mxfp4", "fp8", "compressed-tensors", // runtime/formats
        "modelopt", ownMethod};
    if (!method.is_string() || !read.count(method.get<std::string>()))
      throw std::runtime_error(config +
                               ": the weights are quantised in a way that programs do not read (quant_method " +
                               method.dump() + "); take the model's own weights");
    const Json sparse = json["quantization_config"].value("sparsity_config", Json::object());
    if (const Json form = sparse.is_object() ? sparse.value("format", Json("dense")) : Json("dense"); form != "dense")
      throw std::runtime_error(config + ": the weights are stored sparsely (sparsity_config.format " + form.dump() +
                               "), which programs do not read; take a dense checkpoint");
  }
  const std::string type = found.whole.empty()
                               ? found.foundBy
                               : "the text part (" + found.foundBy + ") of a " + support::printable(found.whole);
  return {&architecture, type, folder, "", findWeights(folder, name), settingsOf(architecture, folder)};
}

} // namespace quern::tools
