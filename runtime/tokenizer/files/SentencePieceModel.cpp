// Takes: a .model file of SentencePiece. Gives: its pieces and how it treats a text.
//
// The file is a protobuf message, of which a dozen fields matter. Why not the library, nor protobuf: both come with
// several megabytes, and each program carries its runtime; these are 60 lines that read and bound what a stranger sends.
#include "runtime/tokenizer/files/SentencePieceModel.h"
#include "runtime/Error.h"
#include "support/Utf8.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace quern::runtime::sentencepiece {

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

} // namespace

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

} // namespace quern::runtime::sentencepiece
