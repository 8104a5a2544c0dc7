// Which model an adapter was trained over: a file beside it, as PEFT's adapter_config.json has a name alone, which may mean another
// model on another machine.
#ifndef QUERN_RUNTIME_WEIGHTS_ADAPTERBASE_H
#define QUERN_RUNTIME_WEIGHTS_ADAPTERBASE_H

#include "runtime/weights/TensorSource.h"

namespace quern::runtime {

inline constexpr const char *adapterBaseFile = "adapter_base.json";

/// A hash of the names and shapes of all tensors and of some of the numbers of each: few pages of a file are read. The same numbers in
/// other files, or in a format that loses nothing, have the same.
std::string fingerprintOf(const TensorSource &base);

/// The file's text. `name`: what the user called the base.
std::string adapterBase(const std::string &name, const std::string &fingerprint);

/// Warns where the adapter in `folder` was trained over other numbers than those of `base`. Throws UserError where its file is none.
void warnOfAnotherBase(const TensorSource &base, const std::string &folder);

} // namespace quern::runtime
#endif
