// The files that tokenizers are published in, apart from tokenizer.json: SentencePiece's .model, tiktoken's ranks. Each
// becomes the text of a tokenizer.json, which the one reader of those reads.
#ifndef QUERN_RUNTIME_TOKENIZER_FILES_VOCABULARYFILES_H
#define QUERN_RUNTIME_TOKENIZER_FILES_VOCABULARYFILES_H

#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace quern::runtime {

/// The content of the file of that name beside the vocabulary; nothing where there is none.
using ReadBeside = std::function<std::optional<std::string>(const std::string &name)>;

/// What becomes of the files of a model, and which of them it was.
struct TokenizerText {
  std::string json, file;
};

/// The tokenizer of a folder: tokenizer.json, or else the first of support/CheckpointFiles.h's vocabularies; nothing
/// where there is none of them.
std::optional<TokenizerText> findTokenizer(const ReadBeside &beside);

/// The same of what the user names: a folder, or a file in one. Its name in `file` is the whole path. Throws UserError
/// where nothing is there.
TokenizerText tokenizerAt(const std::string &path);

/// The same of a file's content: `name` is for messages, and for tiktoken says which pattern it is. tokenizer_config.json
/// and config.json beside it say what the file leaves open. Throws UserError where they do not.
std::string tokenizerOfFile(std::string_view content, const std::string &name, const ReadBeside &beside);

/// A ModelProto of SentencePiece (sentencepiece_model.proto): Unigram or BPE.
std::string tokenizerOfSentencePiece(std::string_view content, const std::string &name, const ReadBeside &beside);
/// Lines of a token's bytes in base64 and its rank.
std::string tokenizerOfRanks(std::string_view content, const std::string &name, const ReadBeside &beside);

/// The content of a JSON file beside it; an empty object where there is none.
nlohmann::json jsonBeside(const ReadBeside &beside, const std::string &name);
/// The text of a token as configs have it: "x" or {"content": "x"}; empty for null.
std::string tokenText(const nlohmann::json &token);
/// Added tokens by number, each as JSON text.
using AddedTexts = std::map<int, std::pair<std::string, std::string>>; // text of the token, JSON
/// Those that `added_tokens_decoder` of tokenizer_config.json has, in place of others with the same number.
void addConfiguredTokens(AddedTexts &list, const nlohmann::json &config);
/// The number of a token among them, or -1.
int findAdded(const AddedTexts &list, const std::string &text);
/// The list of all.
std::string joinAdded(const AddedTexts &list);

} // namespace quern::runtime
#endif
