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

} // namespace quern::runtime::test
