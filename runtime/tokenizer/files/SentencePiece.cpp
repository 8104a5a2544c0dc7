// Takes: a .model file of SentencePiece. Gives: the text of a tokenizer.json that does the same to the letter.
//
// What the file does not say is which tokens stand around a text, and where models number tokens otherwise than their
// file: the class of the tokenizer says that (tokenizer_config.json).
#include "runtime/Error.h"
#include "runtime/tokenizer/files/SentencePieceModel.h"
#include "runtime/tokenizer/text/Base64.h"
#include "runtime/tokenizer/text/JsonText.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace quern::runtime {

using Json = nlohmann::json;
using namespace jsontext;
using namespace sentencepiece;

namespace {

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
                 R"(,"decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"\u2581"},)",
                 R"("content":" "},{"type":"ByteFallback"},{"type":"Fuse"})",
                 prefix ? R"(,{"type":"Strip","content":" ","start":1,"stop":0})" : "",
                 R"(]},"post_processor":)",
                 around({{first, find(first, added)}}, {{last, find(last, added)}}),
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
    Model model = sentencepiece::read(content);
    const Class &row = classOf(config, beside);
    return row.pipeline ? pipelineTokenizer(std::move(model), config, beside, row)
                        : Maker(std::move(model), config, row).run();
  } catch (const UserError &error) {
    throw UserError(name + ": " + error.what());
  }
}

} // namespace quern::runtime
