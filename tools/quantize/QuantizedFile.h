// A checkpoint's tensors in fewer bits, as one safetensors file.
#ifndef QUERN_TOOLS_QUANTIZE_QUANTIZEDFILE_H
#define QUERN_TOOLS_QUANTIZE_QUANTIZEDFILE_H

#include "tools/quantize/StoredForms.h"

#include <functional>

namespace quern::tools {

/// What became of a tensor.
struct QuantizedTensor {
  StoredForm form;
  uint64_t bytes = 0; ///< in the file, with scales
  double error = 0;   ///< root of the mean square of what was rounded away, relative to that of the numbers
};

/// Bytes of the file's tensors in these forms.
uint64_t fileBytes(const StoredForm &form);

/// Writes them in the order of `forms`, one at a time in memory; runtime/formats/GroupedCodes.h has the layout. The numbers are
/// those that a program makes when it reads the source itself. Throws UserError with the reason (a full disk).
std::vector<QuantizedTensor> writeQuantized(const std::string &path, const std::vector<StoredForm> &forms);

} // namespace quern::tools
#endif
