// Takes: the values of a GGUF file. Gives: config.json as the same model has it on Hugging Face.
//
// Fields and keys are a table. What the file does not say (activations, mostly) is what every model of the architecture
// has, which is the spec's default.
#include "runtime/gguf/GgufConfig.h"
#include "runtime/Error.h"
#include "runtime/gguf/Gguf.h"
#include "support/Glob.h"

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

/// Of scaled rotary positions.
constexpr Field ofScaling[] = {{"original_max_position_embeddings", "~.rope.scaling.original_context_length"},
                               {"beta_fast", "~.rope.scaling.yarn_beta_fast"},
                               {"beta_slow", "~.rope.scaling.yarn_beta_slow"},
                               {"attention_factor", "~.rope.scaling.yarn_attn_factor"}};

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
    {"gpt2 starcoder bloom mpt falcon mamba2 mamba nemotron_h nemotron_h_moe",
     {"layer_norm_epsilon", "~.attention.layer_norm_epsilon"}},
    {"mamba mamba2 nemotron_h nemotron_h_moe", {"layer_norm_epsilon", "~.attention.layer_norm_rms_epsilon"}},
    {"gpt2 starcoder bloom mpt bert nomic-bert gptneox deepseek2 deepseek32 glm-dsa kimi-linear",
     {"num_key_value_heads", ""}},
    {"gpt2 starcoder mpt", {"max_position_embeddings", ""}},
    {"bloom", {"intermediate_size", ""}},
    {"bloom", {"max_position_embeddings", ""}},
    {"mpt", {"d_model", "~.embedding_length"}},
    {"mpt", {"n_layers", "~.block_count"}},
    {"mpt", {"n_heads", "~.attention.head_count"}},
    {"falcon", {"num_kv_heads", "~.attention.head_count_kv"}},
    {"falcon", {"ffn_hidden_size", "~.feed_forward_length"}},
    {"starcoder2", {"norm_epsilon", "~.attention.layer_norm_epsilon"}},
    {"nemotron", {"norm_eps", "~.attention.layer_norm_epsilon"}},
    {"nemotron", {"rms_norm_eps", ""}},
    {"lfm2 lfm2moe", {"norm_eps", "~.attention.layer_norm_rms_epsilon"}},
    {"lfm2 lfm2moe", {"conv_L_cache", "~.shortconv.l_cache"}},
    {"stablelm gptneox", {"use_parallel_residual", "~.use_parallel_residual"}},
    {"gemma3 gemma3n gemma4 gemma-embedding", {"rope_local_base_freq", "~.rope.freq_base_swa"}},
    {"gemma3n gemma4", {"intermediate_size", ""}},
    {"gemma3n gemma4", {"hidden_size_per_layer_input", "~.embedding_length_per_layer_input"}},
    {"gemma3n gemma4", {"num_kv_shared_layers", "~.attention.shared_kv_layers"}},
    {"gemma3n", {"altup_active_idx", "~.altup.active_idx"}},
    {"gemma3n", {"altup_num_inputs", "~.altup.num_inputs"}},
    {"gemma4", {"head_dim", "~.attention.key_length_swa"}},
    {"gemma4", {"head_dim", ""}},
    {"gemma4", {"num_key_value_heads", ""}},
    {"gemma4", {"num_experts", "~.expert_count"}},
    {"gemma4", {"top_k_experts", "~.expert_used_count"}},
    {"gemma4", {"moe_intermediate_size", "~.expert_feed_forward_length"}},
    {"modern-bert", {"norm_eps", "~.attention.layer_norm_rms_epsilon"}},
    {"modern-bert", {"local_attention", "~.attention.sliding_window"}},
    {"modern-bert", {"global_attn_every_n_layers", "~.attention.sliding_window_pattern"}},
    {"modern-bert", {"global_rope_theta", "~.rope.freq_base"}},
    {"modern-bert", {"hidden_activation", "~.hidden_activation"}},
    {"modern-bert nomic-bert bert", {"head_dim", ""}},
    {"minimax-m2", {"rotary_dim", "~.rope.dimension_count"}},
    {"olmo", {"clip_qkv", "~.attention.clamp_kqv"}},
    {"olmo", {"layer_norm_eps", ""}},
    // Granite's multipliers.
    {"granite granitemoe granitehybrid", {"embedding_multiplier", "~.embedding_scale"}},
    {"granite granitemoe granitehybrid", {"residual_multiplier", "~.residual_scale"}},
    {"granite granitemoe granitehybrid", {"logits_scaling", "~.logit_scale"}},
    {"granitemoe granitehybrid", {"shared_intermediate_size", "~.expert_shared_feed_forward_length"}},
    // Experts.
    {"deepseek2 deepseek32 glm-dsa dots1 glm4moe exaone-moe hy_v3 nemotron_h_moe",
     {"n_routed_experts", "~.expert_count"}},
    {"deepseek2 deepseek32 glm-dsa dots1 glm4moe exaone-moe", {"n_shared_experts", "~.expert_shared_count"}},
    {"deepseek2 deepseek32 glm-dsa dots1 glm4moe exaone-moe kimi-linear",
     {"first_k_dense_replace", "~.leading_dense_block_count"}},
    {"deepseek2 deepseek32 glm-dsa dots1 glm4moe exaone-moe hy_v3 qwen2moe qwen3moe qwen3vlmoe mellum qwen3next "
     "qwen35moe lfm2moe "
     "ernie4_5-moe kimi-linear "
     "nemotron_h_moe",
     {"moe_intermediate_size", "~.expert_feed_forward_length"}},
    {"deepseek2 deepseek32 glm-dsa dots1 glm4moe exaone-moe hy_v3 kimi-linear nemotron_h_moe",
     {"routed_scaling_factor", "~.expert_weights_scale"}},
    {"deepseek2 deepseek32 glm-dsa dots1 glm4moe exaone-moe hy_v3 nemotron_h_moe",
     {"norm_topk_prob", "~.expert_weights_norm"}},
    {"deepseek2 deepseek32 glm-dsa dots1 glm4moe exaone-moe nemotron_h_moe", {"n_group", "~.expert_group_count"}},
    {"deepseek2 deepseek32 glm-dsa dots1 glm4moe exaone-moe nemotron_h_moe kimi-linear",
     {"topk_group", "~.expert_group_used_count"}},
    {"qwen2moe qwen3moe qwen3vlmoe qwen3next qwen35moe olmoe lfm2moe hunyuan-moe jamba kimi-linear",
     {"num_experts", "~.expert_count"}},
    {"qwen2moe qwen3next qwen35moe", {"shared_expert_intermediate_size", "~.expert_shared_feed_forward_length"}},
    {"llama4", {"intermediate_size_mlp", "~.feed_forward_length"}},
    {"llama4", {"intermediate_size", "~.expert_feed_forward_length"}},
    {"llama4", {"interleave_moe_layer_step", "~.interleave_moe_layer_step"}},
    {"lfm2moe", {"num_dense_layers", "~.leading_dense_block_count"}},
    {"hunyuan-moe", {"moe_topk", "~.expert_used_count"}},
    {"ernie4_5-moe", {"moe_num_experts", "~.expert_count"}},
    {"ernie4_5-moe", {"moe_k", "~.expert_used_count"}},
    {"ernie4_5-moe", {"moe_num_shared_experts", "~.expert_shared_count"}},
    {"ernie4_5-moe", {"moe_layer_start_index", "~.leading_dense_block_count"}},
    {"ernie4_5-moe", {"moe_layer_interval", "~.interleave_moe_layer_step"}},
    {"kimi-linear", {"num_experts_per_token", "~.expert_used_count"}},
    {"kimi-linear", {"num_shared_experts", "~.expert_shared_count"}},
    {"nemotron_h_moe", {"moe_shared_expert_intermediate_size", "~.expert_shared_feed_forward_length"}},
    {"nemotron_h_moe", {"moe_latent_size", "~.moe_latent_size"}},
    // Latents.
    {"deepseek2 deepseek32 glm-dsa kimi-linear", {"q_lora_rank", "~.attention.q_lora_rank"}},
    {"deepseek2 deepseek32 glm-dsa kimi-linear", {"kv_lora_rank", "~.attention.kv_lora_rank"}},
    {"deepseek2 deepseek32 glm-dsa kimi-linear", {"head_dim", ""}},
    {"deepseek32 glm-dsa", {"index_n_heads", "~.attention.indexer.head_count"}},
    {"deepseek32 glm-dsa", {"index_head_dim", "~.attention.indexer.key_length"}},
    {"deepseek32 glm-dsa", {"index_topk", "~.attention.indexer.top_k"}},
    // Recurrences.
    {"mamba mamba2", {"intermediate_size", "~.ssm.inner_size"}},
    {"mamba mamba2", {"state_size", "~.ssm.state_size"}},
    {"mamba mamba2 nemotron_h nemotron_h_moe", {"conv_kernel", "~.ssm.conv_kernel"}},
    {"mamba", {"time_step_rank", "~.ssm.time_step_rank"}},
    {"mamba2", {"num_heads", "~.ssm.time_step_rank"}},
    {"mamba2 nemotron_h nemotron_h_moe", {"n_groups", "~.ssm.group_count"}},
    {"mamba mamba2", {"num_attention_heads", ""}},
    {"nemotron_h nemotron_h_moe", {"ssm_state_size", "~.ssm.state_size"}},
    {"nemotron_h nemotron_h_moe", {"mamba_num_heads", "~.ssm.time_step_rank"}},
    {"granitehybrid falcon-h1 jamba", {"mamba_d_state", "~.ssm.state_size"}},
    {"granitehybrid falcon-h1 jamba", {"mamba_d_conv", "~.ssm.conv_kernel"}},
    {"granitehybrid falcon-h1", {"mamba_n_heads", "~.ssm.time_step_rank"}},
    {"granitehybrid falcon-h1", {"mamba_n_groups", "~.ssm.group_count"}},
    {"falcon-h1", {"mamba_d_ssm", "~.ssm.inner_size"}},
    {"jamba", {"mamba_dt_rank", "~.ssm.time_step_rank"}},
    {"kimi-linear", {"linear_head_dim", "~.kda.head_dim"}},
    {"kimi-linear", {"linear_conv_kernel_dim", "~.ssm.conv_kernel"}},
    {"qwen3next qwen35 qwen35moe", {"linear_conv_kernel_dim", "~.ssm.conv_kernel"}},
    {"qwen3next qwen35 qwen35moe", {"linear_key_head_dim", "~.ssm.state_size"}},
    {"qwen3next qwen35 qwen35moe", {"linear_num_key_heads", "~.ssm.group_count"}},
    {"qwen3next qwen35 qwen35moe", {"linear_num_value_heads", "~.ssm.time_step_rank"}},
    {"qwen3next qwen35 qwen35moe", {"full_attention_interval", "~.full_attention_interval"}},
    // T5.
    {"t5", {"d_model", "~.embedding_length"}},
    {"t5", {"d_kv", "~.attention.key_length"}},
    {"t5", {"d_ff", "~.feed_forward_length"}},
    {"t5", {"num_layers", "~.block_count"}},
    {"t5", {"num_decoder_layers", "~.decoder_block_count"}},
    {"t5", {"num_heads", "~.attention.head_count"}},
    {"t5", {"relative_attention_num_buckets", "~.attention.relative_buckets_count"}},
    {"t5", {"layer_norm_epsilon", "~.attention.layer_norm_rms_epsilon"}},
    {"t5", {"layer_norm_eps", ""}},
    {"t5", {"max_position_embeddings", ""}},
};

