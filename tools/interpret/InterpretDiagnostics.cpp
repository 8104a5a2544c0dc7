// Takes: diagnostics of MLIR at locations such as callsite(library at spec). Gives: text with the user's line first.
#include "tools/interpret/InterpretDiagnostics.h"

#include "ir/analysis/SourceLines.h"
#include "support/Error.h"

#include "llvm/Support/LineIterator.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace quern::ir;

/// The line of the file with a caret under the column, or nothing where the file cannot be read.
static std::string excerpt(FileLineColLoc place) {
  auto file = llvm::MemoryBuffer::getFile(place.getFilename().getValue());
  if (!file)
    return "";
  for (llvm::line_iterator line(**file, /*SkipBlanks=*/false); !line.is_at_end(); ++line)
    if (line.line_number() == place.getLine()) {
      std::string blank;
      for (char c : line->take_front(place.getColumn() ? place.getColumn() - 1 : 0))
        blank += c == '\t' ? '\t' : ' '; // so that the caret stands right whatever a tab is
      return "    " + line->str() + "\n    " + blank + "^\n";
    }
  return "";
}

std::string quern::tools::describeAt(Location location, StringRef kind, StringRef message) {
  std::string text;
  llvm::raw_string_ostream out(text);
  SmallVector<FileLineColLoc> chain = sourceLines(location);
  auto user = llvm::find_if_not(chain, isLibrary);
  if (user == chain.end())
    user = chain.begin();
  if (user != chain.end())
    out << textOf(*user) << ": ";
  out << kind << ": " << message << "\n";
  if (user != chain.end())
    out << excerpt(*user);
  if (user != chain.begin())
    out << "  " << textOf(chain.front()) << ": note: inside the library's block\n";
  return text;
}

std::string quern::tools::describeDiagnostic(Diagnostic &diagnostic) {
  std::string message = diagnostic.str();
  std::string kind = diagnostic.getSeverity() == DiagnosticSeverity::Warning ? "warning" : "error";
  if (message.size() > 6 && message[0] == 'Q' && message.compare(4, 2, ": ") == 0) {
    kind += " " + message.substr(0, 4);
    message = message.substr(6);
  }
  std::string text = describeAt(diagnostic.getLocation(), kind, message);
  llvm::raw_string_ostream out(text);
  for (Diagnostic &note : diagnostic.getNotes())
    out << "  note: " << note.str() << "\n";
  return text;
}

quern::tools::SpecDiagnostics::SpecDiagnostics(MLIRContext *context) : ScopedDiagnosticHandler(context) {
  context->printOpOnDiagnostic(false); // the line of the spec says more
  setHandler([](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Remark)
      return;
    llvm::errs() << quern::support::printableLines(describeDiagnostic(diagnostic));
  });
}
