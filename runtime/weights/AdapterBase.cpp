// Takes: a checkpoint, and what is beside an adapter. Gives: a warning where the two were not made for each other.
#include "runtime/weights/AdapterBase.h"

#include "runtime/Error.h"
#include "runtime/machine/Terminal.h"
#include "support/Files.h"
#include "support/Json.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace quern::runtime {

std::string fingerprintOf(const TensorSource &base) {
  constexpr int64_t samples = 4; // of a tensor, its first and its last among them
  std::string text;
  auto add = [&](const void *from, size_t bytes) { text.append(static_cast<const char *>(from), bytes); };
  for (const std::string &name : base.names()) {
    const StoredTensor &tensor = *base.find(name);
    add(name.c_str(), name.size() + 1);
    for (int64_t length : tensor.shape)
      add(&length, sizeof length);
    const int64_t count = tensor.elements();
    for (int64_t i = 0; i < samples && count > 0 && isReal(tensor.dtype); ++i) {
      float number;
      toFloat(tensor, (count - 1) / (samples - 1) * i + (count - 1) % (samples - 1) * i / (samples - 1), 1, &number);
      add(&number, sizeof number);
    }
  }
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return format("%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
}

std::string adapterBase(const std::string &name, const std::string &fingerprint) {
  return nlohmann::json{{"base", name}, {"fingerprint", fingerprint}}.dump(1) + "\n";
}

void warnOfAnotherBase(const TensorSource &base, const std::string &folder) {
  const std::string path = folder + "/" + adapterBaseFile;
  if (!support::fileExists(path)) // PEFT writes none
    return;
  const nlohmann::json file = support::parseJson(support::readFile(path, 100'000), path);
  try {
    if (file.at("fingerprint").get<std::string>() != fingerprintOf(base))
      printWarning("the adapter " + folder + " was trained over " + file.at("base").get<std::string>() + ", but " +
                   base.path() +
                   " has other numbers, so their sum may mean nothing; give the model that it was trained over");
  } catch (const nlohmann::json::exception &error) {
    throw UserError(path + " does not say which model the adapter is of: " + support::jsonReason(error.what()));
  }
}

} // namespace quern::runtime
