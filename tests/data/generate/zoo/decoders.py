"""More decoders, small: what `architectures.py` does for the first thirty. One fixture a checkpoint class, at most 150 KB."""
import transformers as tf

from architectures import ARCH, EPS, QK_NORM, QKV_BIAS, TOK, Arch, llama_like, rope

FLAT = dict(rope_parameters=None, rope_theta=10000.0)        # how files before transformers 5 give the rotary base
SOME = [r"layers\.1\.self_attn\.[qkv]_proj\.weight", r"layers\.0\.input_layernorm\.weight"]
EXPERTS = [r"layers\.0\.mlp\.gate\.weight", r"layers\.1\.mlp\.experts\.1\.down_proj\.weight"]


def tiny(**kw):
    return llama_like(**{**dict(vocab_size=48, hidden_size=24, intermediate_size=40), **kw})


def decoder(name, config, model, kw, notes, grads=SOME, **more):
    ARCH[name] = Arch("causal", config, model, kw, grads, notes, **{**dict(classic=FLAT), **more})


# ---------------------------------------------------------------- relatives of Llama
decoder("seed-oss", tf.SeedOssConfig, tf.SeedOssForCausalLM, tiny(head_dim=8, attention_bias=True, attention_out_bias=False, residual_dropout=0.0, attention_dropout=0.0),
        "llama block with biases on q, k, v and none on o, head_dim 8 (4 heads of 8 in a width of 24), untied head.", SOME + QKV_BIAS)
decoder("iquestcoder", tf.IQuestCoderConfig, tf.LlamaForCausalLM, tiny(head_dim=8),
        "Llama's class under another model_type, head_dim 8 (4 heads of 8 in a width of 24), untied head. Published files name a class that transformers lacks.",
        classic=dict(FLAT, architectures=["IQuestCoderForCausalLM"], clip_qkv=None, use_sliding_window=False, sliding_window=None, max_window_layers=0))

decoder("qwen3", tf.Qwen3Config, tf.Qwen3ForCausalLM, tiny(head_dim=8, tie_word_embeddings=True, use_sliding_window=False),
        "llama block with RMSNorm over each head of q and k before the rotation, head_dim 8, tied head.", SOME + QK_NORM, emb_std=0.5, signed_norm="model.norm.weight",
        classic=dict(FLAT, layer_types=None))
MOE = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, output_router_logits=False, use_sliding_window=False)
decoder("qwen3-moe", tf.Qwen3MoeConfig, tf.Qwen3MoeForCausalLM, tiny(head_dim=8, num_hidden_layers=3, mlp_only_layers=[1], norm_topk_prob=True, **MOE),
        "qwen3's attention; 4 experts, top 2, softmax over all, renormalised; the second of three layers is dense.",
        SOME + [r"layers\.0\.mlp\.gate\.weight", r"layers\.2\.mlp\.experts\.1\.down_proj\.weight"])
decoder("qwen2-moe", tf.Qwen2MoeConfig, tf.Qwen2MoeForCausalLM, tiny(shared_expert_intermediate_size=20, norm_topk_prob=False, decoder_sparse_step=2, **MOE),
        "qwen2's attention (biases on q, k, v); first layer dense, second with 4 experts, top 2, softmax over all, not renormalised, and a shared one with a gate.",
        SOME + QKV_BIAS + [r"layers\.1\.mlp\.gate\.weight", r"layers\.1\.mlp\.shared_expert_gate\.weight"], classic=dict(FLAT, layer_types=None))
MELLUM_YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16, attention_factor=1.2)
decoder("mellum", tf.MellumConfig, tf.MellumForCausalLM,
        tiny(head_dim=8, sliding_window=5, norm_topk_prob=True, layer_types=["sliding_attention", "full_attention"], mlp_layer_types=["sparse", "dense"],
             rope_parameters=dict(full_attention=rope(500.0, **MELLUM_YARN), sliding_attention=rope(100.0)), **{k: v for k, v in MOE.items() if k != "use_sliding_window"}),
        "qwen3-moe; the first layer has experts, a window of 5 and a rotary base of its own, the second is dense and stretches its frequencies (yarn).",
        SOME + [r"layers\.0\.mlp\.gate\.weight", r"layers\.0\.mlp\.experts\.1\.down_proj\.weight"], classic=dict(num_nextn_predict_layers=1, mtp_layer_types=["sliding_attention"], mtp_mlp_layer_types=["sparse"]))

decoder("phi4-mini", tf.Phi3Config, tf.Phi3ForCausalLM,
        tiny(tie_word_embeddings=True, hidden_size=32, original_max_position_embeddings=16, sliding_window=None, resid_pdrop=0.0, embd_pdrop=0.0, attention_dropout=0.0,
             rope_parameters=rope(10000.0, rope_type="longrope", short_factor=[1.0, 1.1, 1.2], long_factor=[1.0, 1.9, 4.0], original_max_position_embeddings=16, factor=4.0, partial_rotary_factor=0.75)),
        "phi3 with a tied head and longrope on three quarters of a head.", [r"layers\.1\.self_attn\.qkv_proj\.weight", r"embed_tokens\.weight"], emb_std=0.5, signed_norm="model.norm.weight",
        classic=dict(FLAT, rope_scaling=dict(type="longrope", short_factor=[1.0, 1.1, 1.2], long_factor=[1.0, 1.9, 4.0]), partial_rotary_factor=0.75))
decoder("olmo", tf.OlmoConfig, tf.OlmoForCausalLM, {k: v for k, v in tiny(clip_qkv=0.9).items() if k != "rms_norm_eps"},
        "LayerNorm without parameters (epsilon 1e-5), queries, keys and values clipped to +-0.9, rotate-half, untied head.", [r"layers\.1\.self_attn\.[qkvo]_proj\.weight", r"layers\.0\.mlp\.gate_proj\.weight"])
OLMO = [r"layers\.1\.self_attn\.[qkv]_proj\.weight", r"layers\.0\.self_attn\.[qk]_norm\.weight", r"layers\.0\.post_feedforward_layernorm\.weight"]
decoder("olmo2", tf.Olmo2Config, tf.Olmo2ForCausalLM, tiny(), "Norms after attention and MLP instead of before, RMSNorm over the whole width of q and k, rotate-half, untied head.", OLMO)
YARN = dict(rope_type="yarn", factor=4.0, beta_fast=8.0, beta_slow=1.0, original_max_position_embeddings=16, attention_factor=1.2)
decoder("olmo3", tf.Olmo3Config, tf.Olmo3ForCausalLM,
        tiny(sliding_window=5, layer_types=["sliding_attention", "full_attention"],
             rope_parameters=dict(sliding_attention=rope(500000.0), full_attention=rope(500000.0, **YARN))),
        "olmo2 with a window of 5 on the first layer; the second sees everything and scales its rotary frequencies (yarn).", OLMO,
        classic=dict(rope_parameters=None, rope_theta=500000.0, rope_scaling=YARN))

