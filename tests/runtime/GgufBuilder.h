// GGUF files that tests write, independent of the reader.
#ifndef QUERN_TESTS_RUNTIME_GGUFBUILDER_H
#define QUERN_TESTS_RUNTIME_GGUFBUILDER_H

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace quern::runtime::test {

class GgufBuilder {
public:
  GgufBuilder() = default; // no first part of a model
  explicit GgufBuilder(const std::string &architecture) { text("general.architecture", architecture); }

  void text(const std::string &key, const std::string &value);
  void integer(const std::string &key, uint32_t value);
  void real(const std::string &key, float value);
  void flag(const std::string &key, bool value);
  void texts(const std::string &key, const std::vector<std::string> &values);
  void reals(const std::string &key, const std::vector<float> &values);
  void integers(const std::string &key, const std::vector<int32_t> &values);
  void bytes(const std::string &key, const std::string &values);
  /// `shape` as the format has it: the contiguous dimension first.
  void tensor(const std::string &name, uint32_t type, const std::vector<uint64_t> &shape, const std::string &data);
  /// F32, rows first.
  void floats(const std::string &name, std::vector<uint64_t> shape, const std::vector<float> &values);

  std::string file(uint32_t version = 3) const;

private:
  std::string values, infos, data;
  uint64_t valueCount = 0, tensorCount = 0;
};

/// The vocabulary of a tokenizer.json as converters write it to GGUF. `model`: llama, gpt2, bert or t5; `pre`: the name of
/// the way of splitting text.
std::string ggufOfTokenizer(const nlohmann::json &tokenizer, const std::string &model, const std::string &pre);

} // namespace quern::runtime::test
#endif
