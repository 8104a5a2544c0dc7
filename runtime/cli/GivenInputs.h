// Inputs that a file gives: features, pixels, masks, and tokens as numbers.
#ifndef QUERN_RUNTIME_CLI_GIVENINPUTS_H
#define QUERN_RUNTIME_CLI_GIVENINPUTS_H

#include "runtime/engine/Session.h"

#include <functional>
#include <string>

namespace quern::runtime {

/// The tensors of a safetensors file by the names of inputs. Hugging Face's spelling of a name serves, too
/// (`pixel_values` is `pixels`), where `isInput` knows the one and not the other. Throws UserError.
std::map<std::string, StoredTensor> readInputs(const std::string &path,
                                               const std::function<bool(const std::string &)> &isInput);

/// A stored tensor as the kind that a function's input has. Throws UserError where it cannot be.
Value convertInput(const StoredTensor &tensor, const TensorInfo &wanted);

/// What a file gives texts beside their tokens: the first dimension of each tensor counts rows, and a text has one.
class GivenInputs {
public:
  GivenInputs() = default;
  /// Of the functions that write text: what their inputs are called, without the text itself. Throws UserError for
  /// names that are none of them and for numbers of rows that differ.
  GivenInputs(const std::string &path, const Description &description, const std::vector<int> &functions,
              const std::string &text);

  bool has(const std::string &name) const { return values.count(name); }
  int64_t rows() const { return count; }
  /// Row `row` of each, with a first dimension of 1.
  Values row(int64_t row) const;

private:
  Values values;
  int64_t count = 0;
};

} // namespace quern::runtime
#endif
