// Takes: a .model file of SentencePiece. Gives: the text of a tokenizer.json that does the same to the letter.
//
// The file is a protobuf message, of which a dozen fields matter. Why not the library, nor protobuf: both come with
// several megabytes, and each program carries its runtime; these are 60 lines that read and bound what a stranger sends.
// What the file does not say is which tokens stand around a text, and where models number tokens otherwise than their
// file: the class of the tokenizer says that (tokenizer_config.json). Classes that are no row here are refused.
#include "runtime/Error.h"
#include "runtime/tokenizer/files/VocabularyFiles.h"
#include "runtime/tokenizer/model/Model.h"
#include "runtime/tokenizer/text/Base64.h"
#include "runtime/tokenizer/text/JsonText.h"
#include "support/Utf8.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace quern::runtime {

using Json = nlohmann::json;
using namespace jsontext;

namespace {

/// The fields of a message, one after the other. A damaged one ends in a UserError.
class Message {
public:
  explicit Message(std::string_view bytes) : bytes(bytes) {}

  int field = 0;
  uint64_t number = 0;   // of a field that is one
  std::string_view text; // of one that has a length
  float real = 0;        // of one of four bytes

  bool next() {
    if (bytes.empty())
      return false;
    const uint64_t tag = varint();
    field = int(tag >> 3 & 0xffff);
    switch (tag & 7) {
    case 0:
      number = varint();
      return true;
    case 1:
      take(8);
      return true;
    case 2:
      text = take(varint());
      return true;
    case 5:
      std::memcpy(&real, take(4).data(), 4);
      return true;
    default:
      throw UserError("the file is no SentencePiece model, or damaged");
    }
  }

private:
  std::string_view bytes;

  std::string_view take(uint64_t length) {
    if (length > bytes.size())
      throw UserError("the file is cut off or damaged: a part of it ends behind the file");
    const std::string_view part = bytes.substr(0, length);
    bytes.remove_prefix(length);
    return part;
  }
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= uint64_t(byte & 0x7f) << shift;
      if (byte < 0x80)
        return value;
    }
    throw UserError("the file is no SentencePiece model, or damaged");
  }
};

struct Piece {
  std::string text;
  float score = 0;
  int kind = NormalPiece;
};

struct Model {
  std::vector<Piece> pieces;
  uint64_t type = 1;
  bool byteFallback = false, suffix = false, prefix = true, squeeze = true, escape = true;
  std::string_view map;
};

Model read(std::string_view content) {
  Model model;
  bool whole[] = {false, false}; // both specs come behind the pieces, and every file has them
  for (Message message(content); message.next();) {
    if (message.field == 2 || message.field == 3)
      whole[message.field - 2] = true;
    if (message.field == 1) {
      Piece piece;
      for (Message part(message.text); part.next();) {
        if (part.field == 1)
          piece.text = repairUtf8(part.text);
        else if (part.field == 2)
          piece.score = part.real;
        else if (part.field == 3)
          piece.kind = int(std::min<uint64_t>(part.number, 100));
      }
      if (!std::isfinite(piece.score))
        throw UserError("the score of its piece " + quote(piece.text) + " is no number");
      model.pieces.push_back(std::move(piece));
    } else if (message.field == 2) {
      for (Message part(message.text); part.next();) {
        if (part.field == 3)
          model.type = part.number;
        else if (part.field == 24)
          model.suffix = part.number;
        else if (part.field == 35)
          model.byteFallback = part.number;
      }
    } else if (message.field == 3) {
      for (Message part(message.text); part.next();) {
        if (part.field == 2)
          model.map = part.text;
        else if (part.field == 3)
          model.prefix = part.number;
        else if (part.field == 4)
          model.squeeze = part.number;
        else if (part.field == 5)
          model.escape = part.number;
      }
    }
  }
  if (!whole[0] || !whole[1])
    throw UserError("the file is cut off, or no SentencePiece model: it has no trainer_spec or no normalizer_spec");
  return model;
}

/// How a class of tokenizers numbers its tokens and what it puts around a text.
struct Class {
  const char *names, *models;              // of tokenizer_config.json; model_type of config.json
  const char *first, *last;                // tokens around a text; "bos", "eos": as the config has them
  std::vector<const char *> inserted = {}; // tokens that take the place of the file's first `replaced`
  size_t replaced = 0;
  const char *appended = "";
  bool extraIds = false;
};

