// Takes: locations such as callsite(line of a block at line of the spec). Gives: lines of files, as text.
// Why once: refusals, remarks, descriptions of programs and tools all show the same lines.
#include "ir/analysis/SourceLines.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace quern::ir;

static void collect(Location location, LineOrder order, SmallVectorImpl<FileLineColLoc> &out) {
  llvm::TypeSwitch<Location>(location)
      .Case([&](FileLineColLoc line) { out.push_back(line); })
      .Case([&](NameLoc named) { collect(named.getChildLoc(), order, out); })
      .Case([&](CallSiteLoc call) {
        bool callee = order == LineOrder::CalleeFirst;
        collect(callee ? call.getCallee() : call.getCaller(), order, out);
        collect(callee ? call.getCaller() : call.getCallee(), order, out);
      })
      .Case([&](FusedLoc fused) {
        for (Location part : fused.getLocations())
          collect(part, order, out);
      });
}

SmallVector<FileLineColLoc> quern::ir::sourceLines(Location location, LineOrder order) {
  SmallVector<FileLineColLoc> lines;
  collect(location, order, lines);
  return lines;
}

bool quern::ir::isLibrary(FileLineColLoc line) {
  return line.getFilename().getValue().ends_with("std.quern");
}

std::string quern::ir::textOf(FileLineColLoc line, bool folder) {
  StringRef file = line.getFilename().getValue();
  return ((folder ? file : llvm::sys::path::filename(file)) + ":" + Twine(line.getLine()) + ":" +
          Twine(line.getColumn()))
      .str();
}

std::pair<std::string, std::string> quern::ir::linesOf(Location location) {
  SmallVector<FileLineColLoc> lines = sourceLines(location);
  if (lines.empty())
    return {"?", ""};
  auto user = llvm::find_if_not(lines, isLibrary);
  if (user == lines.end() || user == lines.begin())
    return {textOf(lines.front()), ""};
  return {textOf(*user), textOf(lines.front())};
}

std::string quern::ir::callerOf(Location location) {
  SmallVector<FileLineColLoc> lines = sourceLines(location, LineOrder::CallerFirst);
  return lines.empty() ? "" : textOf(lines.front(), /*folder=*/false);
}
