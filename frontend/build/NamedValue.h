// What the spec's statements name.
#ifndef QUERN_FRONTEND_BUILD_NAMEDVALUE_H
#define QUERN_FRONTEND_BUILD_NAMEDVALUE_H

#include "mlir/IR/Location.h"
#include "mlir/IR/Value.h"

#include <string>

namespace quern::frontend {

/// A value that a statement of the spec, or of a block that it calls, gives a name.
struct NamedValue {
  std::string name;
  mlir::Value value;
  mlir::Location where;
};

} // namespace quern::frontend
#endif
