// Diagnostics of MLIR as a user of specs should see them.
#ifndef QUERN_TOOLS_INTERPRET_INTERPRETDIAGNOSTICS_H
#define QUERN_TOOLS_INTERPRET_INTERPRETDIAGNOSTICS_H

#include "mlir/IR/Diagnostics.h"

namespace quern::tools {

/// While it lives, errors of the context are printed on stderr as `quern check` prints its own: the user's line first,
/// with the place underlined, then the library's as a note; a message that begins with a code ("Q028: ...") has it
/// moved behind the word error.
class SpecDiagnostics : public mlir::ScopedDiagnosticHandler {
public:
  explicit SpecDiagnostics(mlir::MLIRContext *context);
};

/// "PLACE: kind: message" with the user's line underlined; where the library stands between, its place as a note.
std::string describeAt(mlir::Location location, llvm::StringRef kind, llvm::StringRef message);

/// The text for one diagnostic.
std::string describeDiagnostic(mlir::Diagnostic &diagnostic);

} // namespace quern::tools
#endif
