// Takes: the path of an executable. Gives: the files that the compiler appended to it (weights, tokenizer.json).
//
// Layout, from the end of the executable: 8 bytes "QUERNTL1"; before them the table's length (uint64, little endian);
// before that the table, JSON {"files": [{"name", "offset", "bytes"}]} with offsets from the start of the executable.
// Files begin on page boundaries, so that weights are mapped aligned. Why a tail: an ELF loader maps only what program
// headers name, so it costs nothing.
#include "runtime/Error.h"
#include "runtime/weights/Checkpoint.h"

#include <nlohmann/json.hpp>

#include <cstring>

namespace quern::runtime {

std::map<std::string, std::shared_ptr<const MappedFile>> readTail(const std::string &program) {
  std::map<std::string, std::shared_ptr<const MappedFile>> files;
  std::shared_ptr<const MappedFile> whole = MappedFile::open(program);
  if (whole->size() < 16 || std::memcmp(whole->data() + whole->size() - 8, "QUERNTL1", 8) != 0)
    return files;
  uint64_t tableBytes;
  std::memcpy(&tableBytes, whole->data() + whole->size() - 16, 8);
  if (tableBytes > whole->size() - 16)
    throw UserError(program + ": the table of its appended files is damaged");
  try {
    nlohmann::json table = nlohmann::json::parse(whole->text().substr(whole->size() - 16 - tableBytes, tableBytes));
    for (const nlohmann::json &file : table.at("files"))
      files[file.at("name").get<std::string>()] =
          MappedFile::open(program, file.at("offset").get<uint64_t>(), file.at("bytes").get<uint64_t>());
  } catch (const nlohmann::json::exception &error) {
    throw UserError(program + ": the table of its appended files is damaged: " + error.what());
  }
  return files;
}

} // namespace quern::runtime
