// The architectures of tests/data/zoo.json: fixtures that are tried where a test costs little. tests/e2e/models/models_test.py says which they are.
#ifndef QUERN_TESTS_ZOO_H
#define QUERN_TESTS_ZOO_H

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace quern::test {

/// Pairs of a folder of tests/data and its spec in examples/; `kind`: "decoders", "pairs", "encoders", "images", "contrasts".
inline std::vector<std::pair<std::string, std::string>> zoo(const std::string &kind) {
  const char *root = std::getenv("QUERN_SOURCE"); // CTest sets it; by hand, from the root
  std::ifstream file(std::string(root ? root : ".") + "/tests/data/zoo.json");
  std::vector<std::pair<std::string, std::string>> all;
  const nlohmann::json kinds = nlohmann::json::parse(file);
  for (const auto &[fixture, spec] : kinds.at(kind).items())
    all.emplace_back(fixture, spec.get<std::string>());
  return all;
}

} // namespace quern::test
#endif