/// Families that Hugging Face calls by another `model_type`.
constexpr std::pair<const char *, const char *> publishedTypes[] = {{"chatglm", "glm"},
                                                                    {"command-r", "cohere"},
                                                                    {"deepseek2", "deepseek_v2"},
                                                                    {"deepseek32", "deepseek_v32"},
                                                                    {"ernie4_5-moe", "ernie4_5_moe"},
                                                                    {"exaone-moe", "exaone_moe"},
                                                                    {"falcon-h1", "falcon_h1"},
                                                                    {"gemma3", "gemma3_text"},
                                                                    {"gemma3n", "gemma3n_text"},
                                                                    {"gemma4", "gemma4_text"},
                                                                    {"glm-dsa", "glm_moe_dsa"},
                                                                    {"gemma-embedding", "gemma3_text"},
                                                                    {"glm4moe", "glm4_moe"},
                                                                    {"gpt-oss", "gpt_oss"},
                                                                    {"gptneox", "gpt_neox"},
                                                                    {"granitehybrid", "granitemoehybrid"},
                                                                    {"hunyuan-dense", "hunyuan_v1_dense"},
                                                                    {"hunyuan-moe", "hunyuan_v1_moe"},
                                                                    {"kimi-linear", "kimi_linear"},
                                                                    {"lfm2moe", "lfm2_moe"},
                                                                    {"llama4", "llama4_text"},
                                                                    {"minimax-m2", "minimax_m2"},
                                                                    {"mistral3", "mistral"},
                                                                    {"modern-bert", "modernbert"},
                                                                    {"nemotron_h_moe", "nemotron_h"},
                                                                    {"nomic-bert", "nomic_bert"},
                                                                    {"phi2", "phi"},
                                                                    {"qwen2moe", "qwen2_moe"},
                                                                    {"qwen3moe", "qwen3_moe"},
                                                                    {"qwen3vlmoe", "qwen3_vl_moe_text"},
                                                                    {"qwen3next", "qwen3_next"},
                                                                    {"qwen35", "qwen3_5_text"},
                                                                    {"qwen35moe", "qwen3_5_moe_text"},
                                                                    {"starcoder", "gpt_bigcode"}};

