// Text within pages.
#ifndef QUERN_SUPPORT_HTML_H
#define QUERN_SUPPORT_HTML_H

#include <string>
#include <string_view>

namespace quern::support {

/// `text` as it stands in an element or in an attribute's quotes.
std::string htmlText(std::string_view text);

} // namespace quern::support
#endif
