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

/// As PEFT names it over transformers 5, whatever the layout of the base's file.
TEST(Adapter, OfAMultimodalModelsTextPart) {
  auto base = TensorSource::open(dataPath("gemma3"));
  const std::string name = "model.layers.0.self_attn.q_proj.weight";
  ASSERT_TRUE(base->find(name));
  const std::vector<float> before = numbersOf(*base->find(name));
  const std::vector<int64_t> shape = base->find(name)->shape;
  const std::vector<float> a(size_t(shape[1]), 1), b(size_t(shape[0]), 0.5f);
  const std::string stem = "base_model.model.model.language_model.layers.0.self_attn.q_proj.";
  quern::support::TemporaryFolder folder;
  writeSafetensors(folder.path() + "/adapter_model.safetensors",
                   {{stem + "lora_A.weight", Dtype::F32, {1, shape[1]}, a.data()},
                    {stem + "lora_B.weight", Dtype::F32, {shape[0], 1}, b.data()}});
  test::writeText(folder.path() + "/adapter_config.json", R"({"peft_type": "LORA", "r": 1, "lora_alpha": 4})");
  auto source = withAdapter(std::move(base), folder.path(), Description());
  EXPECT_TRUE(source->hasTextPart());
  const std::vector<float> after = numbersOf(*source->find(name));
  ASSERT_EQ(after.size(), before.size());
  for (size_t i = 0; i < after.size(); ++i)
    ASSERT_FLOAT_EQ(after[i], before[i] + 2);
}

} // namespace
