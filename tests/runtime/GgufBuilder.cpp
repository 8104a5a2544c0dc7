#include "tests/runtime/GgufBuilder.h"

#include <algorithm>
#include <cstring>

namespace quern::runtime::test {

namespace {

template <typename T> void put(std::string &to, T value) {
  to.append(reinterpret_cast<const char *>(&value), sizeof value);
}
void putText(std::string &to, const std::string &text) {
  put<uint64_t>(to, text.size());
  to += text;
}

std::string decodeBase64(const std::string &text) {
  std::string result;
  uint32_t bits = 0;
  int count = 0;
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (char c : text) {
    if (c == '=')
      break;
    bits = bits << 6 | uint32_t(digits.find(c));
    if ((count += 6) >= 8)
      result += char(bits >> (count -= 8) & 0xff);
  }
  return result;
}

} // namespace

void GgufBuilder::text(const std::string &key, const std::string &value) {
  putText(values, key);
  put<uint32_t>(values, 8);
  putText(values, value);
  ++valueCount;
}
void GgufBuilder::integer(const std::string &key, uint32_t value) {
  putText(values, key);
  put<uint32_t>(values, 4);
  put(values, value);
  ++valueCount;
}
void GgufBuilder::real(const std::string &key, float value) {
  putText(values, key);
  put<uint32_t>(values, 6);
  put(values, value);
  ++valueCount;
}
void GgufBuilder::flag(const std::string &key, bool value) {
  putText(values, key);
  put<uint32_t>(values, 7);
  put<uint8_t>(values, value);
  ++valueCount;
}
void GgufBuilder::texts(const std::string &key, const std::vector<std::string> &list) {
  putText(values, key);
  put<uint32_t>(values, 9);
  put<uint32_t>(values, 8);
  put<uint64_t>(values, list.size());
  for (const std::string &value : list)
    putText(values, value);
  ++valueCount;
}
void GgufBuilder::reals(const std::string &key, const std::vector<float> &list) {
  putText(values, key);
  put<uint32_t>(values, 9);
  put<uint32_t>(values, 6);
  put<uint64_t>(values, list.size());
  for (float value : list)
    put(values, value);
  ++valueCount;
}
void GgufBuilder::integers(const std::string &key, const std::vector<int32_t> &list) {
  putText(values, key);
  put<uint32_t>(values, 9);
  put<uint32_t>(values, 5);
  put<uint64_t>(values, list.size());
  for (int32_t value : list)
    put(values, value);
  ++valueCount;
}
void GgufBuilder::bytes(const std::string &key, const std::string &list) {
  putText(values, key);
  put<uint32_t>(values, 9);
  put<uint32_t>(values, 0);
  put<uint64_t>(values, list.size());
  values += list;
  ++valueCount;
}

void GgufBuilder::tensor(const std::string &name, uint32_t type, const std::vector<uint64_t> &shape,
                         const std::string &content) {
  putText(infos, name);
  put(infos, uint32_t(shape.size()));
  for (uint64_t length : shape)
    put(infos, length);
  put(infos, type);
  put<uint64_t>(infos, data.size());
  data += content;
  data.resize((data.size() + 31) / 32 * 32);
  ++tensorCount;
}

void GgufBuilder::floats(const std::string &name, std::vector<uint64_t> shape, const std::vector<float> &numbers) {
  std::reverse(shape.begin(), shape.end());
  tensor(name, 0, shape, {reinterpret_cast<const char *>(numbers.data()), numbers.size() * 4});
}

std::string GgufBuilder::file(uint32_t version) const {
  std::string all = "GGUF";
  put(all, version);
  put(all, tensorCount);
  put(all, valueCount);
  all += values + infos;
  all.resize((all.size() + 31) / 32 * 32);
  return all + data;
}

std::string ggufOfTokenizer(const nlohmann::json &tokenizer, const std::string &model, const std::string &pre) {
  const std::string mark = "\xe2\x96\x81", prefix = "tokenizer.ggml.";
  GgufBuilder file("llama");
  file.text(prefix + "model", model);
  file.text(prefix + "pre", pre);
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  std::vector<float> scores;
  auto put = [&](size_t id, const std::string &text, int32_t type) {
    if (id >= tokens.size()) {
      tokens.resize(id + 1);
      types.resize(id + 1, 5);
    }
    tokens[id] = text;
    types[id] = type;
  };
  const nlohmann::json &vocabulary = tokenizer["model"]["vocab"];
  if (model == "t5") {
    for (const nlohmann::json &entry : vocabulary) {
      put(tokens.size(), entry[0], 1);
      scores.push_back(entry[1]);
    }
    file.bytes(prefix + "precompiled_charsmap", decodeBase64(tokenizer["normalizer"]["precompiled_charsmap"]));
    types[tokenizer["model"]["unk_id"].get<size_t>()] = 2;
  } else {
    for (const auto &[text, id] : vocabulary.items()) {
      const bool special = text.starts_with('[') && text.ends_with(']') && text.size() > 2;
      put(id.get<size_t>(),
          model != "bert" || special ? text
          : text.starts_with("##")   ? text.substr(2)
                                     : mark + text,
          1);
    }
  }
  for (const nlohmann::json &token : tokenizer["added_tokens"])
    put(token["id"], token["content"], token["special"].get<bool>() ? 3 : 4);
  file.texts(prefix + "tokens", tokens);
  file.integers(prefix + "token_type", types);
  if (model == "t5")
    file.reals(prefix + "scores", (scores.resize(tokens.size()), scores));
  if (model == "gpt2") {
    std::vector<std::string> merges;
    for (const nlohmann::json &merge : tokenizer["model"]["merges"])
      merges.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
    file.texts(prefix + "merges", merges);
  }
  auto number = [&](const std::string &text) {
    return uint32_t(std::find(tokens.begin(), tokens.end(), text) - tokens.begin());
  };
  if (model == "t5")
    file.integer(prefix + "eos_token_id", number("</s>"));
  if (pre == "llama-bpe")
    file.integer(prefix + "bos_token_id", number("<|begin_of_text|>"));
  if (model == "bert") {
    file.integer(prefix + "bos_token_id", number("[CLS]"));
    file.integer(prefix + "seperator_token_id", number("[SEP]"));
  }
  return file.file();
}

} // namespace quern::runtime::test