decoder("granite", tf.GraniteConfig, tf.GraniteForCausalLM,
        tiny(tie_word_embeddings=True, embedding_multiplier=3.0, logits_scaling=1.7, residual_multiplier=0.6, attention_multiplier=0.3, mlp_bias=False, attention_bias=False),
        "llama block with four multipliers: embeddings times 3, scores times 0.3 (instead of 1/sqrt(6)), what a half layer adds times 0.6, logits divided by 1.7; tied head.", emb_std=0.3,
        signed_norm="model.norm.weight")
GRANITE_MOE = dict(num_local_experts=4, num_experts_per_tok=2, intermediate_size=16, output_router_logits=False, embedding_multiplier=1.5, logits_scaling=0.7, residual_multiplier=0.6,
                   attention_multiplier=0.3, tie_word_embeddings=True)
GRANITE_GRADS = SOME + [r"layers\.0\.block_sparse_moe\.router\.layer\.weight", r"layers\.1\.block_sparse_moe\.(in|out)put_linear\.weight", r"layers\.1\.shared_mlp\.input_linear\.weight"]
decoder("granitemoe", tf.GraniteMoeConfig, tf.GraniteMoeForCausalLM, tiny(**GRANITE_MOE),
        "granite with 4 experts stored in one tensor (gate rows, then up rows), top 2, softmax over the two chosen.", GRANITE_GRADS, emb_std=0.5, signed_norm="model.norm.weight")
decoder("granitemoeshared", tf.GraniteMoeSharedConfig, tf.GraniteMoeSharedForCausalLM, tiny(shared_intermediate_size=20, **GRANITE_MOE),
        "granitemoe with an MLP that every token passes beside its experts.", GRANITE_GRADS, emb_std=0.5, signed_norm="model.norm.weight")
SINKS = [r"layers\.1\.self_attn\.sinks", r"layers\.1\.block_sparse_moe\.experts\.gate_up_proj"]
decoder("granite-swa", tf.GraniteSWAConfig, tf.GraniteSWAForCausalLM,
        tiny(sliding_window=5, layer_types=["full_attention", "sliding_attention"], layer_rope_theta=[0, 500.0], tie_word_embeddings=True,
             embedding_multiplier=3.0, logits_scaling=1.7, residual_multiplier=0.6, attention_multiplier=0.3, mlp_bias=False, attention_bias=False),
        "granite with sinks in attention: the first layer sees everything and has no positions, the second has a window of 5 and a rotary base of its own.", SOME + SINKS, emb_std=0.3,
        signed_norm="model.norm.weight", classic=dict(FLAT, layer_types=None))
decoder("granitemoe-swa", tf.GraniteMoeSWAConfig, tf.GraniteMoeSWAForCausalLM,
        tiny(sliding_window=5, layer_types=["full_attention", "sliding_attention"], shared_intermediate_size=20, **GRANITE_MOE),
        "granitemoeshared with granite-swa's attention, one rotary base; files name its experts otherwise.", GRANITE_GRADS + SINKS, emb_std=0.5, signed_norm="model.norm.weight",
        classic=dict(FLAT, layer_types=None, layer_rope_theta=None))
decoder("hyperclovax", tf.HyperCLOVAXConfig, tf.HyperCLOVAXForCausalLM,
        tiny(head_dim=8, embedding_multiplier=3.0, logits_scaling=0.6, residual_multiplier=0.6, attention_multiplier=0.3, mlp_bias=False, attention_bias=False, use_post_norm=True),
        "granite with norms behind attention and MLP, head_dim 8, logits times 0.6 (not divided), untied head.", SOME + [r"layers\.0\.post_norm[12]\.weight"])

decoder("cohere2", tf.Cohere2Config, tf.Cohere2ForCausalLM,
        tiny(num_hidden_layers=3, intermediate_size=32, logit_scale=0.25, tie_word_embeddings=True, layer_norm_eps=EPS, sliding_window=5, layer_types=["sliding_attention", "sliding_attention", "full_attention"]),
        "cohere without q/k norms: two layers with a window of 5 and rotary pairs, then one that sees everything and has no positions.", emb_std=1.0, signed_norm="model.norm.weight",
        classic=dict(FLAT, layer_types=None, sliding_window_pattern=3))

decoder("gemma2", tf.Gemma2Config, tf.Gemma2ForCausalLM,
        tiny(head_dim=8, query_pre_attn_scalar=20, sliding_window=5, tie_word_embeddings=True, hidden_activation="gelu_pytorch_tanh", attn_logit_softcapping=1.5, final_logit_softcapping=4.0,
             layer_types=["sliding_attention", "full_attention"]),
        "Gemma 2: four norms a layer (1 + w), scores capped at 1.5 and logits at 4, first layer with a window of 5, embeddings times sqrt(24), tied head.", emb_std=0.35,
        classic=dict(FLAT, layer_types=None, hidden_act="gelu_pytorch_tanh"), signed_norm="model.norm.weight")

decoder("vaultgemma", tf.VaultGemmaConfig, tf.VaultGemmaForCausalLM,
        tiny(head_dim=8, query_pre_attn_scalar=20, sliding_window=5, tie_word_embeddings=True, attn_logit_softcapping=1.5, final_logit_softcapping=4.0, layer_types=["sliding_attention", "full_attention"]),
        "gemma2 without the norms behind attention and MLP.", emb_std=0.35, classic=dict(FLAT, layer_types=None), signed_norm="model.norm.weight")

# Global layers rotate a quarter of each of their pairs' frequencies: of 8 pairs two.
GEMMA4 = dict(head_dim=8, global_head_dim=16, sliding_window=5, tie_word_embeddings=True, vocab_size_per_layer_input=48, hidden_size_per_layer_input=0, layer_types=["sliding_attention", "full_attention"],
              rope_parameters=dict(sliding_attention=rope(10000.0), full_attention=rope(1000000.0, rope_type="proportional", partial_rotary_factor=0.25)))
GEMMA4_GRADS = [r"layers\.[01]\.self_attn\.[qk]_proj\.weight", r"layers\.1\.self_attn\.k_norm\.weight"]
PER_LAYER = [r"layers\.1\.per_layer_input_gate\.weight", r"per_layer_projection_norm\.weight", r"model\.per_layer_model_projection\.weight"]
PUBLISHED4 = dict(per_layer_config=None, global_head_dim=16)  # what published files say of global layers, and transformers 5 writes as per_layer_config
decoder("gemma4", tf.Gemma4TextConfig, tf.Gemma4ForCausalLM,
        tiny(**GEMMA4, num_global_key_value_heads=1, attention_k_eq_v=True, final_logit_softcapping=4.0),
        "Gemma 4, dense: local layers with heads of 8, global ones with heads of 16, one key head, no value matrix and two rotating pairs of 8; norms on queries, keys and values, scores not scaled, "
        "logits capped at 4, each layer's result times a stored number.", GEMMA4_GRADS, emb_std=0.35, signed_norm="model.norm.weight", classic=dict(PUBLISHED4, num_global_key_value_heads=1))