/// A float of 32 bits as the shortest decimal that gives it: 1e-06, not 9.99999997e-07.
double shortest(float value) {
  char text[32];
  auto [end, failed] = std::to_chars(text, text + sizeof(text), value);
  double result = double(value);
  if (failed == std::errc())
    std::from_chars(text, end, result);
  return result;
}

class Maker : GgufValues {
public:
  explicit Maker(const GgufFile &file) : GgufValues(file) {}

  Json run() {
    for (const Field &field : common)
      if (std::none_of(std::begin(own), std::end(own), [&](const Own &row) { return isInsteadOf(row, field); }))
        copy(field);
    for (const Own &row : own)
      if (*row.field.key && isOneOf(row.architectures))
        copy(row.field);
    tensors();
    rotary();
    addOfFamily(file, config);
    return std::move(config);
  }

private:
  Json config = Json::object();

  /// Whether this architecture does without that field, or has it under another name.
  bool isInsteadOf(const Own &row, const Field &field) const {
    return isOneOf(row.architectures) && (*row.field.key ? !std::strcmp(field.key, row.field.key)
                                                         : !std::strcmp(field.published, row.field.published));
  }

  void copy(const Field &field) {
    if (Json found = value(field.key); !found.is_null())
      config[field.published] = std::move(found);
  }

