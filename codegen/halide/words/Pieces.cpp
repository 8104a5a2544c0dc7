// Takes: numbers of f32. Gives: their pieces in bf16. Why cut off and not rounded: each piece then has the next 8 bits, so
// three are the number exactly, and the largest is never beyond what bf16 has.
#include "codegen/halide/words/Pieces.h"

using namespace Halide;
using Halide::Internal::UIntImm;

namespace quern::codegen {

Expr asBF16(const Expr &number) {
  return reinterpret(BFloat(16), cast<uint16_t>(reinterpret<uint32_t>(number) >> cast<uint32_t>(16)));
}

Expr pieceOf(const Expr &number, const Expr &piece) {
  auto upper = [](const Expr &value) {
    return reinterpret<float>(reinterpret<uint32_t>(value) & UIntImm::make(UInt(32), 0xffff0000u));
  };
  const Expr first = upper(number), rest = strict_float(number - first), second = upper(rest);
  const Expr chosen = select(piece == 0, first, piece == 1, second, strict_float(rest - second));
  return cast<uint16_t>(reinterpret<uint32_t>(chosen) >> cast<uint32_t>(16));
}

Expr wordOf(const Expr &first, const Expr &second, const Expr &piece) {
  return cast<uint32_t>(pieceOf(first, piece)) | cast<uint32_t>(pieceOf(second, piece)) << cast<uint32_t>(16);
}

static Expr chosen(const std::vector<TileTerm> &terms, int TileTerm::*which, const Expr &term) {
  Expr value = terms.back().*which;
  for (size_t i = terms.size() - 1; i-- > 0;)
    value = select(term == static_cast<int32_t>(i), terms[i].*which, value);
  return value;
}

Expr rowPiece(const std::vector<TileTerm> &terms, const Expr &term) {
  return chosen(terms, &TileTerm::row, term);
}

Expr columnPiece(const std::vector<TileTerm> &terms, const Expr &term) {
  return chosen(terms, &TileTerm::column, term);
}

} // namespace quern::codegen