decoder("gemma4-moe", tf.Gemma4TextConfig, tf.Gemma4ForCausalLM,
        tiny(**GEMMA4, enable_moe_block=True, num_experts=4, top_k_experts=2, moe_intermediate_size=12),
        "gemma4 with 4 experts, top 2, beside each MLP; global layers have as many key heads as local ones.",
        GEMMA4_GRADS + [r"layers\.1\.router\.(scale|per_expert_scale|proj\.weight)", r"layers\.1\.experts\.down_proj"], emb_std=0.35, signed_norm="model.norm.weight", classic=PUBLISHED4)
decoder("gemma4-ple", tf.Gemma4TextConfig, tf.Gemma4ForCausalLM,
        tiny(**{**GEMMA4, "hidden_size": 16, "intermediate_size": 20, "hidden_size_per_layer_input": 6, "layer_types": ["sliding_attention", "full_attention"] * 2}, num_hidden_layers=4, num_kv_shared_layers=2, use_double_wide_mlp=True),
        "gemma4 with an embedding for each layer, and two layers that use the keys and values of the last local and global one before; their MLPs are twice as wide.",
        GEMMA4_GRADS + PER_LAYER, emb_std=0.35, signed_norm="model.norm.weight", classic=PUBLISHED4)

decoder("gemma3n", tf.Gemma3nTextConfig, tf.Gemma3nForCausalLM,
        tiny(hidden_size=16, intermediate_size=[16, 20, 16, 20], head_dim=6, num_hidden_layers=4, num_kv_shared_layers=2, layer_types=["sliding_attention", "full_attention"] * 2, sliding_window=5,
             vocab_size_per_layer_input=40, hidden_size_per_layer_input=5, altup_num_inputs=3, altup_active_idx=1, laurel_rank=3, activation_sparsity_pattern=[0.7, 0.0, 0.6, 0.0],
             final_logit_softcapping=4.0, tie_word_embeddings=True, rope_parameters=dict(sliding_attention=rope(10000.0), full_attention=rope(1000000.0))),
        "Gemma 3n: three residual streams of which the second passes the layers, a projection of rank 3 beside attention, gates above 0.7 and 0.6 of a normal distribution in every second layer, "
        "two layers with the keys and values of others, embeddings for each layer (40 of 48 words have one), logits capped at 4.",
        GEMMA4_GRADS + PER_LAYER + [r"layers\.2\.altup\.(prediction|correction)_coefs\.weight", r"layers\.0\.mlp\.gate_proj\.weight", r"altup_unembed_projections\.1\.weight"], emb_std=0.35,
        signed_norm="model.norm.weight", classic=dict(rope_parameters=None, rope_theta=1000000.0, rope_local_base_freq=10000.0, rope_scaling=None))

GLM = dict(head_dim=8, attention_bias=True, rope_parameters=rope(10000.0, partial_rotary_factor=0.5))
GLM_CLASSIC = dict(FLAT, partial_rotary_factor=0.5)
decoder("glm", tf.GlmConfig, tf.GlmForCausalLM, tiny(**GLM), "Rotary pairs of neighbours on half of each head, biases on q, k, v, fused gate_up_proj, untied head.",
        SOME + QKV_BIAS, classic=GLM_CLASSIC)
decoder("glm4", tf.Glm4Config, tf.Glm4ForCausalLM, tiny(**GLM), "glm with norms also behind attention and MLP.", SOME + [r"layers\.0\.post_mlp_layernorm\.weight"], classic=GLM_CLASSIC)

decoder("helium", tf.HeliumConfig, tf.HeliumForCausalLM, tiny(head_dim=6), "llama block with rotary pairs of neighbours.")
decoder("ernie4-5", tf.Ernie4_5Config, tf.Ernie4_5ForCausalLM, tiny(head_dim=8, use_bias=True, tie_word_embeddings=True),
        "llama block with rotary pairs of neighbours and biases everywhere, tied head.", SOME + QKV_BIAS + [r"layers\.1\.mlp\.down_proj\.bias"], emb_std=0.5, signed_norm="model.norm.weight")

# ---------------------------------------------------------------- recurrences over time
decoder("falcon-mamba", tf.FalconMambaConfig, tf.FalconMambaForCausalLM,
        dict(vocab_size=48, hidden_size=24, state_size=6, num_hidden_layers=2, layer_norm_epsilon=EPS, mixer_rms_eps=2 * EPS, expand=2, conv_kernel=4, time_step_rank=3, use_bias=True, **TOK),
        "mamba with RMSNorm without a factor on the step, b and c.", [r"layers\.0\.mixer\.(A_log|D)", r"layers\.1\.mixer\.(x|dt)_proj\.weight"], emb_std=0.5, shifts={"A_log": -1.0},
        signed_norm="norm_f.weight", classic={})
decoder("mamba2", tf.Mamba2Config, tf.Mamba2ForCausalLM,
        dict(vocab_size=48, hidden_size=24, state_size=6, num_hidden_layers=2, layer_norm_epsilon=EPS, expand=2, num_heads=6, head_dim=8, n_groups=2, conv_kernel=4, chunk_size=8,
             use_bias=True, tie_word_embeddings=False, **TOK),
        "Mamba 2: one decay a head, 6 heads of 8 in 2 groups that share b and c, RMSNorm over each group after the gate. A_log is shifted by -1.",
        [r"layers\.0\.mixer\.(A_log|D|dt_bias)", r"layers\.1\.mixer\.(conv1d|norm)\.weight"], shifts={"A_log": -1.0}, classic={})
decoder("rwkv", tf.RwkvConfig, tf.RwkvForCausalLM,
        dict(vocab_size=48, context_length=64, hidden_size=24, num_hidden_layers=2, attention_hidden_size=24, intermediate_size=40, layer_norm_epsilon=EPS, tie_word_embeddings=False, **TOK),
        "RWKV 4: a decaying average of values with weights exp(key), a bonus for the newest; tokens mixed with the one before; squared ReLU. time_decay is shifted by -1.5.",
        [r"blocks\.0\.attention\.time_(decay|first|mix_key)", r"blocks\.1\.feed_forward\.(key|receptance)\.weight"], shifts={"time_decay": -1.5}, classic={})

# ---------------------------------------------------------------- others
FALCON = dict(vocab_size=48, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=64, layer_norm_epsilon=EPS, hidden_dropout=0.0, attention_dropout=0.0, **TOK)
FALCON_GRADS = [r"h\.0\.self_attention\.query_key_value\.weight", r"h\.1\.mlp\.dense_h_to_4h\.weight", r"ln_f\.(weight|bias)"]
decoder("falcon", tf.FalconConfig, tf.FalconForCausalLM, dict(FALCON, multi_query=True, parallel_attn=True, bias=False, alibi=False),
        "Falcon 7B: one key/value head, one norm feeds attention and MLP, rotate-half, tied head.", FALCON_GRADS, emb_std=0.5, signed_norm="ln_f.weight")
decoder("falcon-40b", tf.FalconConfig, tf.FalconForCausalLM, dict(FALCON, new_decoder_architecture=True, num_kv_heads=2, parallel_attn=True, bias=False, alibi=False),
        "Falcon 40B: q, k, v by groups (two key/value heads), a norm each for attention and MLP.", FALCON_GRADS, emb_std=0.5, signed_norm="ln_f.weight")
