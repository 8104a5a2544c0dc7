// GGUF files as checkpoints: names, order of rows, config, and what strangers may do to a file.
#include "runtime/gguf/Gguf.h"
#include "runtime/Error.h"
#include "runtime/formats/BlockFormat.h"
#include "runtime/tokenizer/Tokenizer.h"
#include "runtime/weights/Checkpoint.h"
#include "runtime/weights/Weights.h"
#include "tests/runtime/Damage.h"
#include "tests/runtime/GgufBuilder.h"
#include "tests/runtime/TestData.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <numeric>
#include <random>

using namespace quern::runtime;
using namespace quern::runtime::test;
using testing::ElementsAreArray;
using testing::HasSubstr;
using Json = nlohmann::json;

namespace {

using Tensors = std::map<std::string, StoredTensor>;

std::shared_ptr<const MappedFile> mapped(const std::string &bytes) {
  return MappedFile::copy(bytes, "model.gguf");
}

std::vector<float> counting(size_t count, float first = 0) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

/// Everything that a program or the compiler reads of a file; what it complained about.
std::string complaint(const std::string &bytes) {
  try {
    GgufFile file(mapped(bytes));
    for (const auto &[name, tensor] : ggufTensors(file))
      if (isReal(tensor.dtype)) {
        numbersOf(tensor);
        uint8_t room[1024];
        if (tensor.reader && tensor.reader->heldBy())
          for (int64_t at = 0; at + 32 <= tensor.elements(); at += 32)
            tensor.reader->block(tensor.reader->heldBy(), at, 1, 32, room);
      }
    ggufConfig(file);
    for (const char *name : {"generation_config.json", "tokenizer_config.json", "chat_template.jinja"})
      ggufText(file, name);
    if (std::string json = ggufTokenizer(file); !json.empty())
      Tokenizer::parse(json, "tokenizer").encode("Once upon a time", true);
    return "";
  } catch (const UserError &error) {
    return error.what();
  }
}

/// A model of every kind of change, one layer.
std::string small(const std::string &architecture, bool joined = false) {
  GgufBuilder file(architecture);
  file.integer(architecture + ".embedding_length", 4);
  file.integer(architecture + ".block_count", 1);
  file.integer(architecture + ".attention.head_count", 2);
  file.integer(architecture + ".attention.head_count_kv", 1);
  file.real(architecture + ".attention.layer_norm_rms_epsilon", 1e-6f);
  file.integer(architecture + ".expert_count", 2);
  file.text("tokenizer.ggml.model", "llama");
  file.texts("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>", "a", "b", "ab"});
  file.reals("tokenizer.ggml.scores", {0, 0, 0, -1, -2, -3});
  file.integers("tokenizer.ggml.token_type", {2, 3, 3, 1, 1, 1});
  file.integer("tokenizer.ggml.bos_token_id", 1);
  file.integer("tokenizer.ggml.eos_token_id", 2);
  file.floats("token_embd.weight", {3, 4}, counting(12));
  file.floats("blk.0.attn_norm.weight", {4}, {1, 1.5f, 2, 0});
  if (architecture == "bloom") { // queries, keys, values of two heads
    file.floats("blk.0.attn_qkv.weight", {6, 1}, {0, 3, 1, 4, 2, 5});
    file.floats("blk.0.attn_qkv.bias", {6}, {0, 3, 1, 4, 2, 5});
  } else if (joined) {
    file.floats("blk.0.attn_qkv.weight", {16, 1}, {0, 2, 1, 3, 4, 6, 5, 7, 0, 2, 1, 3, 8, 9, 10, 11});
  } else { // as pairs
    file.floats("blk.0.attn_q.weight", {8, 1}, {0, 2, 1, 3, 4, 6, 5, 7});
    file.floats("blk.0.attn_k.weight", {4, 1}, {0, 2, 1, 3});
    file.floats("blk.0.attn_v.weight", {4, 1}, {8, 9, 10, 11});
  }
  file.floats("blk.0.ffn_up.weight", {2, 3}, {0, 2, 4, 1, 3, 5});
  file.floats("blk.0.ffn_up_exps.weight", {2, 2, 3}, counting(12));
  return file.file();
}