  std::string modelType() const {
    const std::string &family = file.architecture();
    for (auto [own, published] : publishedTypes)
      if (family == own)
        return published;
    return family;
  }

  /// What follows from which tensors there are.
  void tensors() {
    const bool mixtral = isOneOf("llama") && file.integer("~.expert_count").value_or(0) > 0;
    config["model_type"] = mixtral ? "mixtral" : modelType();
    if (const GgufTensor *words = file.find("token_embd.weight"); words && words->shape.size() == 2)
      config["vocab_size"] = words->shape[0];
    config["tie_word_embeddings"] = !file.find("output.weight") || isOneOf("gpt2 bloom mpt");
    if (const GgufTensor *types = file.find("token_types.weight"))
      config["type_vocab_size"] = types->shape[0];
    const bool bias = has(".attn_q.bias") || (has(".attn_qkv.bias") && isOneOf("chatglm")),
               norms = has(".attn_q_norm.weight");
    if (isOneOf("smollm3 command-r cohere2 arcee olmo granite granitemoe granitehybrid qwen3 qwen3moe qwen3vlmoe olmo2 "
                "llama4 seed_oss nemotron apertus chatglm glm4 glm4moe dots1 hunyuan-dense hunyuan-moe hy_v3 phimoe "
                "falcon-h1 "
                "nemotron_h nemotron_h_moe qwen3next qwen35 qwen35moe gemma3n gemma4 jais2 mellum"))
      config["attention_bias"] = bias;
    if (isOneOf("llama seed_oss") && !mixtral) {
      config["attention_bias"] = bias;
      if (const bool out = has(".attn_output.bias"); out != bias)
        config["attention_out_bias"] = out;
    }
    if (isOneOf("llama arcee jais2 nemotron granite nemotron_h nemotron_h_moe falcon-h1") && !mixtral)
      config["mlp_bias"] = has(".ffn_up.bias") || has(".ffn_up_shexp.bias");
    if (isOneOf("starcoder2 ernie4_5 ernie4_5-moe"))
      config["use_bias"] = bias;
    if (isOneOf("stablelm")) {
      config["use_qkv_bias"] = bias;
      config["qk_layernorm"] = norms;
    }
    if (isOneOf("command-r glm4moe dots1"))
      config["use_qk_norm"] = norms;
    if (isOneOf("starcoder"))
      config["n_inner"] = rowsOf(".ffn_up.weight"); // the file has four times the width, always
    if (isOneOf("phi2"))
      config["intermediate_size"] = rowsOf(".ffn_up.weight");
    if (isOneOf("chatglm") && !config.contains("head_dim"))
      config["head_dim"] = int64_t(headWidth());
    if (config.value("sliding_window", 1) == 0)
      config.erase("sliding_window");
    if (isOneOf("phimoe"))
      config["lm_head_bias"] = file.find("output.bias") != nullptr;
    if (file.integer("~.expert_count").value_or(1) == 0) {
      config.erase("num_local_experts");
      config.erase("num_experts_per_tok");
    }
    if (const std::optional<int64_t> further = file.integer("~.nextn_predict_layers"))
      if (config.contains("num_hidden_layers")) // layers that guess further tokens lie behind the model's
        config["num_hidden_layers"] = std::max<int64_t>(0, layers() - *further);
  }

