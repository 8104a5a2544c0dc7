// Takes: a GGUF file and the config that the tables gave. Gives: what one family alone has in its config, or says in
// its own way.
#include "runtime/gguf/GgufConfig.h"

#include <cmath>

namespace quern::runtime {

using Json = nlohmann::json;

namespace {

class Family : GgufValues {
public:
  Family(const GgufFile &file, Json &config) : GgufValues(file), config(config) {}

  void run() {
    const std::string &family = file.architecture();
    if (isOneOf("gemma2 gemma3 gemma-embedding"))
      gemma();
    else if (isOneOf("gemma3n gemma4"))
      gemma3n();
    else if (family == "mpt")
      mpt();
    else if (family == "modern-bert")
      modernBert();
    else if (family == "starcoder")
      config["multi_query"] = file.integer("~.attention.head_count_kv").value_or(1) == 1;
    else if (family == "falcon")
      falcon();
    else if (isOneOf("granite granitemoe granitehybrid"))
      granite();
    else if (isOneOf("deepseek2 deepseek32 glm-dsa kimi-linear"))
      latents();
    else if (isOneOf("mamba mamba2"))
      mamba();
    else if (isOneOf("nemotron_h nemotron_h_moe"))
      nemotronH();
    else if (family == "jamba")
      jamba();
    else if (family == "falcon-h1")
      mambaParts();
    else if (isOneOf("lfm2 lfm2moe"))
      lfm2();
    else if (isOneOf("qwen3next qwen35 qwen35moe"))
      config["linear_value_head_dim"] = int64_t(number("~.ssm.inner_size") / number("~.ssm.time_step_rank"));
    else if (family == "qwen3moe")
      config["norm_topk_prob"] = true;
    else if (family == "glm4" && file.has("~.rope.dimension_sections"))
      fail("it is of GLM-4V, whose queries and keys are in another order in GGUF files: take the safetensors files");
    else if (isOneOf("exaone4 exaone-moe olmo2"))
      windows();
    else if (family == "mellum")
      mellum();
    else if (family == "ernie4_5-moe")
      config["moe_layer_end_index"] = lastLayer(".ffn_gate_inp.weight");
    else if (family == "phimoe")
      phimoe();
    else if (family == "hy_v3")
      hunyuan3();
    else if (family == "gpt-oss")
      gptOss();
    else if (family == "mistral3")
      mistral3();
    else if (family == "llama4")
      llama4();
    else if (family == "t5")
      t5();
    if (isOneOf("bert nomic-bert modern-bert qwen3 qwen2 llama gemma-embedding eurobert"))
      sentences();
    if (isOneOf("qwen3next qwen35 qwen35moe kimi-linear"))
      layerTypes("linear_attention", "full_attention");
  }

private:
  Json &config;

  /// Layers with a recurrence or a convolution have no queries of attention by themselves.
  bool attends(int64_t layer) const {
    for (const char *part : {".ssm_in.weight", ".ssm_a", ".shortconv.conv.weight"})
      if (has(layer, part))
        return false;
    return has(layer, ".attn_output.weight") || has(layer, ".attn_q.weight");
  }

  int64_t lastLayer(const std::string &local) const {
    int64_t last = -1;
    for (int64_t layer = 0; layer < layers(); ++layer)
      if (has(layer, local))
        last = layer;
    return last;
  }

  void layerTypes(const char *otherwise, const char *attention) {
    Json types = Json::array();
    for (int64_t layer = 0; layer < layers(); ++layer)
      types.push_back(attends(layer) ? attention : otherwise);
    config["layer_types"] = std::move(types);
  }

