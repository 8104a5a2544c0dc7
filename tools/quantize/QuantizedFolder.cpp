// Takes: a checkpoint and the forms of its tensors. Gives: a folder beside its place, renamed once it is whole.
#include "tools/quantize/QuantizedFolder.h"

#include "runtime/gguf/Gguf.h"
#include "runtime/weights/Checkpoint.h"
#include "support/CheckpointFiles.h"
#include "support/Error.h"
#include "support/Files.h"
#include "support/Json.h"
#include "support/OutputFile.h"
#include "support/TemporaryFolder.h"
#include "tools/spec/QuantizeText.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <sys/stat.h>

using namespace quern::support;
namespace fs = std::filesystem;

namespace quern::tools {

using Json = nlohmann::ordered_json;

static constexpr uint64_t mostBytes = 200'000'000; // of a tokenizer

static std::string withoutSlash(std::string path) {
  while (path.size() > 1 && path.back() == '/')
    path.pop_back();
  return path;
}

static bool isOwn(const std::string &folder) {
  try {
    return !quantizeOfCheckpoint(folder).empty();
  } catch (const std::runtime_error &) {
    return false;
  }
}

void checkTarget(const std::string &folder) {
  if (fileExists(folder))
    throw UserError("-o " + folder + " is a file; name a folder, which is made");
  std::string above = folderOf(withoutSlash(folder));
  if (!isFolder(above))
    throw UserError("-o " + folder + ": there is no folder " + above);
  if (isFolder(folder) && !namesIn(folder).empty() && !isOwn(folder))
    throw UserError("-o " + folder +
                    " holds files that quern quantize did not write; choose another folder, or remove it");
}

static Json configOf(const CheckpointPlaces &from) {
  if (from.config.empty())
    return Json::object();
  std::string path = isFolder(from.config) ? from.config + "/config.json" : from.config;
  auto file = runtime::MappedFile::open(path);
  Json config = runtime::GgufFile::isGguf(*file) ? Json(runtime::ggufConfig(runtime::GgufFile(file)))
                                                 : parseJson<Json>(file->text(), path);
  if (!config.is_object())
    throw UserError(path + " is no object");
  return config;
}

/// Small files that say what the weights do not: text, vocabularies, no numbers of the model. `whole`: the folder is the
/// checkpoint; else only what programs read beside a file of weights.
static bool goesAlong(const std::string &name, bool whole) {
  auto isAmong = [&](const auto &known) {
    return std::any_of(std::begin(known), std::end(known), [&](const char *one) { return name == one; });
  };
  if (isAmong(filesBesideWeights) || isAmong(vocabulariesBesideWeights))
    return true;
  if (!whole || name == "config.json" || name.ends_with(".index.json"))
    return false;
  return name.starts_with("LICENSE") || name.starts_with("NOTICE") || name.ends_with(".json") ||
         name.ends_with(".jinja") || name == "merges.txt" || name == "vocab.txt";
}

static void copyBeside(const CheckpointPlaces &from, const std::string &folder) {
  auto write = [&](const std::string &name, std::string_view text) {
    std::error_code code;
    fs::create_directories(folderOf(folder + "/" + name), code);
    writeFile(folder + "/" + name, text);
  };
  const bool whole = isFolder(from.weights);
  std::string place = whole ? from.weights : folderOf(from.weights);
  std::vector<std::string> names = from.beside;
  for (const std::string &name : namesIn(place))
    if (goesAlong(name, whole))
      names.push_back(name);
  for (const std::string &name : names)
    if (fileExists(place + "/" + name))
      write(name, readFile(place + "/" + name, mostBytes));
  for (const char *name : filesBesideWeights)
    if (std::optional<std::string> text = runtime::textInside(from.weights, name))
      write(name, *text);
}

std::vector<QuantizedTensor> writeQuantizedFolder(const std::string &given, const CheckpointPlaces &from,
                                                  const std::vector<StoredForm> &forms, const std::string &quantize) {
  const std::string folder = withoutSlash(followLinks(withoutSlash(given)));
  checkTarget(folder);
  Json config = configOf(from);
  config["quantization_config"] = {{"quant_method", ownMethod}, {"quantize", quantize}};
  TemporaryFolder work(folderOf(folder), "." + nameOf(folder) + ".quern-");
  std::vector<QuantizedTensor> tensors;
  try {
    tensors = writeQuantized(work.path() + "/model.safetensors", forms);
    copyBeside(from, work.path());
    writeFile(work.path() + "/config.json", config.dump(2) + "\n");
  } catch (const UserError &error) { // by the name that the user knows
    std::string text = error.what();
    if (size_t at = text.find(work.path()); at != std::string::npos)
      text.replace(at, work.path().size(), folder);
    throw UserError(text);
  }
  mode_t mask = ::umask(0);
  ::umask(mask);
  ::chmod(work.path().c_str(), 0777 & ~mask);
  moveFolder(work.path(), folder);
  return tensors;
}

} // namespace quern::tools