TEST(Gguf, UndoesWhatConvertersDo) {
  Tensors llama = ggufTensors(GgufFile(mapped(small("llama"))));
  EXPECT_THAT(numbersOf(llama.at("model.layers.0.self_attn.q_proj.weight")), ElementsAreArray(counting(8)));
  EXPECT_THAT(numbersOf(llama.at("model.layers.0.self_attn.k_proj.weight")), ElementsAreArray(counting(4)));
  EXPECT_THAT(numbersOf(llama.at("model.layers.0.block_sparse_moe.experts.1.w3.weight")),
              ElementsAreArray(counting(6, 6)));
  EXPECT_EQ(llama.at("model.layers.0.block_sparse_moe.experts.1.w3.weight").shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(llama.at("model.embed_tokens.weight").dtype, Dtype::F32) << "used where it is mapped";
  EXPECT_EQ(llama.at("model.embed_tokens.weight").shape, (std::vector<int64_t>{3, 4}));

  Tensors joined = ggufTensors(GgufFile(mapped(small("llama", true))));
  for (const char *part : {"q", "k", "v"}) {
    const std::string name = std::string("model.layers.0.self_attn.") + part + "_proj.weight";
    EXPECT_EQ(joined.at(name).shape, llama.at(name).shape);
    EXPECT_THAT(numbersOf(joined.at(name)), ElementsAreArray(numbersOf(llama.at(name))));
  }

  Tensors bloom = ggufTensors(GgufFile(mapped(small("bloom"))));
  EXPECT_THAT(numbersOf(bloom.at("transformer.h.0.self_attention.query_key_value.weight")),
              ElementsAreArray(counting(6)));
  EXPECT_THAT(numbersOf(bloom.at("transformer.h.0.self_attention.query_key_value.bias")),
              ElementsAreArray(counting(6)));

  Tensors gemma = ggufTensors(GgufFile(mapped(small("gemma"))));
  EXPECT_THAT(numbersOf(gemma.at("model.layers.0.input_layernorm.weight")), testing::ElementsAre(0, 0.5f, 1, -1));

  Tensors gpt2 = ggufTensors(GgufFile(mapped(small("gpt2"))));
  const StoredTensor &transposed = gpt2.at("transformer.h.0.mlp.c_fc.weight");
  EXPECT_EQ(transposed.shape, (std::vector<int64_t>{3, 2}));
  EXPECT_THAT(numbersOf(transposed), ElementsAreArray(counting(6)));
  float part[2];
  toFloat(transposed, 3, 2, part);
  EXPECT_THAT(part, testing::ElementsAre(3, 4));
}

/// Qwen3.5's heads of values: two for each of two heads of keys.
TEST(Gguf, HeadsOfValuesComeTogether) {
  GgufBuilder file("qwen35");
  file.integer("qwen35.block_count", 1);
  file.integer("qwen35.ssm.time_step_rank", 4);
  file.integer("qwen35.ssm.group_count", 2);
  file.integer("qwen35.ssm.inner_size", 8);
  file.floats("blk.0.attn_qkv.weight", {12, 1}, {0, 1, 2, 3, 4, 5, 8, 9, 6, 7, 10, 11});
  file.floats("blk.0.ssm_beta.weight", {4, 1}, {0, 2, 1, 3});
  file.floats("blk.0.ssm_out.weight", {2, 8}, {0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15});
  Tensors read = ggufTensors(GgufFile(mapped(file.file())));
  const std::string layer = "model.layers.0.linear_attn.";
  EXPECT_THAT(numbersOf(read.at(layer + "in_proj_qkv.weight")), ElementsAreArray(counting(12)));
  EXPECT_THAT(numbersOf(read.at(layer + "in_proj_b.weight")), ElementsAreArray(counting(4)));
  EXPECT_THAT(numbersOf(read.at(layer + "out_proj.weight")), ElementsAreArray(counting(16)));
  EXPECT_EQ(read.at(layer + "out_proj.weight").shape, (std::vector<int64_t>{2, 8}));

  file.floats("blk.0.attn_gate.weight", {7, 1}, counting(7));
  EXPECT_THAT(complaint(file.file()), HasSubstr("does not fit the counts of heads"));
}

/// A block of codes in which several heads lie cannot be moved as it is.
TEST(Gguf, PartsOfBlocksAreDecoded) {
  GgufBuilder file("qwen35");
  file.integer("qwen35.block_count", 1);
  file.integer("qwen35.ssm.time_step_rank", 4);
  file.integer("qwen35.ssm.group_count", 2);
  file.integer("qwen35.ssm.inner_size", 32);
  const std::vector<float> values = counting(32);
  std::string block(34, '\0');
  encodeQ8_0(values.data(), 32, reinterpret_cast<uint8_t *>(block.data()));
  file.tensor("blk.0.ssm_out.weight", 8, {32, 1}, block);
  Tensors read = ggufTensors(GgufFile(mapped(file.file())));
  const StoredTensor &tensor = read.at("model.layers.0.linear_attn.out_proj.weight");
  uint8_t room[64];
  EXPECT_STREQ(tensor.reader->heldBy(), "F32");
  EXPECT_EQ(tensor.reader->block("Q8_0", 0, 1, 32, room), nullptr);
  EXPECT_NEAR(numbersOf(tensor)[8], 16, 0.2);
}

TEST(Gguf, LayersThatGuessFurtherTokensAreLeftOut) {
  GgufBuilder file("glm4moe");
  file.integer("glm4moe.block_count", 3);
  file.integer("glm4moe.nextn_predict_layers", 1);
  for (const char *name : {"blk.1.attn_norm.weight", "blk.2.attn_norm.weight", "blk.2.nextn.enorm.weight"})
    file.floats(name, {1}, {1});
  Tensors read = ggufTensors(GgufFile(mapped(file.file())));
  EXPECT_EQ(read.size(), 1u);
  EXPECT_TRUE(read.count("model.layers.1.input_layernorm.weight"));
}

/// NVFP4 has a scale of all numbers of a weight, or of each expert's, in a tensor of its own.
TEST(Gguf, ScalesOfTheirOwnMultiply) {
  GgufBuilder file("llama");
  file.floats("blk.0.ffn_up.weight", {2, 2}, {1, 2, 3, 4});
  file.floats("blk.0.ffn_up.scale", {1}, {0.5f});
  file.floats("blk.0.ffn_up.input_scale", {1}, {7});
  file.floats("blk.0.ffn_up_exps.weight", {2, 1, 2}, {1, 2, 3, 4});
  file.floats("blk.0.ffn_up_exps.scale", {2}, {10, 100});
  const Tensors tensors = ggufTensors(GgufFile(mapped(file.file())));
  EXPECT_EQ(tensors.size(), 3u);
  EXPECT_THAT(numbersOf(tensors.at("model.layers.0.mlp.up_proj.weight")), testing::ElementsAre(0.5f, 1, 1.5f, 2));
  EXPECT_THAT(numbersOf(tensors.at("model.layers.0.block_sparse_moe.experts.0.w3.weight")),
              testing::ElementsAre(10, 20));
  EXPECT_THAT(numbersOf(tensors.at("model.layers.0.block_sparse_moe.experts.1.w3.weight")),
              testing::ElementsAre(300, 400));
  GgufBuilder odd("llama");
  odd.floats("blk.0.ffn_up.weight", {2, 2}, {1, 2, 3, 4});
  odd.floats("blk.0.ffn_up.scale", {3}, {1, 1, 1});
  EXPECT_THAT(complaint(odd.file()), HasSubstr("'blk.0.ffn_up.weight'"));
}

/// Gemma 4's router has tensors that end like such scales; where experts are in NVFP4 converters multiply them into these.
TEST(Gguf, ScalesOfARouterAreTensors) {
  for (bool coded : {false, true}) {
    GgufBuilder file("gemma4");
    file.floats("blk.0.ffn_gate_inp.weight", {2, 3}, {1, 2, 3, 4, 5, 6});
    file.floats("blk.0.ffn_gate_inp.scale", {3}, {7, 8, 9});
    file.floats("blk.0.ffn_down_exps.scale", {2}, {10, 100});
    if (coded)
      file.tensor("blk.0.ffn_down_exps.weight", 40, {64, 1, 2}, std::string(72, '\1'));
    else
      file.floats("blk.0.ffn_down_exps.weight", {2, 1, 2}, {1, 2, 3, 4});
    const Tensors tensors = ggufTensors(GgufFile(mapped(file.file())));
    EXPECT_THAT(numbersOf(tensors.at("model.layers.0.router.proj.weight")), testing::ElementsAre(1, 2, 3, 4, 5, 6));
    EXPECT_THAT(numbersOf(tensors.at("model.layers.0.router.scale")), testing::ElementsAre(7, 8, 9));
    EXPECT_EQ(tensors.count("model.layers.0.router.per_expert_scale"), coded ? 0u : 1u);
    const std::vector<float> down = numbersOf(tensors.at("model.layers.0.experts.down_proj"));
    if (coded)
      EXPECT_TRUE(down[0] != 0 && down[64] == 10 * down[0]);
    else
      EXPECT_THAT(down, testing::ElementsAre(1, 2, 3, 4));
  }
}

TEST(Gguf, Gemma4sLayersDiffer) {
  auto with = [](std::vector<int32_t> widths, std::vector<int32_t> keyHeads, float last) {
    GgufBuilder file("gemma4");
    file.integer("gemma4.block_count", 4);
    file.integer("gemma4.attention.key_length", 16);
    file.integer("gemma4.attention.key_length_swa", 8);
    file.integer("gemma4.attention.shared_kv_layers", 2);
    file.integer("gemma4.attention.sliding_window", 5);
    file.integers("gemma4.feed_forward_length", widths);
    file.integers("gemma4.attention.head_count_kv", keyHeads);
    file.integers("gemma4.attention.sliding_window_pattern", {1, 0, 1, 0});
    file.floats("rope_freqs.weight", {8}, {1, 1, 1e30f, 1e30f, 1e30f, 1e30f, 1e30f, last});
    return file.file();
  };
  const Json config = ggufConfig(GgufFile(mapped(with({20, 20, 40, 40}, {2, 1, 2, 1}, 1e30f))));
  EXPECT_EQ(config["intermediate_size"], 20);
  EXPECT_EQ(config["use_double_wide_mlp"], true);
  EXPECT_EQ(config["num_key_value_heads"], 2);
  EXPECT_EQ(config["head_dim"], 8);
  EXPECT_EQ(config["per_layer_config"]["3"], Json::parse(R"({"head_dim": 16, "num_key_value_heads": 1})"));
  EXPECT_EQ(config["rope_parameters"]["full_attention"]["partial_rotary_factor"], 0.25);
  EXPECT_THAT(complaint(with({20, 40, 40, 40}, {2, 1, 2, 1}, 1e30f)), HasSubstr("widths"));
  EXPECT_THAT(complaint(with({20, 20}, {2, 1, 2, 1}, 1e30f)), HasSubstr("2 numbers for 4 layers"));
  EXPECT_THAT(complaint(with({20, 20, 40, 40}, {2, 0, 2, 1}, 1e30f)), HasSubstr("no count"));
  EXPECT_THAT(complaint(with({20, 20, 40, 40}, {2, 1, 2, 1}, 1)), HasSubstr("divisors"));
}

/// A matrix in blocks, lying transposed, is laid out like the same numbers in f32.
TEST(Gguf, TransposedBlocksArePackedAsTheirNumbers) {
  std::vector<float> values(48 * 64);
  std::mt19937 random(2);
  for (float &value : values)
    value = float(int(random() % 255) - 127) / 64;
  std::string blocks(size_t(48 * 64 / 32 * 34), '\0');
  encodeQ8_0(values.data(), int64_t(values.size()), reinterpret_cast<uint8_t *>(blocks.data()));
  GgufBuilder builder("gpt2");
  builder.tensor("blk.0.ffn_up.weight", 8, {64, 48}, blocks);
  const std::string path = temporaryPath("transposed.gguf"), plainPath = temporaryPath("transposed.safetensors"),
                    name = "transformer.h.0.mlp.c_fc.weight";
  writeText(path, builder.file());
  const std::vector<float> plain = numbersOf(*TensorSource::open(path)->find(name));
  for (int64_t i = 0; i < 64; ++i)
    for (int64_t o = 0; o < 48; ++o)
      ASSERT_NEAR(plain[size_t(i * 48 + o)], values[size_t(o * 64 + i)], 0.01);
  writeSafetensors(plainPath, {{name, Dtype::F32, {64, 48}, plain.data()}});
  Description d;
  d.parameters.resize(1);
  d.parameters[0].names = {name};
  d.parameters[0].shape = {64, 48};
  const PackedLayout forms[] = {
      {48, 64, 1, 48, 16, 0}, {64, 48, 48, 1, 16, 0}, {16, 64, 1, 48, 8, 32}, {8, 24, 96, 2, 8, 1}};
  for (int i = 0; i < 16; ++i) {
    PackedLayout layout = forms[i / 4];
    layout.storage = std::array{Storage::F32, Storage::BF16, Storage::Int8, Storage::Int4}[size_t(i % 4)];
    d.slots = {{{{0}}, {WeightLayout(layout)}}};
    auto want = Weights::load(d, TensorSource::open(plainPath)), got = Weights::load(d, TensorSource::open(path));
    EXPECT_EQ(std::memcmp(want->slots()[0][0], got->slots()[0][0], size_t(layout.bytes())), 0) << i;
  }
}

/// Blocks whose largest code is not the format's are moved as they are: quantised again, they would change.
TEST(Gguf, BlocksOfTheSameGroupsAreOnlyMoved) {
  const std::string path = temporaryPath("moved.gguf"), name = "model.layers.0.mlp.down_proj.weight";
  for (auto [storage, type, bytes] : {std::tuple{Storage::Int8, 8u, 34}, std::tuple{Storage::Int4, 2u, 18}}) {
    std::string blocks(size_t(16 * 2 * bytes), '\0');
    for (size_t i = 0; i < blocks.size(); ++i) // a scale of 0.5, codes 0 to 3
      blocks[i] = i % size_t(bytes) == 0 ? '\0' : i % size_t(bytes) == 1 ? '\x38' : char(i % 4 * (type == 2 ? 17 : 1));
    GgufBuilder builder("qwen2");
    builder.tensor("blk.0.ffn_down.weight", type, {64, 16}, blocks);
    writeText(path, builder.file());
    Description d;
    d.parameters.resize(1);
    d.parameters[0].names = {name};
    d.parameters[0].shape = {16, 64};
    PackedLayout layout{16, 64, 64, 1, 16, 0};
    layout.storage = storage;
    d.slots = {{{{0}}, {WeightLayout(layout)}}};
    const std::vector<float> plain = numbersOf(*TensorSource::open(path)->find(name));
    auto weights = Weights::load(d, TensorSource::open(path));
    const auto *codes = static_cast<const uint8_t *>(weights->slots()[0][0]);
    const int bits = type == 8 ? 8 : 4, each = 32 / bits;
    for (int64_t o = 0; o < 16; ++o)
      for (int64_t i = 0; i < 64; ++i) {
        const uint8_t *group = codes + i / 32 * bytes * 16;
        EXPECT_EQ(group[o] | group[16 + o] << 8, 0x3800);
        const int byte = group[2 * 16 + i % 32 / each * 4 * 16 + o * 4 + i % 4],
                  code = (byte >> (i % each / 4 * 4) & ((1 << bits) - 1)) - (1 << (bits - 1));
        ASSERT_EQ(0.5f * float(code), plain[size_t(o * 64 + i)]) << type << " " << o << " " << i;
      }
  }
}

TEST(Gguf, ConfigsAreThoseOfHuggingFace) {
  GgufFile fixture(MappedFile::open(dataPath("formats/llama-gguf/model-f16.gguf")));
  EXPECT_EQ(ggufConfig(fixture), Json::parse(R"({"model_type": "llama", "vocab_size": 700, "hidden_size": 64,
    "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "rms_norm_eps": 0.001, "max_position_embeddings": 64, "rope_theta": 10000.0, "attention_bias": false,
    "mlp_bias": false, "tie_word_embeddings": false, "bos_token_id": 1, "eos_token_id": 2})"));
  EXPECT_EQ(ggufGenerationConfig(fixture), R"({"eos_token_id":[2]})");
  EXPECT_EQ(ggufConfig(GgufFile(mapped(small("gpt2"))))["n_embd"], 4);
  EXPECT_FALSE(ggufConfig(GgufFile(mapped(small("gpt2")))).contains("hidden_size"));
  EXPECT_EQ(ggufConfig(GgufFile(mapped(small("llama"))))["num_local_experts"], 2);
  GgufBuilder images("glm4"); // GLM-4.1V
  images.integers("glm4.rope.dimension_sections", {1, 1, 1, 0});
  EXPECT_THROW(ggufConfig(GgufFile(mapped(images.file()))), UserError);
}

TEST(Gguf, SaysWhatAConversationNeeds) {
  GgufBuilder file("llama");
  file.texts("tokenizer.ggml.tokens", {"a", "<s>", "</s>"});
  file.integer("tokenizer.ggml.bos_token_id", 1);
  file.integer("tokenizer.ggml.eos_token_id", 7); // none has this number
  file.text("tokenizer.chat_template", "{{ bos_token }}");
  EXPECT_EQ(textInside(mapped(file.file()), "tokenizer_config.json"), R"({"bos_token":"<s>"})");
  EXPECT_EQ(textInside(mapped(file.file()), "chat_template.jinja"), "{{ bos_token }}");
  EXPECT_EQ(textInside(mapped(file.file()), "sentence_bert_config.json"), std::nullopt);
}

TEST(Gguf, RotaryScalingComesBack) {
  // Llama 3.1: factor 8, bounds 1 and 4 of 8192 positions, theta 500000; as converters compute it.
  std::vector<float> divisors;
  for (int i = 0; i < 64; ++i) {
    const double length = 2 * 3.14159265358979 * std::pow(500000.0, i / 64.0), smooth = (8192 / length - 1) / 3;
    divisors.push_back(length < 2048 ? 1 : length > 8192 ? 8 : float(1 / ((1 - smooth) / 8 + smooth)));
  }
  GgufBuilder file("llama");
  file.real("llama.rope.freq_base", 500000);
  file.floats("rope_freqs.weight", {64}, divisors);
  EXPECT_EQ(ggufConfig(GgufFile(mapped(file.file())))["rope_scaling"], Json::parse(R"({"rope_type": "llama3",
    "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192})"));
  divisors[20] = 3;
  GgufBuilder other("llama");
  other.floats("rope_freqs.weight", {64}, divisors);
  const Json kept = ggufConfig(GgufFile(mapped(other.file())))["rope_scaling"]; // no scaling of Llama's: as it is
  EXPECT_EQ(kept["rope_type"], "longrope");
  EXPECT_EQ(kept["long_factor"][20], 3);
  EXPECT_EQ(kept["short_factor"], kept["long_factor"]);
}

TEST(Gguf, SaysWhatIsWrong) {
  GgufBuilder unknown("quux"), split("llama"), type("llama"), odd("llama"), kind("gpt2");
  split.integer("split.count", 3);
  type.tensor("a", 4, {256}, std::string(50, 'x'));
  odd.tensor("a", 8, {48}, std::string(51, 'x'));
  kind.text("tokenizer.ggml.model", "gpt2");
  kind.text("tokenizer.ggml.pre", "klingon");
  kind.texts("tokenizer.ggml.tokens", {"a"});
  std::pair<std::string, const char *> cases[] = {{"GGUX", "does not begin"},
                                                  {unknown.file(1), "version 1"},
                                                  {unknown.file(0x03000000), "byte order"},
                                                  {unknown.file(), "'quux'"},
                                                  {split.file(), "its split.tensors.count is missing"},
                                                  {type.file(), "type 4"},
                                                  {odd.file(), "not a number of blocks of Q8_0"},
                                                  {kind.file(), "'klingon'"}};
  for (const auto &[bytes, says] : cases)
    EXPECT_THAT(complaint(bytes), HasSubstr(says));
  EXPECT_EQ(complaint(small("llama")), "");
  EXPECT_EQ(complaint(GgufBuilder("llama").file(2)), "") << "version 2 is read, too";
}

TEST(Gguf, SurvivesEveryTruncation) {
  const std::string whole = small("llama");
  for (size_t size = 0; size < whole.size(); ++size) {
    const bool padding = whole.find_first_not_of('\0', size) == std::string::npos;
    if (!padding) {
      EXPECT_NE(complaint(whole.substr(0, size)), "") << size;
    }
  }
  const std::string fixture = readFile(dataPath("formats/llama-gguf/model-q8_0.gguf"));
  for (size_t size = 0; size < fixture.size(); size += 997)
    EXPECT_NE(complaint(fixture.substr(0, size)), "") << size;
}

TEST(Gguf, SurvivesRandomDamage) {
  const auto use = [](const std::string &file) { complaint(file); };
  useDamaged(small("llama"), use);
  useDamaged(readFile(dataPath("formats/llama-gguf/model-q8_0.gguf")), use, 0, 250,
             40000); // vocabulary, table of tensors
}

/// Files of every architecture, as llama.cpp's converter writes them: damages among names, values and shapes.
TEST(Gguf, EveryArchitectureSurvivesDamage) {
  const auto use = [](const std::string &bytes) { complaint(bytes); };
  size_t files = 0;
  for (const auto &entry : std::filesystem::directory_iterator(dataPath("gguf"))) {
    if (entry.path().extension() != ".gguf")
      continue;
    const std::string whole = readFile(entry.path().string());
    EXPECT_EQ(complaint(whole), "") << entry.path();
    useDamaged(whole, use, 10, 150, std::min<size_t>(whole.size(), 4000));
    ++files;
  }
  EXPECT_GT(files, 70u);
}

} // namespace