const Class classes[] = {
    {"LlamaTokenizer CodeLlamaTokenizer GemmaTokenizer", "llama mistral mixtral gemma gemma2 phi3", "bos", "eos"},
    {"T5Tokenizer MT5Tokenizer", "t5 mt5 umt5", "", "</s>", {}, 0, "", true},
    {"XLMRobertaTokenizer", "xlm-roberta", "<s>", "</s>", {"<s>", "<pad>", "</s>", "<unk>"}, 3, "<mask>"},
    {"CamembertTokenizer",
     "camembert",
     "<s>",
     "</s>",
     {"<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"},
     1,
     "<mask>"},
    {"DebertaV2Tokenizer", "deberta-v2", "[CLS]", "[SEP]"},
};

bool lists(const std::string &words, const std::string &word) {
  return !word.empty() && (" " + words + " ").find(" " + word + " ") != std::string::npos;
}

const Class &classOf(const Json &config, const ReadBeside &beside) {
  std::string name = config.contains("tokenizer_class") ? tokenText(config["tokenizer_class"]) : "";
  if (name.ends_with("Fast"))
    name.resize(name.size() - 4);
  const std::string model = name.empty() ? jsonBeside(beside, "config.json").value("model_type", "") : "";
  std::string known;
  for (const Class &row : classes) {
    if (lists(row.names, name) || lists(row.models, model))
      return row;
    known += std::string(known.empty() ? "" : " ") + row.names;
  }
  throw UserError("how tokens are numbered and what stands around a text follows from tokenizer_class in "
                  "tokenizer_config.json, which is " +
                  (name.empty() ? "missing" : quote(name)) + "; known are " + known +
                  ". Save the tokenizer as tokenizer.json, or add that line");
}

class Maker {
public:
  Maker(Model model, const Json &config, const Class &row) : model(std::move(model)), config(config), row(row) {}

  std::string run() {
    arrange();
    if (model.type != 1 && model.type != 2)
      throw UserError("the model is of words or characters; known are Unigram and BPE");
    int unknown = -1;
    AddedTexts added;
    for (size_t i = 0; i < model.pieces.size(); ++i) {
      const Piece &piece = model.pieces[i];
      if (piece.kind == UnusedPiece)
        throw UserError("it has pieces that are marked as unused, which is not supported");
      if (piece.kind == UnknownPiece)
        unknown = int(i);
      if ((piece.kind == UnknownPiece || piece.kind == ControlPiece) && !piece.text.empty())
        added[int(i)] = {piece.text, addedToken(int64_t(i), piece.text, true)};
    }
    if (unknown < 0)
      throw UserError("it has no piece for unknown characters; it is cut off, or no model");
    addConfiguredTokens(added, config);
    const bool prefix = model.prefix && !model.suffix;
    const std::string first = role(row.first, "add_bos_token", true), last = role(row.last, "add_eos_token", false);
    return join({R"({"normalizer":{"type":"SentencePiece","map":")",
                 encodeBase64(model.map),
                 R"(","prefix":)",
                 literal(prefix),
                 R"(,"suffix":)",
                 literal(model.prefix && model.suffix),
                 R"(,"squeeze":)",
                 literal(model.squeeze),
                 R"(,"user_defined":[)",
                 userDefined(),
                 R"(],"escape":)",
                 literal(model.escape),
                 R"(},"model":)",
                 model.type == 1 ? unigram(unknown) : bpe(unknown),
                 R"(,"decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"\u2581"},)"
                 R"("content":" "},{"type":"ByteFallback"},{"type":"Fuse"})",
                 prefix ? R"(,{"type":"Strip","content":" ","start":1,"stop":0})" : "",
                 R"(]},"post_processor":)",
                 around(first, find(first, added), last, find(last, added)),
                 R"(,"added_tokens":)",
                 joinAdded(added),
                 "}"});
  }

