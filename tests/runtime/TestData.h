// Where the golden data is, and files that tests make.
#ifndef QUERN_TESTS_RUNTIME_TESTDATA_H
#define QUERN_TESTS_RUNTIME_TESTDATA_H

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace quern::runtime::test {

/// A path below tests/data.
std::string dataPath(const std::string &name);
/// A fresh path in a folder that is removed when the process ends.
std::string temporaryPath(const std::string &name);
nlohmann::json readJson(const std::string &path);
void writeText(const std::string &path, const std::string &content);
/// As zlib's.
uint32_t crc32(std::string_view bytes);

} // namespace quern::runtime::test
#endif