decoder("phi", tf.PhiConfig, tf.PhiForCausalLM, tiny(num_key_value_heads=4, hidden_size=32, layer_norm_eps=EPS, resid_pdrop=0.0, embd_pdrop=0.0, attention_dropout=0.0, rope_parameters=rope(10000.0, partial_rotary_factor=0.5)),
        "Phi 1 and 2: one LayerNorm feeds attention and MLP in parallel, half of each head rotates, biases everywhere, untied head with a bias.", SOME + QKV_BIAS + [r"lm_head\.bias"],
        classic=dict(FLAT, partial_rotary_factor=0.5))
decoder("gpt-neo", tf.GPTNeoConfig, tf.GPTNeoForCausalLM,
        dict(vocab_size=48, hidden_size=24, num_layers=2, attention_types=[[["global", "local"], 1]], num_heads=4, intermediate_size=40, window_size=5, max_position_embeddings=64, resid_dropout=0.0, embed_dropout=0.0,
             attention_dropout=0.0, layer_norm_epsilon=EPS, **TOK),
        "gpt2's block with separate projections, no scaling of scores, the second layer with a window of 5; tied head.", [r"h\.[01]\.attn\.attention\.[qkv]_proj\.weight", r"wpe\.weight", r"h\.1\.mlp\.c_fc\.bias"],
        emb_std=0.5, signed_norm="ln_f.weight", classic={})
decoder("olmoe", tf.OlmoeConfig, tf.OlmoeForCausalLM, tiny(intermediate_size=16, num_experts=4, num_experts_per_tok=2, norm_topk_prob=False, output_router_logits=False, clip_qkv=None),
        "RMSNorm over the whole width of q and k, norms before each half layer; 4 experts, top 2, softmax over all, not renormalised.", SOME + QK_NORM + EXPERTS)
decoder("flex-olmo", tf.FlexOlmoConfig, tf.FlexOlmoForCausalLM, tiny(intermediate_size=12, num_experts=4, num_experts_per_tok=2, norm_topk_prob=False, output_router_logits=False),
        "olmo2 (norms behind attention and experts, RMSNorm over the whole width of q and k); 4 experts, top 2, softmax over all, not renormalised.", OLMO + EXPERTS)
DEEP_YARN = dict(rope_type="yarn", factor=4.0, beta_fast=8.0, beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0, original_max_position_embeddings=16)
decoder("deepseek-v3", tf.DeepseekV3Config, tf.DeepseekV3ForCausalLM,
        tiny(num_key_value_heads=4, moe_intermediate_size=8, n_routed_experts=8, n_shared_experts=1, n_group=4, topk_group=2, num_experts_per_tok=3, routed_scaling_factor=1.5, norm_topk_prob=True, first_k_dense_replace=1,
             q_lora_rank=10, kv_lora_rank=12, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=5, rope_interleave=True, intermediate_size=24,
             rope_parameters=rope(500.0, **DEEP_YARN)),
        "Latent attention (queries through 10, keys and values through 12 dims, 4 rotary dims shared by the heads); first layer dense, second with 8 experts in 4 groups: the best 2 groups by their two best, top 3 of sigmoid + bias, "
        "weights without the bias, normalised, times 1.5; a shared expert; yarn, whose factor goes into the scores.",
        [r"layers\.0\.self_attn\.(q_a_proj|q_b_proj|kv_a_proj_with_mqa|kv_b_proj)\.weight", r"layers\.1\.mlp\.gate\.weight", r"layers\.1\.mlp\.experts\.1\.down_proj\.weight", r"layers\.1\.mlp\.shared_experts\.up_proj\.weight"],
        classic=dict(rope_parameters=None, rope_theta=500.0, rope_scaling=DEEP_YARN))
decoder("gpt-oss", tf.GptOssConfig, tf.GptOssForCausalLM,
        tiny(head_dim=8, intermediate_size=16, num_local_experts=4, num_experts_per_tok=2, sliding_window=5, layer_types=["sliding_attention", "full_attention"], attention_bias=True, swiglu_limit=1.5, output_router_logits=False,
             rope_parameters=rope(500.0, rope_type="yarn", factor=4.0, beta_fast=8.0, beta_slow=1.0, truncate=False, original_max_position_embeddings=16)),
        "One more score a head without a value (sink), first layer with a window of 5, yarn; 4 experts in one tensor each with biases, gate and up in turns, clamped at 1.5, top 2, softmax over the chosen.",
        SOME + QKV_BIAS + [r"layers\.[01]\.self_attn\.sinks", r"layers\.1\.mlp\.router\.(weight|bias)", r"layers\.1\.mlp\.experts\.(gate_up|down)_proj_bias"],
        classic=dict(rope_parameters=None, rope_theta=500.0, rope_scaling=dict(rope_type="yarn", factor=4.0, beta_fast=8.0, beta_slow=1.0, truncate=False, original_max_position_embeddings=16), layer_types=None))
decoder("jamba", tf.JambaConfig, tf.JambaForCausalLM,
        dict(vocab_size=48, hidden_size=16, intermediate_size=20, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, rms_norm_eps=EPS, num_experts=3, num_experts_per_tok=2, expert_layer_period=2, expert_layer_offset=1,
             attn_layer_period=3, attn_layer_offset=1, mamba_d_state=6, mamba_d_conv=4, mamba_expand=2, mamba_dt_rank=3, mamba_proj_bias=True, use_mamba_kernels=False, tie_word_embeddings=False, **TOK),
        "Mamba with norms on step, b and c in layers 0 and 2, attention without positions in layer 1, whose MLP has 3 experts, top 2, softmax over all, not renormalised. A_log is shifted by -1.",
        [r"layers\.0\.mamba\.(A_log|D)", r"layers\.2\.mamba\.(dt|b|c)_layernorm\.weight", r"layers\.1\.feed_forward\.router\.weight", r"layers\.1\.self_attn\.k_proj\.weight"], shifts={"A_log": -1.0}, classic={})
decoder("lfm2", tf.Lfm2Config, tf.Lfm2ForCausalLM,
        dict(vocab_size=48, hidden_size=24, intermediate_size=32, block_auto_adjust_ff_dim=False, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, norm_eps=EPS, conv_bias=True, conv_L_cache=3,
             layer_types=["conv", "full_attention", "conv"], rope_parameters=rope(1000.0), max_position_embeddings=64, **TOK),
        "Short gated convolutions in layers 0 and 2 (a factor before, one behind), attention with norms on each head of q and k in layer 1, tied head with the norm called embedding_norm.",
        [r"layers\.0\.conv\.(conv|in_proj)\.weight", r"layers\.1\.self_attn\.[qk]_layernorm\.weight", r"layers\.2\.feed_forward\.w2\.weight"], emb_std=0.5, signed_norm="embedding_norm.weight",
        classic=dict(rope_parameters=None, rope_theta=1000.0, layer_types=None, full_attn_idxs=[1]))

