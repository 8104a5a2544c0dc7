// How weights of matrix products that are not trained are stored: `--precision` and `--quantize`.
#ifndef QUERN_PASSES_WEIGHTS_WEIGHTFORMATS_H
#define QUERN_PASSES_WEIGHTS_WEIGHTFORMATS_H

#include "ir/analysis/Options.h"
#include "passes/Passes.h"

namespace quern::passes {

/// How a product is computed: what its weight is stored in, and what the rows that it multiplies become first: int8 codes
/// ("q4_k+a8", "w8a8"), bf16 ("q4_k+a16", "w16a16"), or nothing else.
struct ProductFormat {
  ir::Storage weight = ir::Storage::F32, rows = ir::Storage::F32;
  bool operator==(const ProductFormat &) const = default;
};

/// Whether `word` is the name of a format, the name of one, and all of these names for messages.
bool isFormat(llvm::StringRef word);
std::string nameOf(ProductFormat format);
constexpr const char *formatNames =
    "int8, int8_g128, int4, q4_k, q5_k, q6_k, q8_k, q4_1, q5_1, q4_z (each perhaps with +a8 or +a16), "
    "f8_e4m3, f8_e5m2 (perhaps with +a16), w8a8, w8a8_g128, w4a8, w8a16, w4a16, w16a16, bf16, "
    "f16 or f32";

/// `quantize` with rows in int8 wherever weights are in codes of integers ("q4_k+a8"); or in bf16 where they are in codes or
/// in bf16 ("q4_k+a16"). "w8a8", "w8a16" and the like are short for "int8+a8", "int8+a16".
std::string withRows(llvm::StringRef quantize, ir::Storage rows);

/// Whether the glob fits one of the names that a parameter may have in an iteration (an entry of its paths).
bool fitsOneName(const std::string &glob, mlir::Attribute iteration);

class WeightFormats {
public:
  /// `quantize`: "FORMAT[,GLOB=FORMAT]...", or empty for `precision` everywhere. Throws std::runtime_error.
  static WeightFormats parse(llvm::StringRef quantize, ir::Storage precision);
  static WeightFormats of(const ir::ProgramOptions &options) { return parse(options.quantize, options.precision); }

  /// The last glob that fits a parameter's name decides, then the default. A parameter of several names, or several that
  /// are joined, have the formats of most bits among theirs. `sensitive`: int4 by default is
  /// int8, q4_k and q5_k are q6_k.
  ProductFormat of(llvm::ArrayRef<ir::ParamOp> params, bool sensitive) const;
  /// Of a matrix of one iteration of a loop; of a vector always the same, as rules do not reach them.
  ProductFormat ofMatrix(ir::ParamOp param) const;
  /// Of a table that is looked up: what a glob other than "*" says, if one fits. Nothing in loops.
  std::optional<ProductFormat> named(ir::ParamOp table) const;
  /// Whether anything but f32 is asked for some weights.
  bool narrows() const;
  /// Whether what some weights multiply is rounded.
  bool roundsRows() const;
  /// For what cannot be stored in codes.
  ir::Storage plain() const { return precision; }

private:
  struct Rule {
    std::string glob;
    ProductFormat format;
  };
  ir::Storage precision = ir::Storage::F32;
  ProductFormat usual;
  std::vector<Rule> rules;
};

/// Weights in codes: of a parameter, by the names of an iteration, the format and the dimensions (positions in its type)
/// that groups are along.
struct CodedParameter {
  ir::Storage storage;
  llvm::SmallVector<unsigned> along;
};
using CodedParameters = llvm::DenseMap<mlir::Attribute, CodedParameter>;

/// Weights of products are stored as `formats` say; what reads them widens or dequantises them first. Returns which are in
/// codes. `rounded`: which rows that are routed to weights are rounded as others are.
CodedParameters storeWeights(mlir::func::FuncOp function, const WeightFormats &formats, RowsOfExperts rounded);
/// The same of a gradient, whose loss `coded` is of: products that sum over the weights' other dimension read the same codes.
void storeWeightsOfGradient(mlir::func::FuncOp gradient, const WeightFormats &formats, const CodedParameters &coded);

} // namespace quern::passes
#endif