  void rotary() {
    if (isOneOf(
            "gpt2 starcoder bloom mpt bert modern-bert t5 mamba mamba2 nemotron_h nemotron_h_moe jamba kimi-linear"))
      return;
    if (!config.contains("rope_theta"))
      config["rope_theta"] = 10000.0;
    if (isOneOf("stablelm gptneox phi3 phi2 nemotron chatglm glm4 glm4moe qwen3next qwen35 qwen35moe") &&
        file.has("~.rope.dimension_count"))
      config[isOneOf("gptneox") ? "rotary_pct" : "partial_rotary_factor"] =
          number("~.rope.dimension_count") / headWidth();
    if (std::optional<int64_t> original = file.integer("~.rope.scaling.original_context_length");
        original && isOneOf("phi3 phimoe"))
      config["original_max_position_embeddings"] = *original;
    const GgufTensor *longer = file.find("rope_factors_long.weight"), *shorter = file.find("rope_factors_short.weight"),
                     *factors = file.find("rope_freqs.weight");
    std::string type = file.text("~.rope.scaling.type").value_or("none");
    if (longer && shorter) {
      config["rope_scaling"] = {
          {"rope_type", "longrope"}, {"long_factor", list(*longer)}, {"short_factor", list(*shorter)}};
    } else if (factors && !isOneOf("gemma4")) {
      config["rope_scaling"] = llama3(*factors);
    } else if (type == "linear" || type == "yarn") {
      Json scaling = {{"rope_type", type}, {"factor", value("~.rope.scaling.factor")}};
      for (const Field &field : ofScaling)
        if (Json found = value(field.key); !found.is_null())
          scaling[field.published] = std::move(found);
      config["rope_scaling"] = std::move(scaling);
    } else if (type != "none" && type != "longrope") {
      fail("the scaling of rotary positions " + quote(type) + " is not known");
    }
  }

