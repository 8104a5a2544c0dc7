// Takes: the values of a GGUF file. Gives: config.json as the same model has it on Hugging Face.
//
// Fields and keys are a table. What the file does not say (activations, mostly) is what every model of the architecture
// has, which is the spec's default.
#include "runtime/Error.h"
#include "runtime/gguf/Gguf.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

namespace quern::runtime {

using Json = nlohmann::json;

namespace {

struct Field {
  const char *published, *key; // "~.x": of the architecture
};

constexpr Field common[] = {{"hidden_size", "~.embedding_length"},
                            {"intermediate_size", "~.feed_forward_length"},
                            {"num_hidden_layers", "~.block_count"},
                            {"num_attention_heads", "~.attention.head_count"},
                            {"num_key_value_heads", "~.attention.head_count_kv"},
                            {"head_dim", "~.attention.key_length"},
                            {"rms_norm_eps", "~.attention.layer_norm_rms_epsilon"},
                            {"layer_norm_eps", "~.attention.layer_norm_epsilon"},
                            {"max_position_embeddings", "~.context_length"},
                            {"rope_theta", "~.rope.freq_base"},
                            {"sliding_window", "~.attention.sliding_window"},
                            {"num_local_experts", "~.expert_count"},
                            {"num_experts_per_tok", "~.expert_used_count"},
                            {"final_logit_softcapping", "~.final_logit_softcapping"},
                            {"attn_logit_softcapping", "~.attn_logit_softcapping"},
                            {"logit_scale", "~.logit_scale"},
                            {"bos_token_id", "tokenizer.ggml.bos_token_id"},
                            {"eos_token_id", "tokenizer.ggml.eos_token_id"},
                            {"pad_token_id", "tokenizer.ggml.padding_token_id"}};

/// An architecture's own names for what `common` has, and fields that only it has. An empty key: a field of `common`
/// that it does without.
struct Own {
  const char *architectures;
  Field field;
};
constexpr Own own[] = {
    {"gpt2 starcoder", {"n_embd", "~.embedding_length"}},
    {"gpt2 starcoder", {"n_inner", "~.feed_forward_length"}},
    {"gpt2 starcoder", {"n_positions", "~.context_length"}},
    {"gpt2 starcoder bloom", {"n_layer", "~.block_count"}},
    {"gpt2 starcoder bloom", {"n_head", "~.attention.head_count"}},
    {"gpt2 starcoder bloom mpt", {"layer_norm_epsilon", "~.attention.layer_norm_epsilon"}},
    {"gpt2 starcoder bloom mpt bert nomic-bert gptneox", {"num_key_value_heads", ""}},
    {"gpt2 starcoder mpt", {"max_position_embeddings", ""}},
    {"bloom", {"intermediate_size", ""}},
    {"bloom", {"max_position_embeddings", ""}},
    {"mpt", {"d_model", "~.embedding_length"}},
    {"mpt", {"n_layers", "~.block_count"}},
    {"mpt", {"n_heads", "~.attention.head_count"}},
    {"starcoder2", {"norm_epsilon", "~.attention.layer_norm_epsilon"}},
    {"stablelm gptneox", {"use_parallel_residual", "~.use_parallel_residual"}},
    {"gemma3", {"rope_local_base_freq", "~.rope.freq_base_swa"}},
};

/// Families that Hugging Face calls by another `model_type`.
constexpr std::pair<const char *, const char *> publishedTypes[] = {
    {"command-r", "cohere"},   {"gemma3", "gemma3_text"}, {"gptneox", "gpt_neox"},     {"nomic-bert", "nomic_bert"},
    {"qwen2moe", "qwen2_moe"}, {"qwen3moe", "qwen3_moe"}, {"starcoder", "gpt_bigcode"}};

bool lists(const char *words, const std::string &word) {
  return (" " + std::string(words) + " ").find(" " + word + " ") != std::string::npos;
}

/// A float of 32 bits as the shortest decimal that gives it: 1e-06, not 9.99999997e-07.
double shortest(float value) {
  char text[32];
  auto [end, failed] = std::to_chars(text, text + sizeof(text), value);
  double result = double(value);
  if (failed == std::errc())
    std::from_chars(text, end, result);
  return result;
}

class Maker {
public:
  explicit Maker(const GgufFile &file) : file(file) {}

