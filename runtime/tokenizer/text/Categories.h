// General categories of characters, as the pattern engine of `tokenizers` has them: Unicode 16.
#ifndef QUERN_RUNTIME_TOKENIZER_TEXT_CATEGORIES_H
#define QUERN_RUNTIME_TOKENIZER_TEXT_CATEGORIES_H

#include <string>
#include <string_view>

namespace quern::runtime {

/// In the order of utf8proc_category_t.
enum Category : unsigned char {
  Cn,
  Lu,
  Ll,
  Lt,
  Lm,
  Lo,
  Mn,
  Mc,
  Me,
  Nd,
  Nl,
  No,
  Pc,
  Pd,
  Ps,
  Pe,
  Pi,
  Pf,
  Po,
  Sm,
  Sc,
  Sk,
  So,
  Zs,
  Zl,
  Zp,
  Cc,
  Cf,
  Cs,
  Co
};

Category categoryOf(char32_t c);
inline bool isLetter(Category category) {
  return category >= Lu && category <= Lo;
}
inline bool isMark(Category category) {
  return category >= Mn && category <= Me;
}
inline bool isNumeric(Category category) {
  return category >= Nd && category <= No;
}

/// Characters that have this category ("L", "Lu") and that PCRE2, which knows Unicode 14, does not count: ranges as they
/// stand in a class of its patterns; empty for what is no category.
std::string youngerMembers(std::string_view category);

} // namespace quern::runtime
#endif
