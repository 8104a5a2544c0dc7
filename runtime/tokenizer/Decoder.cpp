// Takes: the `decoder` object of tokenizer.json. Gives: a chain that turns token texts into text.
#include "runtime/tokenizer/Decoder.h"

#include "runtime/Error.h"
#include "runtime/tokenizer/text/ByteChars.h"
#include "runtime/tokenizer/text/Pattern.h"
#include "runtime/tokenizer/text/Unicode.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>

namespace quern::runtime {

namespace {

using Json = nlohmann::json;
using Tokens = std::vector<std::string>;

class FunctionDecoder : public Decoder {
public:
  FunctionDecoder(std::function<Tokens(Tokens)> function, bool isJoining, bool isLookingAhead)
      : function(std::move(function)), isJoining(isJoining), isLookingAhead(isLookingAhead) {}
  Tokens apply(Tokens tokens) const override { return function(std::move(tokens)); }
  bool joins() const override { return isJoining; }
  bool looksAhead() const override { return isLookingAhead; }

private:
  std::function<Tokens(Tokens)> function;
  bool isJoining, isLookingAhead;
};

class Sequence : public Decoder {
public:
  std::vector<std::unique_ptr<Decoder>> parts;
  Tokens apply(Tokens tokens) const override {
    for (const std::unique_ptr<Decoder> &part : parts)
      tokens = part->apply(std::move(tokens));
    return tokens;
  }
  bool joins() const override {
    return std::any_of(parts.begin(), parts.end(), [](auto &part) { return part->joins(); });
  }
  bool looksAhead() const override {
    return std::any_of(parts.begin(), parts.end(), [](auto &part) { return part->looksAhead(); });
  }
  /// A part that changes each token by itself keeps a text's beginning; one that sees the whole text need not.
  bool streams() const override {
    bool joined = false;
    for (const std::unique_ptr<Decoder> &part : parts) {
      if (!part->streams() || (joined && part->looksAhead()))
        return false;
      joined |= part->joins();
    }
    return true;
  }
};

template <typename Function> std::unique_ptr<Decoder> joining(Function function) {
  return std::make_unique<FunctionDecoder>(std::move(function), true, false);
}
template <typename Function> std::unique_ptr<Decoder> onEach(Function function, bool looksAhead = true) {
  auto all = [function](Tokens tokens) {
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = function(std::move(tokens[i]), i, tokens.size());
    return tokens;
  };
  return std::make_unique<FunctionDecoder>(all, false, looksAhead);
}

Tokens byteLevel(const Tokens &tokens) {
  std::string bytes;
  for (const std::string &token : tokens)
    if (!appendBytes(bytes, token))
      bytes += token; // an added token is text already
  return {repairUtf8(bytes)};
}

/// English as people write it: no space before a full stop, "do n't" together.
std::string cleanUp(std::string text) {
  const std::pair<const char *, const char *> table[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto &[from, to] : table)
    text = replaceAll(text, from, to);
  return text;
}

std::unique_ptr<Decoder> makeWordPieceDecoder(const Json &json) {
  std::string prefix = json.value("prefix", "##");
  bool clean = json.value("cleanup", true);
  return onEach([=](std::string token, size_t i, size_t) {
    if (i > 0)
      token = token.starts_with(prefix) ? token.substr(prefix.size()) : " " + token;
    return clean ? cleanUp(std::move(token)) : token;
  });
}

std::unique_ptr<Decoder> makeMetaspaceDecoder(const Json &json) {
  std::string mark = json.value("replacement", std::string("\xe2\x96\x81"));
  bool prepends = json.contains("prepend_scheme") && json["prepend_scheme"].is_string()
                      ? json["prepend_scheme"] != "never"
                      : json.value("add_prefix_space", true);
  return onEach([=](const std::string &token, size_t i, size_t) {
    return replaceAll(token, mark, i == 0 && prepends ? "" : " ");
  });
}

/// "<0xE2>" to 0xE2, or -1.
int byteOf(const std::string &token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>')
    return -1;
  int value = 0;
  for (char c : {token[3], token[4]}) {
    int digit = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                       : -1;
    if (digit < 0)
      return -1;
    value = value * 16 + digit;
  }
  return value;
}

Tokens byteFallback(Tokens tokens) {
  Tokens result;
  std::string run;
  auto flush = [&] {
    if (run.empty())
      return;
    if (isValidUtf8(run)) {
      result.push_back(run);
    } else {
      for (size_t i = 0; i < run.size(); ++i)
        result.push_back("\xef\xbf\xbd");
    }
    run.clear();
  };
  for (std::string &token : tokens) {
    int byte = byteOf(token);
    if (byte >= 0) {
      run += char(byte);
    } else {
      flush();
      result.push_back(std::move(token));
    }
  }
  flush();
  return result;
}

std::unique_ptr<Decoder> makeStrip(const Json &json) {
  std::string content = json.value("content", " ");
  size_t start = json.value("start", size_t(0)), stop = json.value("stop", size_t(0));
  return onEach(
      [=](std::string token, size_t, size_t) {
        size_t begin = 0, end = token.size();
        for (size_t i = 0; i < start && !content.empty() && token.compare(begin, content.size(), content) == 0; ++i)
          begin += content.size();
        for (size_t i = 0; i < stop && !content.empty() && end >= begin + content.size() &&
                           token.compare(end - content.size(), content.size(), content) == 0;
             ++i)
          end -= content.size();
        return token.substr(begin, end - begin);
      },
      /*looksAhead=*/stop > 0 || start > 1);
}

} // namespace

std::unique_ptr<Decoder> Decoder::fromJson(const Json &json) {
  if (json.is_null())
    return nullptr;
  std::string type = json.at("type").get<std::string>();
  if (type == "Sequence") {
    auto sequence = std::make_unique<Sequence>();
    for (const Json &part : json.at("decoders"))
      if (std::unique_ptr<Decoder> made = fromJson(part))
        sequence->parts.push_back(std::move(made));
    return sequence;
  }
  if (type == "ByteLevel")
    return joining([](const Tokens &tokens) { return byteLevel(tokens); });
  if (type == "WordPiece")
    return makeWordPieceDecoder(json);
  if (type == "Metaspace")
    return makeMetaspaceDecoder(json);
  if (type == "ByteFallback")
    return std::make_unique<FunctionDecoder>([](Tokens tokens) { return byteFallback(std::move(tokens)); }, false,
                                             false);
  if (type == "Fuse")
    return joining([](const Tokens &tokens) {
      std::string all;
      for (const std::string &token : tokens)
        all += token;
      return Tokens{all};
    });
  if (type == "Strip")
    return makeStrip(json);
  if (type == "Replace") {
    Pattern pattern = Pattern::fromJson(json.at("pattern"));
    std::string content = json.at("content").get<std::string>();
    return onEach([pattern, content](const std::string &token, size_t, size_t) {
      size_t limit = Pattern::limitFor(std::min<size_t>(token.size(), 1 << 16)); // each part of a chain has its own
      return pattern.replace(token, content, std::max(limit, 2 * token.size()));
    });
  }
  if (type == "BPEDecoder") {
    std::string suffix = json.value("suffix", "</w>");
    return onEach([suffix](const std::string &token, size_t i, size_t count) {
      return replaceAll(token, suffix, i + 1 == count ? "" : " ");
    });
  }
  throw UserError("the decoder type " + quote(type) + " is not known");
}

} // namespace quern::runtime
