// What a .model file of SentencePiece holds, and what the class of its tokenizer adds.
#ifndef QUERN_RUNTIME_TOKENIZER_FILES_SENTENCEPIECEMODEL_H
#define QUERN_RUNTIME_TOKENIZER_FILES_SENTENCEPIECEMODEL_H

#include "runtime/tokenizer/files/VocabularyFiles.h"
#include "runtime/tokenizer/model/Model.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quern::runtime::sentencepiece {

struct Piece {
  std::string text;
  float score = 0;
  int kind = NormalPiece;
};

struct Model {
  std::vector<Piece> pieces;
  uint64_t type = 1; // 1: Unigram, 2: BPE
  bool byteFallback = false, suffix = false, prefix = true, squeeze = true, escape = true;
  std::string_view map;
};

/// Throws UserError for what is no model, or a damaged one.
Model read(std::string_view content);

/// A token and the field of tokenizer_config.json that may give it another text.
using Role = std::pair<const char *, const char *>;

/// A class whose texts are not prepared as SentencePiece does: the parts of the pipeline that transformers builds.
struct Pipeline {
  std::vector<Role> roles;             // its special tokens; missing ones are added behind the vocabulary
  std::vector<const char *> head = {}; // roles that take the place of the file's first pieces
  const char *normalizers = "";        // their names, in the order in which they apply
  bool splitsAtSpace = false;          // the model sees words without the spaces between them
  bool lowers = false;                 // unless do_lower_case says otherwise
  bool keepAccentsCounts = false;      // keep_accents counts
  bool stripsBeforeMask = false;       // spaces in front of the mask belong to it
  int offset = 0;                      // unless offset says otherwise: tokens <unk_2> .. <unk_OFFSET-1>
  std::string languages = "";          // codes behind the pieces, and the mask behind them
};

/// How a class of tokenizers numbers its tokens and what it puts around a text.
struct Class {
  const char *names, *models;              // of tokenizer_config.json; model_type of config.json
  const char *first = "", *last = "";      // tokens around a text; "bos", "eos": as the config has them
  std::vector<const char *> inserted = {}; // tokens that take the place of the file's first `replaced`
  size_t replaced = 0;
  const char *appended = "";
  bool extraIds = false;
  const Pipeline *pipeline = nullptr; // then `first` and `last` are lists of its roles
};

const Class &classOf(const nlohmann::json &config, const ReadBeside &beside);

/// The tokenizer.json of a class with a pipeline.
std::string pipelineTokenizer(Model model, const nlohmann::json &config, const ReadBeside &beside, const Class &row);

/// What stands between spaces.
std::vector<std::string> words(const std::string &list);

} // namespace quern::runtime::sentencepiece
#endif