decoder("ministral", tf.MinistralConfig, tf.MinistralForCausalLM, tiny(head_dim=8, sliding_window=5, layer_types=["full_attention", "sliding_attention"]),
        "mistral with a window of 5 in the second layer alone, head_dim 8.", classic=FLAT)
GROWS = dict(rope_type="yarn", factor=4.0, beta_fast=8.0, beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0, original_max_position_embeddings=6, llama_4_scaling_beta=0.7)
decoder("ministral3", tf.Ministral3Config, tf.Ministral3ForCausalLM, tiny(head_dim=8, rope_parameters=rope(500.0, **GROWS)),
        "mistral with yarn, and queries times 1 + 0.7 log(1 + position // 6).", classic=dict(rope_parameters=dict(GROWS, type="yarn", rope_theta=500.0, max_position_embeddings=64)))
decoder("nanochat", tf.NanoChatConfig, tf.NanoChatForCausalLM, tiny(hidden_act="relu2", final_logit_softcapping=3.0),
        "RMSNorms without factors: of the embeddings, before attention and MLP, of each head of q and k behind a rotation of the other sense; squared ReLU without a gate; logits capped at 3.",
        [r"layers\.1\.self_attn\.[qkv]_proj\.weight", r"layers\.0\.mlp\.fc[12]\.weight", r"embed_tokens\.weight"], classic=FLAT)
decoder("llama4", tf.Llama4TextConfig, tf.Llama4ForCausalLM,
        tiny(hidden_size=16, head_dim=8, num_hidden_layers=3, intermediate_size=12, intermediate_size_mlp=20, num_local_experts=4, num_experts_per_tok=1, interleave_moe_layer_step=2, no_rope_layer_interval=2, attention_chunk_size=6, floor_scale=4,
             attn_scale=0.6, attention_bias=True, rope_parameters=rope(10000.0, rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8)),
        "Layers 0 and 2 see chunks of 6, rotate neighbours, and norm each head of q and k without factors; layer 1 sees all, its queries times 1 + 0.6 log(1 + (position + 1) // 4), and has 4 experts, "
        "of which the best gets its input times a sigmoid, and a shared one; llama3 frequencies.",
        [r"layers\.[012]\.self_attn\.[qkv]_proj\.weight", r"layers\.0\.self_attn\.q_proj\.bias", r"layers\.1\.feed_forward\.(router\.weight|experts\.(gate_up|down)_proj|shared_expert\.up_proj\.weight)",
         r"layers\.2\.feed_forward\.down_proj\.weight"],
        classic=dict(FLAT, rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8), layer_types=None, no_rope_layers=[], moe_layers=None, for_llm_compressor=False))

# ---------------------------------------------------------------- ported with the documentation alone
decoder("nemotron", tf.NemotronConfig, tf.NemotronForCausalLM,
        dict(vocab_size=48, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8, max_position_embeddings=64, norm_eps=EPS,
             rope_parameters=rope(10000.0, partial_rotary_factor=0.5), tie_word_embeddings=False, **TOK),
        "Layer norms stored minus one, rotary on half of each head, squared ReLU without a gate.", SOME + [r"layers\.0\.mlp\.up_proj\.weight"], classic=dict(FLAT, partial_rotary_factor=0.5))
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8)
decoder("apertus", tf.ApertusConfig, tf.ApertusForCausalLM, tiny(rope_parameters=rope(10000.0, **LLAMA3)),
        "Norms on each head of q and k, llama3 frequencies, an MLP without a gate whose activation xIELU has slopes, beta and eps of its own in each layer.",
        [r"layers\.1\.self_attn\.[qkv]_proj\.weight", r"layers\.0\.(attention|feedforward)_layernorm\.weight", r"layers\.[01]\.mlp\.act_fn\.alpha_[pn]"] + QK_NORM,
        classic=dict(FLAT, rope_scaling=LLAMA3, mlp_bias=False, qk_norm=True, post_norm=False))
decoder("codegen", tf.CodeGenConfig, tf.CodeGenForCausalLM,
        dict(vocab_size=48, n_positions=64, n_ctx=64, n_embd=32, n_layer=2, n_head=8, n_inner=40, rotary_dim=4, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, layer_norm_epsilon=EPS, **TOK),
        "gptj with queries, values and keys in one matrix, in four groups of heads.", [r"h\.[01]\.attn\.qkv_proj\.weight", r"h\.0\.mlp\.fc_in\.(weight|bias)", r"lm_head\.bias"], classic={})

decoder("biogpt", tf.BioGptConfig, tf.BioGptForCausalLM,
        dict(vocab_size=48, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=40, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
             layer_norm_eps=EPS, pad_token_id=1, bos_token_id=0, eos_token_id=2),
        "opt with embeddings times sqrt(24), GELU, the last norm called layer_norm; the config's epsilon is not used.",
        [r"layers\.[01]\.self_attn\.[qkv]_proj\.weight", r"embed_positions\.weight", r"layers\.0\.fc1\.bias", r"biogpt\.layer_norm\.weight"], emb_std=0.25, signed_norm="biogpt.layer_norm.weight", classic={})

decoder("xglm", tf.XGLMConfig, tf.XGLMForCausalLM,
        dict(vocab_size=48, d_model=24, ffn_dim=40, num_layers=2, attention_heads=4, max_position_embeddings=40, dropout=0.0, attention_dropout=0.0, activation_dropout=0.0, pad_token_id=5, bos_token_id=0,
             eos_token_id=2),
        "opt with embeddings times sqrt(24), GELU and fairseq's sinusoids from position 2 on, of which that of the padding's number (5, at position 3) is zero; the last norm called layer_norm.",
        [r"layers\.[01]\.self_attn\.[qkv]_proj\.weight", r"embed_tokens\.weight", r"layers\.0\.fc1\.bias", r"model\.layer_norm\.weight"], emb_std=0.25, signed_norm="model.layer_norm.weight", classic={})

decoder("persimmon", tf.PersimmonConfig, tf.PersimmonForCausalLM,
        dict(vocab_size=48, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=40, hidden_dropout=0.0, attention_dropout=0.0, layer_norm_eps=EPS,
             rope_parameters=rope(25000.0, partial_rotary_factor=0.5), **TOK),
        "gpt-neox with attention and MLP one after the other, norms of each head's queries and keys, rotary on the first 6 of 12 dims, squared ReLU, untied head.",
        [r"layers\.[01]\.self_attn\.query_key_value\.weight", r"self_attn\.[qk]_layernorm\.(weight|bias)", r"layers\.0\.mlp\.dense_h_to_4h\.bias", r"model\.final_layernorm\.weight", r"embed_tokens\.weight"],
        classic=dict(rope_parameters=None, rope_theta=25000.0, partial_rotary_factor=0.5))