  Json run() {
    const std::string &family = file.architecture();
    for (const Field &field : common)
      copy(field);
    for (const Own &row : own) {
      if (!lists(row.architectures, family))
        continue;
      if (*row.field.key)
        copy(row.field);
      for (const Field &field : common) // the same under the usual name
        if (!*row.field.key ? !std::strcmp(field.published, row.field.published)
                            : !std::strcmp(field.key, row.field.key))
          config.erase(field.published);
    }
    tensors();
    rotary();
    if (family == "gemma2" || family == "gemma3")
      gemma();
    if (family == "mpt")
      mpt();
    if (family == "bert" || family == "nomic-bert")
      sentences();
    if (family == "starcoder")
      config["multi_query"] = file.integer("~.attention.head_count_kv").value_or(1) == 1;
    return std::move(config);
  }

private:
  const GgufFile &file;
  Json config = Json::object();

  [[noreturn]] void fail(const std::string &reason) const { throw UserError(file.file()->name() + ": " + reason); }

  Json value(const char *key) const {
    std::vector<double> values = file.list(key);
    if (values.empty())
      return nullptr;
    if (std::any_of(values.begin(), values.end(), [&](double v) { return v != values[0]; }))
      fail(std::string("its layers differ in ") + key + ", which is not supported");
    if (!std::isfinite(values[0]))
      fail(std::string(key) + " is no number");
    if (file.isFlag(key))
      return values[0] != 0;
    if (file.isFloat(key))
      return shortest(float(values[0]));
    return values[0] == std::floor(values[0]) && std::fabs(values[0]) < 9e15 ? Json(int64_t(values[0]))
                                                                             : Json(values[0]);
  }

  void copy(const Field &field) {
    if (Json found = value(field.key); !found.is_null())
      config[field.published] = std::move(found);
  }

  double number(const char *key) const {
    std::optional<double> found = file.number(key);
    if (!found || !(*found > 0) || *found > 1e9)
      fail(std::string(key) + " is missing or no count");
    return *found;
  }

  double headWidth() const {
    return file.has("~.attention.key_length") ? number("~.attention.key_length")
                                              : number("~.embedding_length") / number("~.attention.head_count");
  }

  std::string modelType() const {
    const std::string &family = file.architecture();
    if (family == "llama" && file.integer("~.expert_count").value_or(0) > 0)
      return "mixtral";
    for (auto [own, published] : publishedTypes)
      if (family == own)
        return published;
    return family;
  }

  /// What follows from which tensors there are.
  void tensors() {
    const std::string &family = file.architecture();
    config["model_type"] = modelType();
    if (const GgufTensor *words = file.find("token_embd.weight"); words && words->shape.size() == 2)
      config["vocab_size"] = words->shape[0];
    config["tie_word_embeddings"] =
        !file.find("output.weight") || family == "gpt2" || family == "bloom" || family == "mpt";
    if (const GgufTensor *types = file.find("token_types.weight"))
      config["type_vocab_size"] = types->shape[0];
    const bool bias = file.find("blk.0.attn_q.bias"), norms = file.find("blk.0.attn_q_norm.weight");
    if (lists("llama smollm3 command-r", family))
      config["attention_bias"] = bias;
    if (family == "llama")
      config["mlp_bias"] = file.find("blk.0.ffn_up.bias") != nullptr;
    if (family == "starcoder2")
      config["use_bias"] = bias;
    if (family == "stablelm") {
      config["use_qkv_bias"] = bias;
      config["qk_layernorm"] = norms;
    }
    if (family == "command-r")
      config["use_qk_norm"] = norms;
    if (file.integer("~.expert_count").value_or(1) == 0) {
      config.erase("num_local_experts");
      config.erase("num_experts_per_tok");
    }
  }

