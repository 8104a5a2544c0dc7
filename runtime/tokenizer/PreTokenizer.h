// How normalized text is cut into words that the model then looks at one by one: the `pre_tokenizer` of tokenizer.json.
#ifndef QUERN_RUNTIME_TOKENIZER_PRETOKENIZER_H
#define QUERN_RUNTIME_TOKENIZER_PRETOKENIZER_H

#include <nlohmann/json_fwd.hpp>

#include <memory>
#include <string_view>
#include <vector>

namespace quern::runtime {

struct Piece {
  std::string_view text;
  bool atStart; // begins where the whole text begins
};

/// What takes pieces one by one: any function of a Piece, which must outlive this.
class PieceSink {
public:
  template <typename Function>
  PieceSink(const Function &function) // NOLINT: converts like a reference
      : object(&function),
        call([](const void *object, const Piece &piece) { (*static_cast<const Function *>(object))(piece); }) {}
  void operator()(const Piece &piece) const { call(object, piece); }

private:
  const void *object;
  void (*call)(const void *, const Piece &);
};

class PreTokenizer {
public:
  virtual ~PreTokenizer() = default;
  /// Gives the pieces of a piece to `sink`, in order; their text lives until that returns.
  virtual void apply(const Piece &piece, PieceSink sink) const = 0;
  /// Leaves out a last step that turns bytes into the characters that stand for them; whether there was one. For models
  /// that take bytes themselves.
  virtual bool dropByteCharacters() { return false; }
  /// Whether it is such a step itself.
  virtual bool isByteCharacters() const { return false; }
  /// Of a sequence its parts; nullptr: it is none.
  virtual std::vector<std::unique_ptr<PreTokenizer>> *sequence() { return nullptr; }
  /// null gives none (nullptr). Throws UserError for a type that is not known.
  static std::unique_ptr<PreTokenizer> fromJson(const nlohmann::json &json);
};

} // namespace quern::runtime
#endif