# ---------------------------------------------------------------- routers and attentions of 2024 and 2025
ROUTED = [r"layers\.1\.mlp\.gate\.weight", r"layers\.1\.mlp\.experts\.1\.down_proj\.weight", r"layers\.1\.mlp\.shared_experts\.up_proj\.weight"]
V2 = dict(num_key_value_heads=4, moe_intermediate_size=8, n_routed_experts=8, num_experts_per_tok=3, first_k_dense_replace=1, kv_lora_rank=12, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=5,
          intermediate_size=24, norm_topk_prob=False)
V2_FILES = dict(scoring_func="softmax", aux_loss_alpha=0.001, seq_aux=True, moe_layer_freq=1)
decoder("deepseek-v2", tf.DeepseekV2Config, tf.DeepseekV2ForCausalLM,
        tiny(n_shared_experts=2, topk_method="group_limited_greedy", n_group=4, topk_group=2, routed_scaling_factor=1.5, q_lora_rank=10, rope_parameters=rope(500.0, **dict(DEEP_YARN, mscale=0.7, mscale_all_dim=0.7)), **V2),
        "deepseek-v3's attention; 8 experts in 4 groups: softmax over all, the best 2 groups by their best, top 3, weights times 1.5; two shared experts; yarn.",
        [r"layers\.0\.self_attn\.(q_a_proj|kv_a_proj_with_mqa)\.weight"] + ROUTED,
        classic=dict(V2_FILES, rope_parameters=None, rope_theta=500.0, rope_scaling=dict({k: v for k, v in DEEP_YARN.items() if k != "rope_type"}, type="yarn", mscale=0.7, mscale_all_dim=0.7)))
decoder("deepseek-v2-lite", tf.DeepseekV2Config, tf.DeepseekV2ForCausalLM, tiny(n_shared_experts=1, topk_method="greedy", n_group=1, topk_group=1, q_lora_rank=None, **V2),
        "deepseek-v2 with whole queries and without groups.", [r"layers\.0\.self_attn\.(q_proj|kv_b_proj)\.weight"] + ROUTED, classic=dict(FLAT, **V2_FILES))
SIGMOID = dict(moe_intermediate_size=8, n_routed_experts=8, num_experts_per_tok=3, first_k_dense_replace=1, n_shared_experts=1, routed_scaling_factor=1.5, norm_topk_prob=True, intermediate_size=24, attention_bias=True)
decoder("glm4-moe", tf.Glm4MoeConfig, tf.Glm4MoeForCausalLM, tiny(head_dim=8, n_group=1, topk_group=1, use_qk_norm=True, rope_parameters=rope(10000.0, partial_rotary_factor=0.5), **SIGMOID),
        "Half of each head rotates after a norm, biases on q, k, v; first layer dense, second with deepseek-v3's router without groups: 8 experts, top 3 of sigmoid + bias.", QKV_BIAS + QK_NORM + ROUTED, classic=dict(FLAT, partial_rotary_factor=0.5))
decoder("dots1", tf.Dots1Config, tf.Dots1ForCausalLM, tiny(n_group=4, topk_group=2, sliding_window=5, max_window_layers=1, **SIGMOID),
        "glm4-moe with whole heads rotating, a bias also on o, a window of 5 in the second layer, and 4 groups of experts.", [r"layers\.0\.self_attn\.o_proj\.bias"] + QK_NORM + ROUTED,
        classic=dict(FLAT, layer_types=None, scoring_func="noaux_tc"))
SHARED = {k: v for k, v in SIGMOID.items() if k not in ("n_routed_experts", "n_shared_experts", "first_k_dense_replace", "attention_bias")} | dict(num_experts=8, num_shared_experts=2)
decoder("solar-open", tf.SolarOpenConfig, tf.SolarOpenForCausalLM,
        {k: v for k, v in tiny(head_dim=8, n_group=2, topk_group=1, **SIGMOID).items() if k not in ("intermediate_size", "first_k_dense_replace")},
        "glm4-moe without dense layers and norms on heads, with whole heads rotating; 8 experts in 2 groups, top 3 of the better group of sigmoid + bias.", QKV_BIAS + ROUTED,
        classic=dict(FLAT, partial_rotary_factor=1.0, use_qk_norm=False, first_k_dense_replace=0, intermediate_size=24))
decoder("exaone-moe", tf.ExaoneMoeConfig, tf.ExaoneMoeForCausalLM,
        tiny(head_dim=8, n_group=4, topk_group=2, sliding_window=6, sliding_window_pattern=2, layer_types=["sliding_attention", "full_attention"], first_k_dense_replace=1, **SHARED),
        "exaone4's attention (norms on each head of q and k, first layer with a window of 6 and rotary positions, second with neither) behind norms; first layer dense, second with 8 experts in 4 groups, top 3 of "
        "the best 2 groups of sigmoid + bias, normalised, times 1.5; two shared experts.", QK_NORM + ROUTED,
        classic=dict(FLAT, layer_types=None, mlp_layer_types=None, num_nextn_predict_layers=1, scoring_func="sigmoid", topk_method="noaux_tc"))
decoder("hy-v3", tf.HYV3Config, tf.HYV3ForCausalLM,
        tiny(head_dim=8, attention_bias=True, router_scaling_factor=1.5, **{k: v for k, v in SHARED.items() if k not in ("norm_topk_prob", "routed_scaling_factor")}),
        "dots1's attention; first layer dense, second with 8 experts, top 3 of sigmoid + bias, normalised, times 1.5; two shared experts.",
        [r"layers\.0\.self_attn\.o_proj\.bias", r"layers\.1\.mlp\.router\.gate\.weight", r"layers\.1\.mlp\.shared_mlp\.up_proj\.weight"] + QK_NORM,
        classic=dict(FLAT, mlp_layer_types=None, first_k_dense_replace=1, route_norm=True, moe_router_use_sigmoid=True, moe_router_enable_expert_bias=True, enable_lm_head_fp32=True, qk_norm=True))
decoder("youtu", tf.YoutuConfig, tf.YoutuForCausalLM,
        tiny(num_key_value_heads=4, q_lora_rank=10, kv_lora_rank=12, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=5, tie_word_embeddings=True),
        "deepseek-v3's attention (rotary pairs of neighbours) with values narrower than keys, in a dense model; tied head.",
        [r"layers\.0\.self_attn\.(q_a_proj|q_b_proj|kv_a_proj_with_mqa|kv_b_proj)\.weight", r"layers\.1\.mlp\.down_proj\.weight"], emb_std=0.5, signed_norm="model.norm.weight", classic=dict(FLAT, rope_scaling=None))
decoder("glm4-moe-lite", tf.Glm4MoeLiteConfig, tf.Glm4MoeLiteForCausalLM,
        tiny(num_key_value_heads=4, n_group=2, topk_group=1, q_lora_rank=10, kv_lora_rank=12, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=8,
             **{k: v for k, v in dict(SIGMOID, attention_bias=False).items() if k != "first_k_dense_replace"}),
        "deepseek-v3's attention with values wider than the still part of keys; first layer dense, the second with 8 experts in 2 groups: the better group, top 3 of sigmoid + bias.",
        [r"layers\.0\.self_attn\.(q_a_proj|kv_a_proj_with_mqa)\.weight"] + ROUTED,
        classic=dict(FLAT, rope_scaling=None, partial_rotary_factor=1.0, topk_method="noaux_tc", num_nextn_predict_layers=1, mlp_layer_types=None, first_k_dense_replace=1))
