// How the weights of matrix products are stored in a program that is not trained: `--precision` and `--quantize`.
#ifndef QUERN_PASSES_WEIGHTS_WEIGHTFORMATS_H
#define QUERN_PASSES_WEIGHTS_WEIGHTFORMATS_H

#include "ir/Dialect.h"

namespace quern::passes {

/// In ascending order of bits.
enum class WeightFormat { Int4, Int8, BF16, F32 };

/// What the rows that a weight multiplies become first, in ascending order of bits: int8 codes ("w8a8", "w4a8"), bf16
/// ("w16a16"), or nothing else.
enum class RowFormat { Int8, BF16, Real };

/// How a product is computed: what its weight is stored in, and what becomes of the rows.
struct ProductFormat {
  WeightFormat weight = WeightFormat::F32;
  RowFormat rows = RowFormat::Real;
};

class WeightFormats {
public:
  /// `quantize`: "FORMAT[,GLOB=FORMAT]...", or empty for `precision` everywhere. Throws std::runtime_error.
  static WeightFormats parse(llvm::StringRef quantize, llvm::StringRef precision);
  /// What a module asks for.
  static WeightFormats of(mlir::ModuleOp module);

  /// The last glob that fits a parameter's name decides, then the default. A parameter of several names, or several that
  /// are joined, have the formats of most bits among theirs. `sensitive`: int4 by default is
  /// int8.
  ProductFormat of(llvm::ArrayRef<ir::ParamOp> params, bool sensitive) const;
  /// For what cannot be stored in codes.
  WeightFormat plain() const { return precision; }

private:
  struct Rule {
    std::string glob;
    ProductFormat format;
  };
  WeightFormat precision = WeightFormat::F32;
  ProductFormat usual;
  std::vector<Rule> rules;
};

/// Weights of products are stored as `formats` say; what reads them widens or dequantises them first.
void storeWeights(mlir::func::FuncOp function, const WeightFormats &formats);

} // namespace quern::passes
#endif
