// Codes in groups of 32, of 8 bits perhaps of 128, with a scale each, as `quern quantize` stores them in safetensors (docs/formats.md).
//
// A tensor NAME of shape [.., n, ..], whose groups are along the dimension of length n, is
// - NAME: of 8 bits I8 in that shape; of 4 bits U8 with ceil(n / 2) in the place of n, the element of even number in the
//   lower half of a byte, 8 more than the code;
// - NAME.scales: F16, ceil(n / 32) or ceil(n / 128) in the place of n; value = scale * code;
// - NAME.shape: I64, the shape, where codes have 4 bits.
// Which dimension it is, and how long groups are, follows from the shapes.
#ifndef QUERN_RUNTIME_FORMATS_GROUPEDCODES_H
#define QUERN_RUNTIME_FORMATS_GROUPEDCODES_H

#include "runtime/files/Safetensors.h"
#include "support/Storage.h"

namespace quern::runtime {

/// The shapes of what is stored for a tensor of `shape` with groups along `axis`.
std::vector<int64_t> shapeOfCodes(std::vector<int64_t> shape, size_t axis, support::Storage storage);
std::vector<int64_t> shapeOfScales(std::vector<int64_t> shape, size_t axis, support::Storage storage);

/// Whether `name` is that of scales beside codes.
bool isScalesOfGroups(const std::map<std::string, StoredTensor> &tensors, const std::string &name);
/// Puts the tensor in the place of what is stored for it. `scales`: such a name. Throws UserError, naming tensor and file,
/// where the parts do not fit each other.
void joinGroupedCodes(std::map<std::string, StoredTensor> &tensors, const std::string &scales);

} // namespace quern::runtime
#endif