INDEXED = dict(num_key_value_heads=4, q_lora_rank=10, kv_lora_rank=12, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=5, index_head_dim=7, index_n_heads=8, index_topk=5,
               **{k: v for k, v in SIGMOID.items() if k != "attention_bias"})
INDEXED_FILES = dict(rope_parameters=None, rope_theta=500.0, layer_types=None, mlp_layer_types=None, first_k_dense_replace=1, moe_layer_freq=1, ep_size=1, scoring_func="sigmoid", topk_method="noaux_tc", num_nextn_predict_layers=1)
INDEXER = [r"layers\.[01]\.self_attn\.(q_a_proj|kv_a_proj_with_mqa)\.weight"]
decoder("deepseek-v32", tf.DeepseekV32Config, tf.DeepseekV32ForCausalLM, tiny(n_group=4, topk_group=2, attention_bias=True, rope_parameters=rope(500.0, **DEEP_YARN), **INDEXED),
        "deepseek-v3 where each query sees 5 keys, chosen by 8 narrow heads whose rotation is of halves; biases in attention.", INDEXER + ROUTED, classic=dict(INDEXED_FILES, rope_scaling=DEEP_YARN))
decoder("glm-moe-dsa", tf.GlmMoeDsaConfig, tf.GlmMoeDsaForCausalLM, tiny(num_hidden_layers=3, index_topk_freq=2, n_group=1, topk_group=1, rope_parameters=rope(500.0), **{**INDEXED, "n_routed_experts": 4, "num_experts_per_tok": 2}),
        "deepseek-v32 with a rotation of neighbours in the indexer, without groups; layer 2 sees the keys that layer 1 chose.", INDEXER + ROUTED,
        classic=dict(INDEXED_FILES, indexer_types=None, index_topk_freq=2, rope_interleave=True, indexer_rope_interleave=True))
decoder("mimo-v2-flash", tf.MiMoV2FlashConfig, tf.MiMoV2FlashForCausalLM,
        tiny(head_dim=12, v_head_dim=6, sliding_window=6, num_key_value_heads=1, attention_bias=True, attention_value_scale=0.7, rope_parameters=None, n_group=2, topk_group=1, intermediate_size=24, moe_intermediate_size=8,
             n_routed_experts=8, num_experts_per_tok=3, routed_scaling_factor=1.5),
        "First layer dense, one head of keys; the second with a window of 6, sinks, two heads of keys, other rotary positions, 8 experts in 2 groups: the better group, top 3 of sigmoid + bias. 4 of 12 dims rotate; values of 6, times 0.7.",
        SOME + [r"layers\.1\.self_attn\.attention_sink_bias", r"layers\.1\.mlp\.(gate|experts\.1\.down_proj)\.weight"],
        classic=dict(rope_parameters=None, rope_theta=5000000.0, swa_rope_theta=10000.0, partial_rotary_factor=0.334, layer_types=None, mlp_layer_types=None, hybrid_layer_pattern=[0, 1], moe_layer_freq=[0, 1], sliding_window_size=5,
                     swa_num_key_value_heads=2, swa_head_dim=12, swa_v_head_dim=6, swa_num_attention_heads=4, add_swa_attention_sink_bias=True, add_full_attention_sink_bias=False, n_shared_experts=None, scoring_func="sigmoid",
                     topk_method="noaux_tc", attention_chunk_size=5, hybrid_block_size=None, layernorm_epsilon=EPS))
decoder("modernbert-decoder", tf.ModernBertDecoderConfig, tf.ModernBertDecoderForCausalLM,
        dict(vocab_size=48, hidden_size=24, intermediate_size=32, num_hidden_layers=3, num_attention_heads=4, max_position_embeddings=64, norm_eps=EPS, norm_bias=True, local_attention=10, attention_bias=True, mlp_bias=True,
             classifier_bias=True, layer_types=["full_attention", "sliding_attention", "sliding_attention"], cls_token_id=1, sep_token_id=2,
             rope_parameters=dict(full_attention=rope(16000.0), sliding_attention=rope(1000.0)), **TOK),
        "modernbert that sees what stands before: layer 0 all of it, layers 1 and 2 five tokens, with another base; biases everywhere, tied head.",
        [r"layers\.[01]\.attn\.[qkv]_proj\.weight", r"layers\.1\.attn_norm\.weight", r"lm_head\.dense\.(weight|bias)", r"decoder\.bias"], emb_std=0.5, signed_norm="lm_head.norm.weight",
        classic=dict(rope_parameters=None, global_rope_theta=16000.0, local_rope_theta=1000.0, layer_types=None, global_attn_every_n_layers=3, sliding_window=None))
decoder("cwm", tf.CwmConfig, tf.CwmForCausalLM, tiny(head_dim=8, sliding_window=5, mlp_bias=True, rope_parameters=rope(10000.0, **LLAMA3)),
        "mistral with a window of 5 in the second layer alone, llama3 frequencies, biases in the MLP.", classic=dict(FLAT, rope_scaling=LLAMA3, layer_types=None))
decoder("minimax-m2", tf.MiniMaxM2Config, tf.MiniMaxM2ForCausalLM,
        tiny(head_dim=8, intermediate_size=12, num_local_experts=4, num_experts_per_tok=2, rope_parameters=rope(10000.0, partial_rotary_factor=0.5)),
        "mixtral with norms on all queries and on all keys together, half of each head rotating; 4 experts, top 2 of sigmoid + bias, weights without the bias, normalised.",
        QK_NORM + [r"layers\.[01]\.block_sparse_moe\.gate\.weight", r"layers\.1\.block_sparse_moe\.experts\.1\.w2\.weight"],
        classic=dict(FLAT, rotary_dim=4, sliding_window=None, attn_type_list=[1, 1], use_qk_norm=True, qk_norm_type="per_layer", use_routing_bias=True, scoring_func="sigmoid", shared_intermediate_size=0,
                     shared_moe_mode="sigmoid", mlp_intermediate_size=64, num_mtp_modules=3, mtp_transformer_layers=1, layernorm_full_attention_beta=1.0, layernorm_linear_attention_beta=1.0,
                     layernorm_mlp_beta=1.0))
decoder("ernie4-5-moe", tf.Ernie4_5_MoeConfig, tf.Ernie4_5_MoeForCausalLM,
        tiny(num_hidden_layers=3, intermediate_size=24, tie_word_embeddings=True, moe_intermediate_size=8, moe_num_experts=6, moe_k=2, moe_num_shared_experts=2, moe_layer_start_index=1, moe_layer_end_index=1, moe_norm_min=0.75),
        "ernie4-5 with 6 experts in the second of three layers: top 2 of softmax + bias, weights without the bias, divided by their sum or 0.75; two shared experts; tied head.", SOME + ROUTED,
        emb_std=0.5, signed_norm="model.norm.weight", gains={"mlp.gate.weight": 2.5}, classic=dict(FLAT, moe_capacity=[6, 6, 6], moe_use_aux_free=True, moe_gate="topk"))
