// JSON as text that is put together: the code of a tree would be larger than the parts of the runtime that use this.
#ifndef QUERN_RUNTIME_TOKENIZER_TEXT_JSONTEXT_H
#define QUERN_RUNTIME_TOKENIZER_TEXT_JSONTEXT_H

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quern::runtime::jsontext {

using Parts = std::initializer_list<std::string_view>;

void put(std::string &to, Parts parts);
std::string join(Parts parts);
/// Another element of a list.
void append(std::string &list, Parts parts);
/// With quotes; the text is valid UTF-8.
std::string literal(std::string_view text);
const char *literal(bool value);
/// A list of numbers, with its brackets.
std::string literal(const std::vector<int> &numbers);
/// The shortest text that reads as the same number.
std::string literal(double number);
/// Tokens by text and number.
using Tokens = std::vector<std::pair<std::string, int64_t>>;
/// A post-processor that puts these tokens around a text; empty texts are none.
std::string around(const Tokens &first, const Tokens &last);
/// An added token that is found in a text as it is given; `more`: other fields, each with a comma before it.
std::string addedToken(int64_t id, std::string_view text, bool special, std::string_view more = {});

} // namespace quern::runtime::jsontext
#endif