  void rotary() {
    const std::string &family = file.architecture();
    if (lists("gpt2 starcoder bloom mpt bert", family))
      return;
    if (!config.contains("rope_theta"))
      config["rope_theta"] = 10000.0;
    if (lists("stablelm gptneox phi3", family) && file.has("~.rope.dimension_count"))
      config[family == "gptneox" ? "rotary_pct" : "partial_rotary_factor"] =
          number("~.rope.dimension_count") / headWidth();
    if (std::optional<int64_t> original = file.integer("~.rope.scaling.original_context_length");
        original && family == "phi3")
      config["original_max_position_embeddings"] = *original;
    const GgufTensor *longer = file.find("rope_factors_long.weight"), *shorter = file.find("rope_factors_short.weight"),
                     *factors = file.find("rope_freqs.weight");
    std::string type = file.text("~.rope.scaling.type").value_or("none");
    if (longer && shorter) {
      config["rope_scaling"] = {
          {"rope_type", "longrope"}, {"long_factor", list(*longer)}, {"short_factor", list(*shorter)}};
    } else if (factors) {
      config["rope_scaling"] = llama3(*factors);
    } else if (type == "linear" || type == "yarn") {
      Json scaling = {{"rope_type", type}, {"factor", value("~.rope.scaling.factor")}};
      if (Json original = value("~.rope.scaling.original_context_length"); !original.is_null())
        scaling["original_max_position_embeddings"] = std::move(original);
      config["rope_scaling"] = std::move(scaling);
    } else if (type != "none" && type != "longrope") {
      fail("the scaling of rotary positions " + quote(type) + " is not known");
    }
  }

  Json list(const GgufTensor &tensor) const {
    Json result = Json::array();
    for (float factor : file.numbers(tensor))
      result.push_back(shortest(factor));
    return result;
  }

  /// Llama 3's scaling is stored as what it does: a divisor for each frequency. The numbers that give it are found
  /// again: the factor is the largest divisor, 1 and 4 are the bounds of all published models, and the original length
  /// is a power of two.
  Json llama3(const GgufTensor &tensor) const {
    const std::vector<float> divisors = file.numbers(tensor);
    const double theta = config.at("rope_theta").get<double>(), low = 1, high = 4,
                 factor = shortest(*std::max_element(divisors.begin(), divisors.end()));
    for (double length = 16; length < 1e7; length *= 2) {
      double off = 0;
      for (size_t i = 0; i < divisors.size(); ++i) {
        const double wavelength = 2 * M_PI * std::pow(theta, double(i) / double(divisors.size())),
                     smooth = std::clamp((length / wavelength - low) / (high - low), 0.0, 1.0);
        off = std::max(off, std::fabs(double(divisors[i]) * ((1 - smooth) / factor + smooth) - 1));
      }
      if (off < 1e-5)
        return {{"rope_type", "llama3"},
                {"factor", factor},
                {"low_freq_factor", low},
                {"high_freq_factor", high},
                {"original_max_position_embeddings", int64_t(length)}};
    }
    fail("its rope_freqs.weight is not the scaling of Llama 3 with bounds 1 and 4; give --config");
  }

  /// Encoders come without the head that their words were predicted with; how words become one vector is said.
  void sentences() {
    const std::optional<int64_t> pooling = file.integer("~.pooling_type");
    if (!pooling)
      return;
    if (*pooling != 1 && *pooling != 2)
      fail("its pooling_type is " + std::to_string(*pooling) + "; 1 (mean) and 2 (first token) are known");
    config["architectures"] = {file.architecture() == "bert" ? "BertModel" : "NomicBertModel"};
    config["pooling"] = *pooling == 1 ? "mean" : "cls";
  }

  void gemma() {
    // The largest of both families scale scores by the width of a head as if heads filled the model's width.
    const int64_t layers = file.integer("~.block_count").value_or(0);
    const bool wide = layers == (file.architecture() == "gemma2" ? 46 : 62);
    config["query_pre_attn_scalar"] =
        int64_t(wide ? number("~.embedding_length") / number("~.attention.head_count") : headWidth());
  }

  void mpt() {
    config.erase("intermediate_size");
    config["expansion_ratio"] = int64_t(number("~.feed_forward_length") / number("~.embedding_length"));
    config["attn_config"] = {{"alibi", true}, {"alibi_bias_max", value("~.attention.max_alibi_bias")}};
    if (file.number("~.attention.clamp_kqv").value_or(0) > 0)
      config["attn_config"]["clip_qkv"] = value("~.attention.clamp_kqv");
  }
};

} // namespace

Json ggufConfig(const GgufFile &file) {
  return Maker(file).run();
}

} // namespace quern::runtime