decoder("exaone4", tf.Exaone4Config, tf.Exaone4ForCausalLM, tiny(head_dim=8, sliding_window=6, sliding_window_pattern="LG", layer_types=["sliding_attention", "full_attention"]),
        "Norms behind attention and MLP and on each head of q and k; first layer with a window of 6 and rotary positions, second with neither.",
        [r"layers\.1\.self_attn\.[qkv]_proj\.weight", r"layers\.0\.post_feedforward_layernorm\.weight"] + QK_NORM, classic=dict(FLAT, layer_types=None, sliding_window_pattern=2))
decoder("exaone4-whole", tf.Exaone4Config, tf.Exaone4ForCausalLM, tiny(sliding_window=None, layer_types=["full_attention"] * 2, tie_word_embeddings=True, rope_parameters=rope(10000.0, **LLAMA3)),
        "exaone4 without windows, so with positions in all layers; llama3 frequencies, tied head.", QK_NORM, emb_std=0.5, signed_norm="model.norm.weight",
        classic=dict(FLAT, rope_scaling=LLAMA3, sliding_window_pattern=None))
HUNYUAN = [r"layers\.1\.self_attn\.[qkv]_proj\.weight", r"layers\.[01]\.self_attn\.(query|key)_layernorm\.weight"]
NTK = dict(alpha=7.0, beta_fast=32, beta_slow=1, factor=1.0, mscale=1.0, mscale_all_dim=0.0)
decoder("hunyuan-v1-dense", tf.HunYuanDenseV1Config, tf.HunYuanDenseV1ForCausalLM, tiny(head_dim=8, tie_word_embeddings=True, attention_bias=True, rope_parameters=rope(500.0, rope_type="dynamic", **NTK)),
        "llama block with norms on each head of q and k behind the rotation, whose base is stretched by alpha; biases in attention, tied head.", HUNYUAN + QKV_BIAS, emb_std=0.5, signed_norm="model.norm.weight",
        classic=dict(rope_parameters=None, rope_theta=500.0, rope_scaling=dict(NTK, type="dynamic"), use_qk_norm=True, use_cla=False, cla_share_factor=2, attention_head_dim=8))
decoder("hunyuan-v1-moe", tf.HunYuanMoEV1Config, tf.HunYuanMoEV1ForCausalLM, tiny(head_dim=6, intermediate_size=12, num_experts=4, moe_topk=2),
        "hunyuan-v1-dense's attention; 4 experts, top 2, softmax over all, renormalised, and an MLP for every token.", HUNYUAN + [r"layers\.[01]\.mlp\.gate\.wg\.weight", r"layers\.1\.mlp\.shared_mlp\.up_proj\.weight"],
        classic=dict(FLAT, moe_topk=[2, 2], num_shared_expert=[1, 1], moe_intermediate_size=[12, 12], use_mixed_mlp_moe=True))
decoder("jetmoe", tf.JetMoeConfig, tf.JetMoeForCausalLM,
        {k: v for k, v in tiny(kv_channels=8, intermediate_size=12, num_local_experts=4, num_experts_per_tok=2, activation_function="silu", tie_word_embeddings=True, output_router_logits=False).items()
         if k not in ("num_attention_heads", "hidden_act")},
        "Experts in attention, too: 4, top 2, softmax over the chosen, each with queries and an output projection of its own for 2 heads of 8, beside keys and values that all share; the same for MLPs; a bias behind each "
        "mixture, norms in layers with 1e-6, tied head.",
        [r"layers\.[01]\.self_attention\.experts\.((in|out)put_linear\.weight|router\.layer\.weight|bias)", r"layers\.0\.self_attention\.kv_proj\.weight", r"layers\.1\.mlp\.(output_linear\.weight|bias)"],
        emb_std=0.5, signed_norm="model.norm.weight")
AFM = dict(rope_type="yarn", factor=20.0, beta_fast=8.0, beta_slow=1.0, mscale=1.0, original_max_position_embeddings=16)
decoder("arcee", tf.ArceeConfig, tf.ArceeForCausalLM, tiny(head_dim=8, mlp_bias=True, rope_parameters=rope(500.0, **AFM)), "llama block whose MLP is a squared ReLU without a gate, with biases there; yarn.",
        SOME + [r"layers\.0\.mlp\.(up|down)_proj\.(weight|bias)"], classic=dict(rope_parameters=None, rope_theta=500.0, rope_scaling=AFM))
decoder("jais2", tf.Jais2Config, tf.Jais2ForCausalLM, {k: v for k, v in tiny(head_dim=8, layer_norm_eps=EPS, attention_bias=True, mlp_bias=True, hidden_act="relu2").items() if k != "rms_norm_eps"},
        "arcee with layer norms, and biases on all projections.", SOME + QKV_BIAS + [r"layers\.0\.mlp\.(up|down)_proj\.(weight|bias)"])
SU = dict(short_factor=[1.0, 1.1, 1.3], long_factor=[1.0, 2.0, 4.0], short_mscale=1.1, long_mscale=1.3, original_max_position_embeddings=32)
decoder("phimoe", tf.PhimoeConfig, tf.PhimoeForCausalLM,
        tiny(intermediate_size=16, sliding_window=7, num_local_experts=5, num_experts_per_tok=2, router_jitter_noise=0.3, attention_bias=True, lm_head_bias=True, rope_parameters=rope(500.0, rope_type="longrope", **SU)),
        "LayerNorm, a window of 7, longrope with factors of its own for the vectors, 5 experts: the best two, each weighed by a softmax over those whose score is near; biases in attention and head.",
        QKV_BIAS + [r"layers\.[01]\.block_sparse_moe\.gate\.weight", r"layers\.1\.block_sparse_moe\.experts\.1\.w2\.weight", r"lm_head\.bias"],
        classic=dict(rope_parameters=None, rope_theta=500.0, rope_scaling=dict(SU, type="longrope"), original_max_position_embeddings=32))
decoder("minimax", tf.MiniMaxConfig, tf.MiniMaxForCausalLM,
        tiny(num_hidden_layers=4, hidden_size=16, head_dim=6, intermediate_size=12, num_local_experts=3, num_experts_per_tok=2, block_size=8, full_attn_alpha_factor=1.5, full_attn_beta_factor=0.8, linear_attn_alpha_factor=1.2,
             linear_attn_beta_factor=0.7, mlp_alpha_factor=0.9, mlp_beta_factor=1.1),
        "Attention in layers 0 and 2, lightning attention (a memory that fades by a factor of each head and layer) in 1 and 3; residuals start behind the norms and have factors; 3 experts, top 2, renormalised.",
        [r"layers\.1\.self_attn\.(qkv_proj|norm|output_gate)\.weight", r"layers\.2\.self_attn\.k_proj\.weight", r"layers\.3\.block_sparse_moe\.gate\.weight"], kept=r"self_attn\.(slope_rate|\w+_decay)$",
        classic=dict(FLAT, layer_types=None))