  /// Encoders come without the head that their words were predicted with; how words become one vector is said.
  void sentences() {
    if (isOneOf("bert") && !file.find("token_types.weight"))
      config["type_vocab_size"] = 0;
    if (isOneOf("gemma-embedding"))
      config["use_bidirectional_attention"] = true;
    for (const char *module : {"2_Dense", "3_Dense"}) // their activations are the identity
      if (const GgufTensor *weight = file.find("dense_" + std::string(module, 1) + ".weight"))
        config["dense"].push_back(
            {{"path", module}, {"out_features", weight->shape[0]}, {"bias", false}, {"activation", "linear"}});
    const bool embeds = isOneOf("gemma-embedding eurobert"); // and has no head
    const std::optional<int64_t> pooling = file.integer("~.pooling_type");
    if (!pooling && !embeds)
      return;
    constexpr const char *kinds[] = {"", "mean", "cls", "last"};
    const bool decoder = embeds || isOneOf("qwen3 qwen2 llama");
    if (pooling && (*pooling < 1 || *pooling > (decoder ? 3 : 2)))
      fail("its pooling_type is " + std::to_string(*pooling) + "; 1 (mean) and 2 (first token) are known" +
           (decoder ? ", and 3 (last token)" : ""));
    constexpr std::pair<const char *, const char *> classes[] = {{"bert", "BertModel"},
                                                                 {"nomic-bert", "NomicBertModel"},
                                                                 {"modern-bert", "ModernBertModel"},
                                                                 {"qwen3", "Qwen3Model"},
                                                                 {"qwen2", "Qwen2Model"},
                                                                 {"llama", "LlamaModel"},
                                                                 {"gemma-embedding", "Gemma3TextModel"},
                                                                 {"eurobert", "EuroBertModel"}};
    for (auto [name, published] : classes)
      if (isOneOf(name))
        config["architectures"] = {published};
    if (pooling)
      config["pooling"] = kinds[*pooling];
  }

  void modernBert() {
    if (Json theta = value("~.rope.freq_base_swa"); !theta.is_null())
      config["local_rope_theta"] = std::move(theta);
  }

  void gemma() {
    // The largest of both families scale scores by the width of a head as if heads filled the model's width.
    const bool wide = layers() == (isOneOf("gemma2") ? 46 : 62);
    config["query_pre_attn_scalar"] =
        int64_t(wide ? number("~.embedding_length") / number("~.attention.head_count") : headWidth());
  }

  /// A number for each layer, also where the file has one for all.
  std::vector<double> ofLayers(const char *key) const {
    std::vector<double> values = file.list(key);
    if (values.size() == 1)
      values.resize(size_t(layers()), values[0]);
    if (values.empty() || int64_t(values.size()) != layers())
      fail(std::string(key) + " has " + std::to_string(values.size()) + " numbers for " + std::to_string(layers()) +
           " layers");
    return values;
  }

  Json counts(const char *key) const {
    Json result = Json::array();
    for (double value : ofLayers(key)) {
      if (!(value >= 1 && value <= 1e9))
        fail(std::string(key) + " is no count");
      result.push_back(int64_t(value));
    }
    return result;
  }

  void gemma3n() {
    windows();
    if (const GgufTensor *words = file.find("per_layer_token_embd.weight"); words && words->shape.size() == 2)
      config["vocab_size_per_layer_input"] = words->shape[0];
    const Json widths = counts("~.feed_forward_length");
    if (isOneOf("gemma4"))
      return gemma4(widths);
    config["intermediate_size"] = widths;
    config["laurel_rank"] = rowsOf(".laurel_l.weight");
    if (!file.has("~.activation_sparsity_scale"))
      return;
    Json sparsity = Json::array(); // the part of a normal distribution below so many deviations
    for (double deviations : ofLayers("~.activation_sparsity_scale")) {
      if (std::isnan(deviations))
        fail("~.activation_sparsity_scale is no number");
      sparsity.push_back(std::round((1 + std::erf(deviations / std::sqrt(2))) / 2 * 1e6) / 1e6);
    }
    config["activation_sparsity_pattern"] = std::move(sparsity);
  }

