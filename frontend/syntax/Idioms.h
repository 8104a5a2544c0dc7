// What people write who come from Python or C, and how this language says it.
#ifndef QUERN_FRONTEND_SYNTAX_IDIOMS_H
#define QUERN_FRONTEND_SYNTAX_IDIOMS_H

#include <string>
#include <string_view>

namespace quern::frontend {

/// For a character that begins no token, '&' for example: "; it is 'and' here". "" where nothing is known.
std::string idiomForCharacter(char character);

/// For a statement that begins with the name `first` and goes on with `next` where '=' is missing.
std::string idiomForStatement(std::string_view first, std::string_view next);

/// For `found` behind `before` where a value is missing.
std::string idiomForValue(std::string_view before, std::string_view found);

} // namespace quern::frontend
#endif
