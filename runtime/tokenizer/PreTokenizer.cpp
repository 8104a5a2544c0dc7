// Takes: the `pre_tokenizer` object of tokenizer.json. Gives: a chain of splits.
// Every splitter first marks ranges of the text as matching or not; what becomes of them is the `behavior`, the same
// for all.
#include "runtime/tokenizer/PreTokenizer.h"

#include "runtime/Error.h"
#include "runtime/tokenizer/ScannedWords.h"
#include "runtime/tokenizer/text/ByteChars.h"
#include "runtime/tokenizer/text/Pattern.h"
#include "runtime/tokenizer/text/Splits.h"
#include "runtime/tokenizer/text/Unicode.h"

#include <nlohmann/json.hpp>

#include <functional>
#include <iterator>

namespace quern::runtime {

namespace {

using Json = nlohmann::json;
using Range = Pattern::Range;

Behavior parseBehavior(const std::string &name) {
  const std::pair<const char *, Behavior> table[] = {{"Removed", Behavior::Removed},
                                                     {"Isolated", Behavior::Isolated},
                                                     {"MergedWithPrevious", Behavior::MergedWithPrevious},
                                                     {"MergedWithNext", Behavior::MergedWithNext},
                                                     {"Contiguous", Behavior::Contiguous}};
  for (const auto &[text, behavior] : table)
    if (name == text)
      return behavior;
  throw UserError("the split behavior " + quote(name) + " is not known");
}

class Splitter : public PreTokenizer {
public:
  using Finder = std::function<std::vector<Range>(std::string_view)>;
  Splitter(Finder find, Behavior behavior) : find(std::move(find)), behavior(behavior) {}
  void apply(const Piece &piece, PieceSink sink) const override {
    for (const Range &range : arrange(find(piece.text), behavior))
      if (range.end > range.begin)
        sink({piece.text.substr(range.begin, range.end - range.begin), piece.atStart && range.begin == 0});
  }

private:
  Finder find;
  Behavior behavior;
};

std::unique_ptr<PreTokenizer> byChar(bool (*matches)(char32_t), Behavior behavior) {
  return std::make_unique<Splitter>([matches](std::string_view text) { return splitByChar(text, matches); }, behavior);
}

class ByteCharacters : public PreTokenizer {
public:
  void apply(const Piece &piece, PieceSink sink) const override {
    const std::string text = toByteChars(piece.text);
    sink({text, piece.atStart});
  }
  bool isByteCharacters() const override { return true; }
};

class Sequence : public PreTokenizer {
public:
  void add(std::unique_ptr<PreTokenizer> part) {
    if (!part)
      return;
    if (auto *more = part->sequence())
      std::move(more->begin(), more->end(), std::back_inserter(parts));
    else
      parts.push_back(std::move(part));
  }
  void apply(const Piece &piece, PieceSink sink) const override { step(0, piece, sink); }
  bool dropByteCharacters() override {
    const bool is = !parts.empty() && parts.back()->isByteCharacters();
    if (is)
      parts.pop_back();
    return is;
  }
  std::vector<std::unique_ptr<PreTokenizer>> *sequence() override { return &parts; }

private:
  std::vector<std::unique_ptr<PreTokenizer>> parts;
  void step(size_t part, const Piece &piece, PieceSink sink) const {
    if (part == parts.size())
      sink(piece);
    else if (part + 1 == parts.size())
      parts[part]->apply(piece, sink);
    else
      parts[part]->apply(piece, [&](const Piece &made) { step(part + 1, made, sink); });
  }
};

/// A change of each piece's text: `change` takes a copy of it and whether it begins the text.
class Mapper : public PreTokenizer {
public:
  using Change = std::function<void(std::string &, bool atStart)>;
  explicit Mapper(Change change) : change(std::move(change)) {}
  void apply(const Piece &piece, PieceSink sink) const override {
    std::string text(piece.text);
    change(text, piece.atStart);
    sink({text, piece.atStart});
  }

private:
  Change change;
};

std::unique_ptr<PreTokenizer> makeByteLevel(const Json &json) {
  auto sequence = std::make_unique<Sequence>();
  if (json.value("add_prefix_space", true))
    sequence->add(std::make_unique<Mapper>([](std::string &text, bool) {
      if (!text.starts_with(' '))
        text.insert(0, 1, ' ');
    }));
  if (json.value("use_regex", true))
    sequence->add(std::make_unique<ScannedWords>(*WordScanner::of(gpt2Words)));
  sequence->add(std::make_unique<ByteCharacters>());
  return sequence;
}

std::unique_ptr<PreTokenizer> makeMetaspace(const Json &json) {
  std::string mark = json.value("replacement", std::string("\xe2\x96\x81"));
  std::string scheme = "always";
  if (json.contains("prepend_scheme") && json["prepend_scheme"].is_string())
    scheme = json["prepend_scheme"].get<std::string>();
  else if (!json.value("add_prefix_space", true)) // files of before 2023
    scheme = "never";
  auto sequence = std::make_unique<Sequence>();
  sequence->add(std::make_unique<Mapper>([mark, scheme](std::string &text, bool atStart) {
    text = replaceAll(text, " ", mark);
    if ((scheme == "always" || (scheme == "first" && atStart)) && !text.starts_with(mark))
      text.insert(0, mark);
  }));
  if (json.value("split", true))
    sequence->add(std::make_unique<Splitter>(
        [pattern = Pattern::literal(mark)](std::string_view text) { return pattern.split(text); },
        Behavior::MergedWithNext));
  return sequence;
}

std::unique_ptr<PreTokenizer> makeSplit(const Json &json) {
  const Behavior behavior = parseBehavior(json.at("behavior").get<std::string>());
  const bool invert = json.value("invert", false);
  if (behavior == Behavior::Isolated || (behavior == Behavior::Removed && invert)) // all matches are pieces
    if (const Json &pattern = json.at("pattern"); pattern.contains("Regex"))
      if (std::optional<WordScanner> scanner = WordScanner::of(pattern["Regex"].get<std::string>()))
        return std::make_unique<ScannedWords>(*scanner);
  Pattern pattern = Pattern::fromJson(json.at("pattern"));
  return std::make_unique<Splitter>(
      [pattern, invert](std::string_view text) {
        std::vector<Range> ranges = pattern.split(text);
        for (Range &range : ranges)
          range.match ^= invert;
        return ranges;
      },
      behavior);
}

/// `left`: how many more there may be; they run inside of each other, and the stack is bounded.
std::unique_ptr<PreTokenizer> make(const Json &json, int &left) {
  if (json.is_null())
    return nullptr;
  if (--left < 0)
    throw UserError("the pre-tokenizer has more than 100 parts");
  std::string type = json.at("type").get<std::string>();
  if (type == "Sequence") {
    auto sequence = std::make_unique<Sequence>();
    for (const Json &part : json.at("pretokenizers"))
      sequence->add(make(part, left));
    return sequence;
  }
  if (type == "ByteLevel")
    return makeByteLevel(json);
  if (type == "Metaspace")
    return makeMetaspace(json);
  if (type == "Split")
    return makeSplit(json);
  if (type == "BertPreTokenizer") {
    auto sequence = std::make_unique<Sequence>();
    sequence->add(byChar(isWhiteSpace, Behavior::Removed));
    sequence->add(byChar(isBertPunctuation, Behavior::Isolated));
    return sequence;
  }
  if (type == "WhitespaceSplit")
    return byChar(isWhiteSpace, Behavior::Removed);
  if (type == "Whitespace")
    return std::make_unique<Splitter>(splitWords, Behavior::Removed);
  if (type == "Punctuation")
    return byChar(isBertPunctuation, parseBehavior(json.value("behavior", "Isolated")));
  if (type == "Digits")
    return byChar(isNumber, json.value("individual_digits", false) ? Behavior::Isolated : Behavior::Contiguous);
  if (type == "CharDelimiterSplit")
    return std::make_unique<Splitter>([pattern = Pattern::literal(json.at("delimiter").get<std::string>())](
                                          std::string_view text) { return pattern.split(text); },
                                      Behavior::Removed);
  throw UserError("the pre-tokenizer type " + quote(type) + " is not known");
}

} // namespace

std::unique_ptr<PreTokenizer> PreTokenizer::fromJson(const Json &json) {
  int left = 100;
  return make(json, left);
}

} // namespace quern::runtime