  void gemma4(const Json &widths) {
    const std::vector<double> local = ofLayers("~.attention.sliding_window_pattern");
    const Json keyHeads = counts("~.attention.head_count_kv");
    const int64_t shared = file.integer("~.attention.shared_kv_layers").value_or(0);
    config["intermediate_size"] = widths.front();
    config["use_double_wide_mlp"] = widths.back() != widths.front();
    for (size_t layer = 0; layer < widths.size(); ++layer)
      if (widths[layer] != (int64_t(layer) < layers() - shared ? widths.front() : widths.back()) ||
          (widths[layer] != widths.front() && widths[layer] != 2 * widths.front().get<int64_t>()))
        fail("the widths of its layers are not those of a Gemma 4");
    Json heads = Json::object(); // of global layers
    for (size_t layer = 0; layer < local.size(); ++layer)
      if (local[layer] != 0)
        config["num_key_value_heads"] = keyHeads[layer];
      else
        heads[std::to_string(layer)] = {{"head_dim", int64_t(headWidth())}, {"num_key_value_heads", keyHeads[layer]}};
    config["per_layer_config"] = std::move(heads);
    config["enable_moe_block"] = has(".ffn_gate_inp.weight");
    config["attention_k_eq_v"] = false;
    for (int64_t layer = 0; layer < layers(); ++layer)
      if (has(layer, ".attn_k.weight") && !has(layer, ".attn_v.weight"))
        config["attention_k_eq_v"] = true;
    const Json near = value("~.rope.freq_base_swa");
    config["rope_parameters"] = {
        {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", near.is_null() ? Json(10000.0) : near}}},
        {"full_attention",
         {{"rope_type", "proportional"}, {"rope_theta", config["rope_theta"]}, {"partial_rotary_factor", rotating()}}}};
    for (const char *elsewhere : {"rope_theta", "rope_local_base_freq", "rope_scaling"})
      config.erase(elsewhere);
  }

  /// The part of a global head's pairs that rotate: the divisors of their frequencies are 1, those of the others 1e30.
  double rotating() const {
    const GgufTensor *divisors = file.find("rope_freqs.weight");
    if (!divisors)
      return 1;
    double count = 0, all = 0;
    for (float divisor : file.numbers(*divisors)) {
      if (divisor == 1 ? count != all : divisor < 1e29f)
        fail("the divisors of its rope_freqs.weight are not those of a Gemma 4");
      count += divisor == 1;
      ++all;
    }
    const double part = all ? count / all : 1;
    return std::floor(part * all) < count ? std::nextafter(part, 2) : part;
  }

  void mpt() {
    config.erase("intermediate_size");
    config["expansion_ratio"] = int64_t(number("~.feed_forward_length") / number("~.embedding_length"));
    config["attn_config"] = {{"alibi", true}, {"alibi_bias_max", value("~.attention.max_alibi_bias")}};
    if (file.number("~.attention.clamp_kqv").value_or(0) > 0)
      config["attn_config"]["clip_qkv"] = value("~.attention.clamp_kqv");
  }

  /// Falcon 7B has one head of keys; 40B and later have groups, and 40B two norms a layer.
  void falcon() {
    const bool groups = number("~.attention.head_count_kv") > 1;
    config["new_decoder_architecture"] = groups;
    config["multi_query"] = !groups;
    if (groups)
      config["num_ln_in_parallel_attn"] = has(".attn_norm_2.weight") ? 2 : 1;
  }

  void granite() {
    const Json scale = value("~.attention.scale");
    config["attention_multiplier"] = scale.is_null() ? Json(1 / std::sqrt(headWidth())) : scale;
    if (isOneOf("granitemoe") && config.contains("shared_intermediate_size"))
      config["model_type"] = "granitemoeshared";
    if (!isOneOf("granitehybrid"))
      return;
    mambaParts();
    layerTypes("mamba", "attention");
    config["position_embedding_type"] = file.flag("~.rope.scaling.finetuned", false) ? "rope" : "nope";
    if (has(".ffn_gate_inp.weight"))
      return;
    config["shared_intermediate_size"] = value("~.feed_forward_length");
    config["num_local_experts"] = 0;
  }

  void mambaParts() {
    config["mamba_conv_bias"] = has(".ssm_conv1d.bias");
    config["mamba_proj_bias"] = has(".ssm_in.bias");
    if (!isOneOf("falcon-h1")) {
      config["mamba_expand"] = int64_t(number("~.ssm.inner_size") / number("~.embedding_length"));
      return;
    }
    config["projectors_bias"] = has(".ssm_out.bias"); // its many multipliers are part of the weights in the file
    config["mamba_rms_norm"] = has(".ssm_norm.weight");
  }

  void latents() {
    const double rotated = number("~.rope.dimension_count");
    const bool apart = file.has("~.attention.key_length_mla"); // else the lengths of whole heads, not of latents
    config["qk_rope_head_dim"] = int64_t(rotated);
    config["qk_nope_head_dim"] =
        int64_t(number(apart ? "~.attention.key_length_mla" : "~.attention.key_length") - rotated);
    config["v_head_dim"] = int64_t(number(apart ? "~.attention.value_length_mla" : "~.attention.value_length"));
    if (isOneOf("kimi-linear")) {
      for (int64_t layer = 0; layer < layers(); ++layer)
        if (const GgufTensor *heads = file.find("blk." + std::to_string(layer) + ".ssm_beta.weight"))
          config["linear_num_heads"] = heads->shape[0];
      return;
    }
    if (!isOneOf("deepseek2")) {
      indexer();
    } else if (!has(".ffn_gate_inp.weight")) { // no layer has experts
      config["model_type"] = "youtu";
      for (const char *ofExperts : {"n_shared_experts", "moe_intermediate_size"})
        config.erase(ofExperts);
    } else if (has(".exp_probs_b.bias")) {
      config["model_type"] = "deepseek_v3";
    } else {
      config["topk_method"] = file.integer("~.expert_group_count").value_or(1) > 1 ? "group_limited_greedy" : "greedy";
    }
    if (!file.has("~.expert_weights_norm"))
      config.erase("norm_topk_prob");
    if (const std::optional<double> logarithm = file.number("~.rope.scaling.yarn_log_multiplier");
        logarithm && config.contains("rope_scaling")) // all published models have the same for both
      config["rope_scaling"]["mscale"] = config["rope_scaling"]["mscale_all_dim"] = std::round(*logarithm * 1e5) / 1e4;
  }

  void indexer() {
    for (double chooses : file.list("~.attention.indexer.types"))
      config["indexer_types"].push_back(chooses != 0 ? "full" : "shared");
  }

  void mamba() {
    config["use_bias"] = has(".ssm_in.bias");
    config["use_conv_bias"] = has(".ssm_conv1d.bias");
    const double inner = number("~.ssm.inner_size"), width = number("~.embedding_length");
    config["expand"] = int64_t(inner / width);
    if (isOneOf("mamba2")) {
      config["head_dim"] = int64_t(inner / number("~.ssm.time_step_rank"));
      config.erase("intermediate_size");
    } else if (file.flag("~.ssm.dt_b_c_rms", false)) {
      config["model_type"] = "falcon_mamba";
    }
  }

  void nemotronH() {
    std::string kinds;
    for (int64_t layer = 0; layer < layers(); ++layer)
      kinds += has(layer, ".ssm_in.weight")         ? 'M'
               : has(layer, ".attn_q.weight")       ? '*'
               : has(layer, ".ffn_gate_inp.weight") ? 'E'
                                                    : '-';
    config["hybrid_override_pattern"] = kinds;
    config["mamba_head_dim"] = int64_t(number("~.ssm.inner_size") / number("~.ssm.time_step_rank"));
    config["use_bias"] = has(".ssm_in.bias");
    config["use_conv_bias"] = has(".ssm_conv1d.bias");
    for (int64_t layer = 0; layer < layers(); ++layer)
      if (const GgufTensor *up = file.find("blk." + std::to_string(layer) + ".ffn_up.weight"); up && !up->shape.empty())
        config["intermediate_size"] = up->shape[0];
  }

  /// Which layers attend, and which have experts, is said by a period and an offset.
  void jamba() {
    mambaParts();
    periods("attn_layer", [&](int64_t layer) { return attends(layer); });
    periods("expert_layer", [&](int64_t layer) { return has(layer, ".ffn_gate_inp.weight"); });
  }

  template <typename Test> void periods(const std::string &name, Test is) {
    std::vector<int64_t> those;
    for (int64_t layer = 0; layer < layers(); ++layer)
      if (is(layer))
        those.push_back(layer);
    const int64_t first = those.empty() ? layers() : those[0],
                  period = those.size() > 1 ? those[1] - first : layers() + 1;
    for (int64_t layer = 0; layer < layers(); ++layer)
      if (is(layer) != (layer % period == first % period))
        fail("its layers are not in the order of a Jamba's (" + name + ")");
    config[name + "_period"] = period;
    config[name + "_offset"] = first;
  }

  void lfm2() {
    layerTypes("conv", "full_attention");
    config["conv_bias"] = has(".shortconv.in_proj.bias");
    config["block_auto_adjust_ff_dim"] = false; // the file has the adjusted width
  }

  /// Which layers see a window is a list of flags.
  void windows() {
    const std::vector<double> local = file.list("~.attention.sliding_window_pattern");
    if (!file.has("~.attention.sliding_window"))
      return;
    if (isOneOf("olmo2"))
      config["model_type"] = "olmo3";
    if (local.size() < 2)
      return;
    Json types = Json::array();
    for (double flag : local)
      types.push_back(flag != 0 ? "sliding_attention" : "full_attention");
    config["layer_types"] = std::move(types);
  }

  /// Layers with a window have a rotary base of their own, and only the others scale their frequencies.
  void mellum() {
    windows();
    const Json base = config["rope_theta"], near = value("~.rope.freq_base_swa");
    Json far = config.value("rope_scaling", Json{{"rope_type", "default"}});
    far["rope_theta"] = base;
    config["rope_parameters"] = {
        {"full_attention", std::move(far)},
        {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", near.is_null() ? base : near}}}};
    for (const char *elsewhere : {"rope_theta", "rope_scaling"})
      config.erase(elsewhere);
  }

  void hunyuan3() {
    config["n_shared_experts"] =
        int64_t(number("~.expert_shared_feed_forward_length") / number("~.expert_feed_forward_length"));
    int64_t dense = 0;
    while (dense < layers() && !has(dense, ".ffn_gate_inp.weight"))
      ++dense;
    config["first_k_dense_replace"] = dense;
  }

  /// Published models say their factors on the scores; the file has one for both lengths.
  void phimoe() {
    if (Json factor = value("~.rope.scaling.attn_factor"); !factor.is_null() && config.contains("rope_scaling"))
      config["rope_scaling"]["short_mscale"] = config["rope_scaling"]["long_mscale"] = std::move(factor);
  }

  void gptOss() {
    if (Json width = value("~.expert_feed_forward_length"); !width.is_null())
      config["intermediate_size"] = std::move(width);
    if (config.contains("rope_scaling"))
      config["rope_scaling"]["truncate"] = false; // as in all published models
  }

  void mistral3() {
    Json grows = value("~.attention.temperature_scale");
    if (grows.is_null() || !config.contains("rope_scaling"))
      return;
    config["model_type"] = "ministral3";
    config["rope_scaling"]["llama_4_scaling_beta"] = std::move(grows);
    if (Json factor = value("~.rope.scaling.yarn_log_multiplier"); !factor.is_null()) // the same for both, as published
      config["rope_scaling"]["mscale"] = config["rope_scaling"]["mscale_all_dim"] = std::move(factor);
  }

  void llama4() {
    config["use_qk_norm"] = file.integer("~.expert_count") != 128; // as llama.cpp knows Maverick
    if (file.integer("~.attention.sliding_window") == 0) {         // no chunks, and positions in all layers
      config["layer_types"] = std::vector<std::string>(size_t(layers()), "full_attention");
      config["no_rope_layer_interval"] = layers() + 1;
    }
  }

  void t5() {
    config["feed_forward_proj"] = file.find("enc.blk.0.ffn_gate.weight") ? "gated-gelu" : "relu";
    if (file.find("enc.blk.1.attn_rel_b.weight")) // positions of each layer, not of the first alone
      config["model_type"] = "umt5";
  }
};

} // namespace

void addOfFamily(const GgufFile &file, Json &config) {
  Family(file, config).run();
}

} // namespace quern::runtime
