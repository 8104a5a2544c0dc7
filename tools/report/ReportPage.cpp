// Takes: a title and a body. Gives: a page.
#include "tools/report/ReportPage.h"

#include "support/Html.h"

using quern::support::htmlText;

namespace quern::tools {

static const char common[] = R"(
:root { --paper: #fbfaf8; --raised: #ffffff; --line: #e2ded7; --ink: #24221f; --dim: #77726a; --good: #2f7d32; --other: #8f897e;
  --bad: #b3391f; --before: #cfc8bb; color-scheme: light; }
@media (prefers-color-scheme: dark) { :root { --paper: #191a1d; --raised: #26282d; --line: #34373d; --ink: #e4e1da; --dim: #96928a;
  --good: #7cc47f; --other: #8a877f; --bad: #e8897c; --before: #565b63; color-scheme: dark; } }
body { margin: 0 auto; max-width: 1180px; padding: 26px 22px 40px; background: var(--paper); color: var(--ink);
  font: 14px/1.5 "Inter", "Segoe UI", "DejaVu Sans", Arial, sans-serif; }
h1 { font-size: 20px; margin: 0 0 2px; } h2 { font-size: 15px; margin: 28px 0 8px; }
p { margin: 4px 0; } .dim { color: var(--dim); } code { font: 12px/1.4 "DejaVu Sans Mono", Menlo, monospace; }
table { border-collapse: collapse; width: 100%; background: var(--raised); border: 1px solid var(--line); }
th { text-align: left; font-weight: 600; color: var(--dim); font-size: 12px; }
th, td { padding: 6px 10px; border-bottom: 1px solid var(--line); vertical-align: top; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; } .name { overflow-wrap: anywhere; }
svg { display: block; } .axis { stroke: var(--line); } .even { stroke: var(--dim); stroke-dasharray: 2 2; } svg text { fill: var(--dim); font-size: 11px; }
)";

std::string reportPage(const std::string &title, const std::string &command, const std::string &style,
                       const std::string &body) {
  return "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
         "content=\"width=device-width, initial-scale=1\">\n<title>" +
         htmlText(title) + " · " + htmlText(command) + "</title>\n<style>" + common + style +
         "</style>\n</head>\n<body>\n" + body + "</body>\n</html>\n";
}

} // namespace quern::tools
