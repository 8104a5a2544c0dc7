// Takes: names. Gives: paths and contents for the runtime's tests.
#include "tests/runtime/TestData.h"

#include "support/Files.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace quern::runtime::test {

std::string dataPath(const std::string &name) {
  const char *folder = std::getenv("QUERN_TEST_DATA");
  return std::string(folder ? folder : QUERN_TEST_DATA_DEFAULT) + "/" + name;
}

std::string temporaryPath(const std::string &name) {
  static const struct Folder {
    std::string path = (std::filesystem::temp_directory_path() / "quern-test-XXXXXX").string();
    Folder() {
      if (!mkdtemp(path.data()))
        std::abort();
    }
    ~Folder() { std::filesystem::remove_all(path); }
  } folder;
  return folder.path + "/" + name;
}

nlohmann::json readJson(const std::string &path) {
  return nlohmann::json::parse(support::readFile(path));
}

void writeText(const std::string &path, const std::string &content) {
  std::ofstream(path, std::ios::binary) << content;
}

uint32_t crc32(std::string_view bytes) {
  static const std::vector<uint32_t> table = [] {
    std::vector<uint32_t> made(256);
    for (uint32_t i = 0; i < 256; ++i) {
      made[i] = i;
      for (int bit = 0; bit < 8; ++bit)
        made[i] = made[i] >> 1 ^ (made[i] & 1 ? 0xedb88320u : 0);
    }
    return made;
  }();
  uint32_t sum = ~0u;
  for (char byte : bytes)
    sum = sum >> 8 ^ table[(sum ^ static_cast<unsigned char>(byte)) & 255];
  return ~sum;
}

} // namespace quern::runtime::test
