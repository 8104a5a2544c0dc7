// Hostile adapters: each cut and each changed byte is an error or an adapter, never a crash.
#include "runtime/weights/Adapter.h"
#include "runtime/Error.h"
#include "support/Files.h"
#include "support/TemporaryFolder.h"

#include "tests/runtime/TestData.h"

#include <gtest/gtest.h>
#include <random>

using namespace quern::runtime;
using quern::runtime::test::dataPath;

namespace {

/// Opens the model with an adapter of these two files, and reads each tensor to its end.
void readAll(const std::string &folder, const std::string &config, const std::string &tensors) {
  test::writeText(folder + "/adapter_config.json", config);
  test::writeText(folder + "/adapter_model.safetensors", tensors);
  try {
    auto source = withAdapter(TensorSource::open(dataPath("llama")), folder, Description());
    for (const std::string &name : source->names()) {
      const StoredTensor &tensor = *source->find(name);
      std::vector<float> numbers(size_t(tensor.elements()));
      if (isReal(tensor.dtype))
        toFloat(tensor, 0, tensor.elements(), numbers.data());
    }
  } catch (const UserError &error) {
    EXPECT_NE(std::string(error.what()).find("adapter"), std::string::npos) << error.what();
  }
}

TEST(Adapter, CutAndCorrupted) {
  const std::string adapter = dataPath("adapters/llama");
  const std::string config = quern::support::readFile(adapter + "/adapter_config.json");
  const std::string tensors = quern::support::readFile(adapter + "/adapter_model.safetensors");
  quern::support::TemporaryFolder folder;
  std::mt19937 random(5);
  for (size_t at = 0; at < config.size(); at += 7)
    readAll(folder.path(), config.substr(0, at), tensors);
  for (size_t at = 0; at < 4000; at += 17)
    readAll(folder.path(), config, tensors.substr(0, at));
  for (int i = 0; i < 1000; ++i) {
    std::string changed = i % 2 ? config : tensors;
    changed[random() % std::min<size_t>(changed.size(), 4000)] ^= char(1 << random() % 8);
    readAll(folder.path(), i % 2 ? changed : config, i % 2 ? tensors : changed);
  }
}

} // namespace
