// Takes: an executable that is being written, and a checkpoint. Gives: the checkpoint's files behind its end.
// Why pages: the program maps its weights from its own file, and mappings begin on page boundaries.
#include "codegen/link/EmbedFiles.h"

#include "support/CheckpointFiles.h"
#include "support/Error.h"
#include "support/Files.h"
#include "support/Json.h"

#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"

#include <filesystem>
#include <fstream>
#include <vector>

namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace {
struct Entry {
  std::string name;
  fs::path path;
};
} // namespace

/// All parts of a GGUF model: model.gguf, model-00002-of-00003.gguf.
static std::vector<Entry> ggufFiles(const std::string &path) {
  std::vector<Entry> files;
  for (const std::string &part : quern::support::ggufParts(path))
    files.push_back({files.empty() ? "model.gguf" : "model" + part.substr(part.size() - 20), part});
  return files;
}

/// The files of a checkpoint under the names that the runtime looks for.
static std::vector<Entry> filesOf(const fs::path &weights) {
  if (!fs::is_directory(weights)) {
    std::string start(4, '\0');
    std::ifstream(weights, std::ios::binary).read(start.data(), 4);
    return start == "GGUF" ? ggufFiles(weights) : std::vector<Entry>{{"model.safetensors", weights}};
  }
  std::vector<Entry> files;
  if (fs::exists(weights / "model.safetensors")) {
    files.push_back({"model.safetensors", weights / "model.safetensors"});
  } else if (fs::path index = weights / "model.safetensors.index.json"; fs::exists(index)) {
    files.push_back({"model.safetensors.index.json", index});
    Json json = quern::support::parseJson(quern::support::readFile(index.string()), index.string());
    if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object())
      throw std::runtime_error(index.string() + " is no index of safetensors files");
    std::vector<std::string> seen;
    for (const auto &[tensor, shard] : json["weight_map"].items())
      if (shard.is_string() && std::find(seen.begin(), seen.end(), shard.get<std::string>()) == seen.end()) {
        seen.push_back(shard.get<std::string>());
        files.push_back({seen.back(), weights / seen.back()});
      }
  } else if (std::string gguf = quern::support::ggufOf(weights); !gguf.empty()) {
    files = ggufFiles(gguf);
  } else {
    throw std::runtime_error(weights.string() + " holds neither model.safetensors nor model.safetensors.index.json nor "
                                                "model.gguf nor one GGUF model alone");
  }
  if (!files[0].name.ends_with(".gguf"))
    for (const std::string &module : quern::support::modulesWithWeights(weights))
      files.push_back({module + "/model.safetensors", weights / module / "model.safetensors"});
  for (const char *name : quern::support::filesBesideWeights)
    if (fs::exists(weights / name))
      files.push_back({name, weights / name});
  if (!fs::exists(weights / "tokenizer.json"))
    for (const char *name : quern::support::vocabulariesBesideWeights)
      if (fs::exists(weights / name)) {
        files.push_back({name, weights / name}); // and what says how its tokens are numbered
        if (fs::exists(weights / "config.json"))
          files.push_back({"config.json", weights / "config.json"});
        break;
      }
  return files;
}

void quern::codegen::packCheckpoint(const std::string &program, const std::string &weights, const std::string &folder) {
  const std::string messages = folder + ".messages";
  std::vector<llvm::StringRef> arguments = {program, "pack", "--weights", weights, "-o", folder};
  std::optional<llvm::StringRef> redirects[] = {llvm::StringRef(""), llvm::StringRef(""), llvm::StringRef(messages)};
  std::string failure;
  if (llvm::sys::ExecuteAndWait(program, arguments, std::nullopt, redirects, 0, 0, &failure) == 0)
    return;
  llvm::StringRef said = failure;
  auto text = llvm::MemoryBuffer::getFile(messages);
  if (failure.empty() && text)
    said = (*text)->getBuffer();
  said.consume_front("error: ");
  throw quern::support::UserError(said.rtrim().str());
}

void quern::codegen::embedCheckpoint(quern::support::OutputFile &program, const std::string &weights) {
  constexpr uint64_t page = 4096;
  Json table = {{"files", Json::array()}};
  for (const Entry &entry : filesOf(weights)) {
    program.write(std::string((page - program.size() % page) % page, '\0'));
    uint64_t offset = program.size();
    program.copy(entry.path.string());
    if (program.size() == offset)
      throw quern::support::UserError(entry.path.string() + " is empty");
    table["files"].push_back({{"name", entry.name}, {"offset", offset}, {"bytes", program.size() - offset}});
  }
  std::string text = table.dump();
  uint64_t length = text.size();
  program.write(text);
  program.write(&length, sizeof length);
  program.write("QUERNTL1");
}
