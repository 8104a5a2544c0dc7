// Takes: an executable and a checkpoint. Gives: the executable with the checkpoint's files behind its end.
// Why pages: the program maps its weights from its own file, and mappings begin on page boundaries.
#include "codegen/link/EmbedFiles.h"

#include <nlohmann/json.hpp>

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

/// The files of a checkpoint under the names that the runtime looks for.
static std::vector<Entry> filesOf(const fs::path &weights) {
  if (!fs::is_directory(weights))
    return {{"model.safetensors", weights}};
  std::vector<Entry> files;
  if (fs::exists(weights / "model.safetensors")) {
    files.push_back({"model.safetensors", weights / "model.safetensors"});
  } else if (fs::path index = weights / "model.safetensors.index.json"; fs::exists(index)) {
    files.push_back({"model.safetensors.index.json", index});
    std::ifstream in(index);
    Json json = Json::parse(in, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object())
      throw std::runtime_error(index.string() + " is no index of safetensors files");
    std::vector<std::string> seen;
    for (const auto &[tensor, shard] : json["weight_map"].items())
      if (shard.is_string() && std::find(seen.begin(), seen.end(), shard.get<std::string>()) == seen.end()) {
        seen.push_back(shard.get<std::string>());
        files.push_back({seen.back(), weights / seen.back()});
      }
  } else {
    throw std::runtime_error(weights.string() + " holds neither model.safetensors nor model.safetensors.index.json");
  }
  for (const char *name : {"tokenizer.json", "sentence_bert_config.json", "generation_config.json"})
    if (fs::exists(weights / name))
      files.push_back({name, weights / name});
  return files;
}

void quern::codegen::embedCheckpoint(const std::string &program, const std::string &weights) {
  constexpr uint64_t page = 4096;
  std::vector<Entry> files = filesOf(weights);
  uint64_t end = fs::file_size(program), start = end;
  auto give_up = [&](const std::string &why) {
    std::error_code ignored;
    fs::resize_file(program, start, ignored);
    throw std::runtime_error(why);
  };
  std::ofstream out(program, std::ios::binary | std::ios::app);
  Json table = {{"files", Json::array()}};
  std::vector<char> buffer(1 << 20);
  for (const Entry &entry : files) {
    uint64_t offset = (end + page - 1) / page * page;
    out << std::string(offset - end, '\0');
    std::ifstream in(entry.path, std::ios::binary);
    uint64_t bytes = 0;
    while (in.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || in.gcount()) {
      out.write(buffer.data(), in.gcount());
      bytes += static_cast<uint64_t>(in.gcount());
    }
    if (in.bad() || !in.eof() || !bytes)
      give_up("cannot read " + entry.path.string());
    table["files"].push_back({{"name", entry.name}, {"offset", offset}, {"bytes", bytes}});
    end = offset + bytes;
  }
  std::string text = table.dump();
  uint64_t length = text.size();
  out << text;
  out.write(reinterpret_cast<const char *>(&length), sizeof length);
  out << "QUERNTL1";
  out.close();
  if (!out)
    give_up("cannot write " + program + ": is the disk full?");
}
