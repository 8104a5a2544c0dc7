#include "frontend/syntax/Idioms.h"

namespace quern::frontend {

std::string idiomForCharacter(char character) {
  switch (character) {
  case '&':
    return "; 'and' is a word here";
  case '!':
    return "; 'not' is a word here";
  case '?':
    return "; a choice is: A if CONDITION else B";
  case ';':
    return "; a statement ends with its line";
  default:
    return "";
  }
}

std::string idiomForStatement(std::string_view first, std::string_view next) {
  if (first == "for" || first == "while")
    return "; layers are repeated by: repeat i in COUNT { ... }";
  if (first == "def")
    return "; a function begins with its name: forward(tokens: int[B, T]) -> [B, T, V] { ... }";
  for (std::string_view word : {"let", "var", "val", "const", "auto"})
    if (first == word)
      return "; leave '" + std::string(word) + "' out";
  for (std::string_view op : {"+", "-", "*", "/"})
    if (next == op)
      return "; write " + std::string(first) + " = " + std::string(first) + " " + std::string(op) + " ...";
  return "";
}

std::string idiomForValue(std::string_view before, std::string_view found) {
  if (found == "*" && before == "*")
    return "; a power is x ^ 2";
  if (found == ":" && (before == "[" || before == ","))
    return "; positions are gathered by the dimension's name: x[T = 0]";
  return "";
}

} // namespace quern::frontend
