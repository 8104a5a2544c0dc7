// Where an operation comes from: lines of the user's spec and of the library's blocks.
#ifndef QUERN_IR_ANALYSIS_SOURCELINES_H
#define QUERN_IR_ANALYSIS_SOURCELINES_H

#include "mlir/IR/Location.h"

#include <string>

namespace quern::ir {

/// Which end of a chain of calls comes first: where the operation stands, or the outermost call.
enum class LineOrder { CalleeFirst, CallerFirst };

/// The lines that a location is made of: where the operation stands and the calls that led there.
llvm::SmallVector<mlir::FileLineColLoc> sourceLines(mlir::Location location, LineOrder order = LineOrder::CalleeFirst);

/// True for a line of the standard library.
bool isLibrary(mlir::FileLineColLoc line);

/// "models/a.quern:3:5", or without the folder "a.quern:3:5".
std::string textOf(mlir::FileLineColLoc line, bool folder = true);

/// The line to show first (the innermost of the user's), and the library's line after it if the operation stands
/// there; "?" and "" if the location knows no file.
std::pair<std::string, std::string> linesOf(mlir::Location location);

/// The outermost call without its folder, "a.quern:3:5"; empty if the location knows no file.
std::string callerOf(mlir::Location location);

} // namespace quern::ir
#endif
