// Where a kernel's plan stands.
#ifndef QUERN_IR_PLANNAME_H
#define QUERN_IR_PLANNAME_H

#include "llvm/ADT/StringRef.h"

namespace quern::ir {

/// Of a quern.kernel, from phase `scheduled` on: who makes it, and with which numbers, as text:
/// `halide: contract(columns = 64, rows = 6), map(work = 32768)`. The operation's verifier asks for text; what it may say is
/// its producer's business (codegen/schedule/Space.cpp), checked where a plan is made and where it is used.
inline constexpr llvm::StringLiteral planAttr = "quern.plan";

} // namespace quern::ir
#endif
