// What pages of measurements have in common: one HTML file without scripts, light or dark as the reader's system is.
#ifndef QUERN_TOOLS_REPORT_REPORTPAGE_H
#define QUERN_TOOLS_REPORT_REPORTPAGE_H

#include <string>

namespace quern::tools {

/// The whole file. `title` is text, `command` what made the page; `style` rules of its own, which find these colours as
/// --paper, --raised, --line, --ink, --dim, --good, --bad, --other and --before. `body` is HTML.
std::string reportPage(const std::string &title, const std::string &command, const std::string &style,
                       const std::string &body);

} // namespace quern::tools
#endif
