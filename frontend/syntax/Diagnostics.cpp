// Takes: diagnostics with spans. Gives: text with underlined source lines, or JSON.
// Why collected: all mistakes of a file are reported in one run, and tools print them their own way.
#include "frontend/syntax/Diagnostics.h"
#include "support/Error.h"
#include "support/Utf8.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

namespace quern::frontend {

// A stranger's file must not fill the terminal (or the memory) with one mistake in every line.
static constexpr size_t maxDiagnostics = 200;

void Diagnostics::report(Diagnostic diagnostic) {
  std::string key = diagnostic.code + "\n" + diagnostic.message;
  if (diagnostic.at)
    key += "\n" + diagnostic.at.source->getName() + ":" + std::to_string(diagnostic.at.begin);
  if (all.size() >= maxDiagnostics || !seen.insert(key).second)
    return;
  errors += diagnostic.severity == Severity::Error;
  all.push_back(std::move(diagnostic));
}

void Diagnostics::error(std::string code, std::string message, Span at, std::vector<Note> notes) {
  report({std::move(code), std::move(message), at, std::move(notes), Severity::Error});
}

void Diagnostics::warning(std::string code, std::string message, Span at, std::vector<Note> notes) {
  report({std::move(code), std::move(message), at, std::move(notes), Severity::Warning});
}

void Diagnostics::sortByPlace(const Source *first) {
  auto key = [&](const Diagnostic &diagnostic) {
    bool own = diagnostic.at && diagnostic.at.source == first;
    return std::pair(!diagnostic.at ? 0 : own ? 1 : 2, own ? diagnostic.at.begin : 0);
  };
  std::stable_sort(all.begin(), all.end(), [&](const Diagnostic &a, const Diagnostic &b) { return key(a) < key(b); });
}

namespace {
struct Palette {
  const char *bold = "", *red = "", *yellow = "", *cyan = "", *off = "";
};
} // namespace

/// The line of `at`, clipped around it where it is long, and carets below.
static void excerpt(std::ostream &out, Span at, const Palette &palette, const char *colour) {
  constexpr uint32_t before = 90, width = 160;
  auto [begin, end] = at.source->lineAround(at.begin);
  uint32_t first = at.begin - begin > before ? at.begin - before : begin;
  uint32_t last = std::min(end, first + width);
  std::string_view text = at.source->getText();
  auto inside = [&](uint32_t i) { return i < text.size() && support::isUtf8Tail(text[i]); };
  while (first < at.begin && inside(first))
    ++first;
  while (last < end && inside(last))
    ++last;
  std::string line(text.substr(first, last - first));
  for (char &c : line)
    if (static_cast<unsigned char>(c) < 32 && c != '\t')
      c = ' ';
  std::string pad;
  for (char c : std::string_view(line).substr(0, std::min<size_t>(at.begin - first, line.size())))
    if (c == '\t')
      pad += '\t';
    else if (!support::isUtf8Tail(c))
      pad += ' ';
  uint32_t stop = std::clamp(at.end, at.begin, std::max(last, at.begin));
  size_t carets =
      std::max<size_t>(1, support::utf8Count(text.substr(std::min<size_t>(at.begin, text.size()), stop - at.begin)));
  const char *cut = last < end ? " ..." : "";
  out << "    " << (first > begin ? "... " : "") << line << cut << "\n    " << (first > begin ? "    " : "") << pad
      << colour << std::string(carets, '^') << palette.off << "\n";
}

void Diagnostics::print(std::ostream &out, bool colour) const {
  Palette palette;
  if (colour)
    palette = {"\033[1m", "\033[1;31m", "\033[1;33m", "\033[36m", "\033[0m"};
  for (const Diagnostic &diagnostic : all) {
    bool error = diagnostic.severity == Severity::Error;
    const char *shade = error ? palette.red : palette.yellow;
    if (diagnostic.at)
      out << palette.bold << diagnostic.at.str() << ": " << palette.off;
    out << shade << (error ? "error " : "warning ") << diagnostic.code << ":" << palette.off << " " << palette.bold
        << support::printableLines(diagnostic.message) << palette.off << "\n";
    if (diagnostic.at)
      excerpt(out, diagnostic.at, palette, shade);
    for (const Note &note : diagnostic.notes) {
      out << "  ";
      if (note.at)
        out << note.at.str() << ": ";
      out << palette.cyan << "note:" << palette.off << " " << support::printableLines(note.message) << "\n";
      if (note.at)
        excerpt(out, note.at, palette, palette.cyan);
    }
  }
  if (all.size() >= maxDiagnostics)
    out << "(no more than " << maxDiagnostics << " are shown)\n";
}

static void addPlace(nlohmann::ordered_json &object, Span at) {
  if (!at)
    return;
  Source::Place begin = at.source->place(at.begin), end = at.source->place(at.end);
  object["file"] = at.source->getName();
  object["line"] = begin.line;
  object["column"] = begin.column;
  object["end_line"] = end.line;
  object["end_column"] = end.column;
}

std::string Diagnostics::toJson() const {
  auto array = nlohmann::ordered_json::array();
  for (const Diagnostic &diagnostic : all) {
    nlohmann::ordered_json object;
    object["severity"] = diagnostic.severity == Severity::Error ? "error" : "warning";
    object["code"] = diagnostic.code;
    object["message"] = diagnostic.message;
    addPlace(object, diagnostic.at);
    object["notes"] = nlohmann::ordered_json::array();
    for (const Note &note : diagnostic.notes) {
      nlohmann::ordered_json entry;
      entry["message"] = note.message;
      addPlace(entry, note.at);
      object["notes"].push_back(std::move(entry));
    }
    array.push_back(std::move(object));
  }
  return array.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

} // namespace quern::frontend