  /// Llama 3's scaling is stored as what it does: a divisor for each frequency. The numbers that give it are found
  /// again: the factor is the largest divisor, 1 and 4 are the bounds of all published models, and the original length
  /// is a power of two. Other divisors are kept as they are.
  Json llama3(const GgufTensor &tensor) const {
    const std::vector<float> divisors = file.numbers(tensor);
    if (divisors.empty())
      fail("its rope_freqs.weight is empty");
    const double theta = config.at("rope_theta").get<double>(), low = 1, high = 4,
                 factor = shortest(*std::max_element(divisors.begin(), divisors.end()));
    for (double length = 1; length < 1e7; length *= 2) {
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
    return {{"rope_type", "longrope"},
            {"long_factor", list(tensor)},
            {"short_factor", list(tensor)},
            {"attention_factor", 1.0},
            {"original_max_position_embeddings", value("~.context_length")}};
  }
};

} // namespace

void GgufValues::fail(const std::string &reason) const {
  throw UserError(file.file()->name() + ": " + reason);
}

Json GgufValues::value(const char *key) const {
  std::vector<double> values = file.list(key);
  if (values.empty())
    return nullptr;
  if (values.size() > 1 && std::any_of(values.begin(), values.end(), [](double v) { return v != 0; }))
    std::erase(values, 0.0);
  if (std::any_of(values.begin(), values.end(), [&](double v) { return v != values[0]; }))
    fail(std::string("its layers differ in ") + key + ", which is not supported");
  if (!std::isfinite(values[0]))
    fail(std::string(key) + " is no number");
  if (file.isFlag(key))
    return values[0] != 0;
  if (file.isFloat(key))
    return shortest(float(values[0]));
  return values[0] == std::floor(values[0]) && std::fabs(values[0]) < 9e15 ? Json(int64_t(values[0])) : Json(values[0]);
}

double GgufValues::number(const char *key) const {
  std::optional<double> found = file.number(key);
  if (!found || !(*found > 0) || *found > 1e9)
    fail(std::string(key) + " is missing or no count");
  return *found;
}

double GgufValues::headWidth() const {
  return file.has("~.attention.key_length") ? number("~.attention.key_length")
                                            : number("~.embedding_length") / number("~.attention.head_count");
}

Json GgufValues::list(const GgufTensor &tensor) const {
  Json result = Json::array();
  for (float factor : file.numbers(tensor))
    result.push_back(shortest(factor));
  return result;
}

bool GgufValues::isOneOf(const char *words) const {
  return support::listsName(words, file.architecture());
}

int64_t GgufValues::layers() const {
  return std::clamp<int64_t>(file.integer("~.block_count").value_or(0), 0, 10000);
}

int64_t GgufValues::rowsOf(const std::string &local) const {
  const GgufTensor *tensor = file.find("blk.0" + local);
  if (!tensor || tensor->shape.empty())
    fail("it has no tensor blk.0" + local);
  return tensor->shape[0];
}

bool GgufValues::has(int64_t layer, const std::string &local) const {
  return file.find("blk." + std::to_string(layer) + local);
}

bool GgufValues::has(const std::string &local) const {
  for (int64_t layer = 0; layer < layers(); ++layer)
    if (has(layer, local))
      return true;
  return false;
}

Json ggufConfig(const GgufFile &file) {
  return Maker(file).run();
}

} // namespace quern::runtime
