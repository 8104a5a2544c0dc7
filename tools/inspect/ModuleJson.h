// A module's operations as JSON, for the page.
#ifndef QUERN_TOOLS_INSPECT_MODULEJSON_H
#define QUERN_TOOLS_INSPECT_MODULEJSON_H

#include "tools/inspect/Stages.h"

namespace quern::tools {

/// Places in specs, each once; all stages of a page share one.
class Places {
public:
  /// The number of a location.
  int add(mlir::Location location);
  /// A list of places, each a list of origins (a fused location has several): {"names": [...], "frames": [[file, line,
  /// column], ...]}, the user's own line first and the library's after it.
  nlohmann::json table = nlohmann::json::array();
  std::vector<std::string> files;

private:
  void origins(mlir::Location location, nlohmann::json names, nlohmann::json frames, nlohmann::json &out);
  int file(llvm::StringRef name);
  llvm::DenseMap<mlir::Attribute, int> known;
};

/// The numbers that moduleJson gives to operations.
llvm::DenseMap<mlir::Operation *, int> numberOperations(mlir::ModuleOp module);

/// {"text", "ops"}. An operation: "n" name without the dialect, "l" line of the text from 1, "p" parent (-1: none), "a"
/// operands (numbers of operations; "7.1": argument 1 of operation 7's body), "r" types of results, "o" place; where it
/// has them "s" symbol, "b" types of its body's arguments, "v" what else is worth a label, "k" kernel, "w" by its weights and "y" its
/// lengths, "t" iterations, "f" FLOPs and "m" bytes.
nlohmann::json moduleJson(mlir::ModuleOp module, const Printed &printed, Places &places);

} // namespace quern::tools
#endif
