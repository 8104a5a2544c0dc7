// What a quantised checkpoint stores of each tensor, as a program with these formats would lay it out.
#ifndef QUERN_TOOLS_QUANTIZE_STOREDFORMS_H
#define QUERN_TOOLS_QUANTIZE_STOREDFORMS_H

#include "runtime/abi/Description.h"
#include "runtime/weights/TensorSource.h"

namespace quern::tools {

/// One tensor of the checkpoint that the model uses.
struct StoredForm {
  std::string name;
  const runtime::StoredTensor *source = nullptr;
  /// Codes: in groups along `axis`; BF16 and F16: rounded; F32: as the checkpoint has it.
  support::Storage storage = support::Storage::F32;
  size_t axis = 0;
  std::vector<runtime::PackedLayout> layouts = {}; ///< of codes: matrices that together are the tensor
  const std::vector<float> *importance = nullptr;  ///< of each position along `axis`; null: all count alike
  int group = -1;                                  ///< tensors of products that share a format have the same number
};

/// In the order of the program's parameters, each tensor once. A tensor is stored in fewer bits where everything that reads
/// it does: the table of a tied head is looked up as well, and stays. Throws UserError where the checkpoint does
/// not fit the model.
std::vector<StoredForm> storedForms(const runtime::Description &description, const runtime::TensorSource &source);

} // namespace quern::tools
#endif