private:
  Model model;
  const Json &config;
  const Class &row;

  /// The numbers that the class gives its tokens.
  void arrange() {
    std::vector<Piece> &pieces = model.pieces;
    if (!row.inserted.empty()) {
      if (pieces.size() < row.replaced)
        throw UserError("it has fewer pieces than models of its class");
      pieces.erase(pieces.begin(), pieces.begin() + std::ptrdiff_t(row.replaced));
      std::vector<Piece> made;
      for (const std::string text : row.inserted)
        made.push_back({text, 0, text == "<unk>" ? UnknownPiece : ControlPiece});
      pieces.insert(pieces.begin(), made.begin(), made.end());
    }
    if (*row.appended)
      pieces.push_back({row.appended, 0, ControlPiece});
    if (row.extraIds &&
        std::none_of(pieces.begin(), pieces.end(), [](const Piece &p) { return p.text == "<extra_id_0>"; }))
      for (int64_t i = std::clamp<int64_t>(config.value("extra_ids", 100), 0, 10'000); i-- > 0;)
        pieces.push_back({"<extra_id_" + std::to_string(i) + ">", 0, ControlPiece});
  }

  /// The text of a token around a text; empty where the config wants none.
  std::string role(const std::string &name, const char *wanted, bool usual) const {
    if (name != "bos" && name != "eos")
      return name;
    const Json given = config.value(wanted, Json());
    if (!(given.is_boolean() ? given.get<bool>() : usual))
      return "";
    const std::string text = config.contains(name + "_token") ? tokenText(config[name + "_token"]) : "";
    return text.empty() ? (name == "bos" ? "<s>" : "</s>") : text;
  }
  int find(const std::string &text, const AddedTexts &added) const {
    const int id = text.empty() ? -1 : findAdded(added, text);
    if (id < 0 && !text.empty())
      throw UserError("the token " + quote(text) + " that stands around a text is none of its special tokens");
    return id;
  }

  std::string userDefined() const {
    std::string list;
    for (const Piece &piece : model.pieces)
      if (piece.kind == UserDefinedPiece)
        append(list, {literal(piece.text)});
    return list;
  }

  std::string bpe(int unknown) const {
    std::string vocabulary;
    std::vector<double> scores;
    std::vector<int> kinds;
    Vocabulary seen; // the first of equal pieces counts
    for (size_t i = 0; i < model.pieces.size(); ++i) {
      const Piece &piece = model.pieces[i];
      if (seen.find(piece.text) < 0) {
        seen.add(piece.text, int(i));
        append(vocabulary, {literal(piece.text), ":", std::to_string(i)});
      }
      scores.push_back(piece.score);
      kinds.push_back(piece.kind);
    }
    return join({R"({"type":"BPE","fuse_unk":true,"byte_fallback":)", literal(model.byteFallback), R"(,"unk_token":)",
                 literal(model.pieces[size_t(unknown)].text), R"(,"vocab":{)", vocabulary, R"(},"user_defined":[)",
                 userDefined(), R"(],"ranks":)", literal(ranksByScore(scores, kinds)), "}"});
  }

  /// Only normal and user-defined pieces are looked for; of the latter each byte scores as the best piece does, which is
  /// 0 where the trainer wrote them.
  std::string unigram(int unknown) const {
    float least = INFINITY, best = -INFINITY;
    for (const Piece &piece : model.pieces) {
      if (piece.kind == NormalPiece)
        least = std::min(least, piece.score);
      if (piece.kind == NormalPiece || piece.kind == UserDefinedPiece)
        best = std::max(best, piece.score);
    }
    std::string vocabulary;
    std::vector<int> hidden;
    for (size_t i = 0; i < model.pieces.size(); ++i) {
      const Piece &piece = model.pieces[i];
      const bool own = piece.kind == UserDefinedPiece && std::isfinite(best);
      append(vocabulary, {"[", literal(piece.text), ",",
                          literal(own ? double(float(piece.text.size()) * best) - 0.1 : double(piece.score)), "]"});
      if (piece.kind != NormalPiece && piece.kind != UserDefinedPiece)
        hidden.push_back(int(i));
    }
    return join({R"({"type":"Unigram","unk_id":)", std::to_string(unknown), R"(,"byte_fallback":)",
                 literal(model.byteFallback), R"(,"vocab":[)", vocabulary, R"(],"sentencepiece":{"hidden":)",
                 literal(hidden), R"(,"unknown_score":)", literal(std::isfinite(least) ? double(least - 10) : -10.0),
                 "}}"});
  }
};

} // namespace

std::string tokenizerOfSentencePiece(std::string_view content, const std::string &name, const ReadBeside &beside) {
  try {
    const Json config = jsonBeside(beside, "tokenizer_config.json");
    Model model = read(content);
    return Maker(std::move(model), config, classOf(config, beside)).run();
  } catch (const UserError &error) {
    throw UserError(name + ": " + error.what());
  }
}

} // namespace quern::runtime
