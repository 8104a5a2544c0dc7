// What is said to the author of a spec: codes Q001 to Q045 (docs/language.md, section 13), places, notes.
#ifndef QUERN_FRONTEND_SYNTAX_DIAGNOSTICS_H
#define QUERN_FRONTEND_SYNTAX_DIAGNOSTICS_H

#include "frontend/syntax/Source.h"
#include "support/Nearest.h"

#include <iosfwd>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace quern::frontend {

struct Note {
  std::string message;
  Span at; // may be empty
};

enum class Severity { Error, Warning };

struct Diagnostic {
  std::string code, message;
  Span at; // may be empty: the command line, say
  std::vector<Note> notes;
  Severity severity = Severity::Error;
};

/// Collects what one run has to say. The same words about the same place are kept once: loops and calls pass a place
/// more than once.
class Diagnostics {
public:
  void report(Diagnostic diagnostic);
  void error(std::string code, std::string message, Span at, std::vector<Note> notes = {});
  void warning(std::string code, std::string message, Span at, std::vector<Note> notes = {});

  bool hasErrors() const { return errors; }
  size_t errorCount() const { return errors; }
  size_t warningCount() const { return all.size() - errors; }
  const std::vector<Diagnostic> &list() const { return all; }

  /// In the order of the text, what concerns other files last, as parsing and checking report mistakes alternately.
  void sortByPlace(const Source *first);

  /// Spans point into sources; whoever keeps the diagnostics keeps these.
  void keep(std::shared_ptr<const Source> source) { sources.push_back(std::move(source)); }

  /// `file:line:column: error Q020: message`, the line with its place underlined, the notes likewise.
  void print(std::ostream &out, bool colour = false) const;
  /// An array of objects: severity, code, message, file, line, column, end_line, end_column, notes.
  std::string toJson() const;

private:
  std::vector<Diagnostic> all;
  std::set<std::string> seen;
  std::vector<std::shared_ptr<const Source>> sources;
  size_t errors = 0;
};

using support::didYouMean;
using support::nearest;

} // namespace quern::frontend
#endif
