"""Decoders in which some layers carry a state and others attend, small: see decoders.py."""
import transformers as tf

from architectures import EPS, TOK, rope
from zoo.decoders import FLAT, GRANITE_MOE, decoder, tiny

STATES = {"A_log": -1.0}  # so that states remember some ten positions
MIXER = [r"layers\.0\.mamba\.(A_log|D|dt_bias)", r"layers\.2\.mamba\.(conv1d|norm)\.weight"]

# ---------------------------------------------------------------- Mamba 2 beside attention
MAMBA = dict(mamba_n_heads=4, mamba_n_groups=2, mamba_d_state=6, mamba_d_head=8, mamba_d_conv=4, mamba_expand=2, mamba_chunk_size=8)
decoder("granitemoehybrid", tf.GraniteMoeHybridConfig, tf.GraniteMoeHybridForCausalLM,
        tiny(num_hidden_layers=3, layer_types=["linear_attention", "full_attention", "linear_attention"], shared_intermediate_size=20, mamba_proj_bias=True, **MAMBA,
             **dict(GRANITE_MOE, hidden_size=16, intermediate_size=12)),
        "Granite 4: Mamba 2 in layers 0 and 2 (4 heads of 8 in 2 groups), attention without positions in layer 1; 4 experts, top 2, softmax over the two chosen, and an MLP that every token passes; "
        "granite's four multipliers, tied head. A_log is shifted by -1.",
        MIXER + [r"layers\.1\.self_attn\.k_proj\.weight", r"layers\.0\.block_sparse_moe\.router\.layer\.weight", r"layers\.1\.block_sparse_moe\.output_linear\.weight", r"layers\.1\.shared_mlp\.input_linear\.weight"],
        emb_std=0.5, signed_norm="model.norm.weight", shifts=STATES,
        classic=dict(FLAT, layer_types=["mamba", "attention", "mamba"], position_embedding_type="nope", normalization_function="rmsnorm", init_method="mup"))
decoder("bamba", tf.BambaConfig, tf.BambaForCausalLM,
        tiny(hidden_size=16, intermediate_size=24, num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=1, attn_layer_indices=[1], mamba_proj_bias=True, **MAMBA),
        "Mamba 2 in layers 0 and 2 (4 heads of 8 in 2 groups, RMSNorm over each group behind the gate), attention in layer 1, where half of each head rotates; untied head. A_log is shifted by -1.",
        MIXER + [r"layers\.1\.self_attn\.[kq]_proj\.weight", r"layers\.1\.feed_forward\.down_proj\.weight"], shifts=STATES,
        classic=dict(FLAT, partial_rotary_factor=0.5, rope_scaling=None))
decoder("falcon-h1", tf.FalconH1Config, tf.FalconH1ForCausalLM,
        tiny(hidden_size=16, intermediate_size=24, head_dim=6, projectors_bias=True, mamba_d_ssm=24, mamba_rms_norm=True, mamba_norm_before_gate=True, embedding_multiplier=1.6, lm_head_multiplier=0.7,
             mlp_multipliers=[0.8, 1.3], key_multiplier=1.4, attention_in_multiplier=0.9, attention_out_multiplier=0.7, ssm_in_multiplier=1.2, ssm_out_multiplier=0.6,
             ssm_multipliers=[1.3, 0.8, 1.1, 0.7, 1.5], **dict(MAMBA, mamba_d_head=6)),
        "Mamba 2 (4 heads of 6 in 2 groups, RMSNorm over each group before the gate) and attention (head_dim 6) side by side in each layer, fed by one norm; a multiplier for embeddings, logits, keys, "
        "what goes into each mixer and comes out, each part of Mamba's projection, the gate and the result of the MLP; untied head. A_log is shifted by -1.",
        [MIXER[0], r"layers\.1\.mamba\.(conv1d|norm)\.weight", r"layers\.1\.self_attn\.[kq]_proj\.weight", r"layers\.1\.feed_forward\.gate_proj\.weight"], shifts=STATES,
        classic=dict(FLAT, rope_scaling=None, attn_layer_indices=None, mamba_use_mlp=True, mlp_expansion_factor=8))
# transformers 5.23 keeps steps above time_step_min where it computes a whole text, and not where it goes on with its cache. The spec never does, as the
# kernels that such models are trained with; so the bound is next to nothing here.
decoder("zamba2", tf.Zamba2Config, tf.Zamba2ForCausalLM,
        dict(vocab_size=48, hidden_size=16, intermediate_size=12, num_hidden_layers=4, layers_block_type=["linear_attention", "hybrid", "hybrid", "hybrid"], num_mem_blocks=2,
             use_shared_attention_adapter=True, adapter_rank=4, use_mem_rope=True, num_attention_heads=4, num_key_value_heads=4, mamba_d_state=4, mamba_expand=2, mamba_ngroups=2, n_mamba_heads=4,
             chunk_size=8, time_step_min=1e-12, rms_norm_eps=EPS, max_position_embeddings=64, rope_parameters=rope(10000.0), **TOK),
        "Mamba 2 in all layers (4 heads of 8 in 2 groups); the input of layers 1 to 3 is joined by attention and an MLP over it and the embeddings, layers 1 and 3 with the same weights, each with adapters of its own; "
        "tied head. A_log is shifted by -1.",
        [r"layers\.0\.mamba\.(A_log|dt_bias|norm\.weight)", r"layers\.1\.shared_transformer\.self_attn\.([qo]_proj|linear_k_adapter_list\.2\.1)\.weight", r"layers\.3\.linear\.weight",
         r"layers\.2\.shared_transformer\.feed_forward\.gate_up_proj_adapter_list\.1\.0\.weight"], emb_std=0.5, signed_norm="final_layernorm.weight", shifts=STATES, gain=1.0, gains={".linear.weight": 0.4},
        classic=dict(FLAT, layers_block_type=["mamba", "hybrid", "hybrid", "hybrid"], time_step_limit=None, use_shared_mlp_lora=True))
decoder("nemotron-h", tf.NemotronHConfig, tf.NemotronHForCausalLM,
        dict(vocab_size=48, hidden_size=16, intermediate_size=24, layers_block_type=["linear_attention", "moe", "full_attention", "mlp"], num_attention_heads=4, num_key_value_heads=2, head_dim=6,
             mamba_num_heads=4, mamba_head_dim=6, n_groups=2, ssm_state_size=6, conv_kernel=4, chunk_size=8, use_bias=True, time_step_min=1e-12, layer_norm_epsilon=EPS, max_position_embeddings=64,
             n_routed_experts=6, num_experts_per_tok=2, n_group=3, topk_group=2, moe_intermediate_size=10, moe_shared_expert_intermediate_size=12, moe_latent_size=8, routed_scaling_factor=1.5, **TOK),
        "Four layers of one kind each: Mamba 2 (4 heads of 6 in 2 groups), experts (6 in 3 groups, top 2 of the best 2 groups of sigmoid + bias, normalised, times 1.5, in a latent of 8, and a shared one), "
        "attention without positions, an MLP; squared ReLU without a gate, untied head. A_log is shifted by -1.",
        [r"layers\.0\.mixer\.(A_log|D|dt_bias|conv1d\.weight|norm\.weight)", r"layers\.1\.mixer\.(gate|fc1_latent_proj|experts\.1\.down_proj)\.weight", r"layers\.2\.mixer\.k_proj\.weight",
         r"layers\.3\.mixer\.up_proj\.weight"], shifts=STATES, classic=dict(layers_block_type=None, hybrid_override_pattern="ME*-", num_hidden_layers=4))

# ---------------------------------------------------------------- short convolutions beside attention
decoder("lfm2-moe", tf.Lfm2MoeConfig, tf.Lfm2MoeForCausalLM,
        dict(vocab_size=48, hidden_size=16, intermediate_size=24, moe_intermediate_size=12, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, norm_eps=EPS, conv_bias=True, conv_L_cache=3,
             layer_types=["conv", "full_attention", "conv"], num_dense_layers=1, num_experts=4, num_experts_per_tok=2, routed_scaling_factor=1.5, use_expert_bias=True, rope_parameters=rope(1000.0),
             max_position_embeddings=64, **TOK),
        "lfm2 with a dense first layer, then 4 experts, top 2 of sigmoid + bias, weights without the bias, normalised, times 1.5; tied head.",
        [r"layers\.0\.conv\.(conv|in_proj)\.weight", r"layers\.1\.self_attn\.[qk]_layernorm\.weight", r"layers\.[12]\.feed_forward\.gate\.weight", r"layers\.2\.feed_forward\.experts\.1\.w[23]\.weight"],
        emb_std=0.5, signed_norm="embedding_norm.weight", classic=dict(rope_parameters=None, rope_theta=1000.0))

# ---------------------------------------------------------------- delta rules beside attention
# transformers 5.23 writes OLMo Hybrid's joined convolution in three equal parts, so keys are as wide as values here.
decoder("olmo-hybrid", tf.OlmoHybridConfig, tf.OlmoHybridForCausalLM,
        tiny(hidden_size=16, intermediate_size=24, num_hidden_layers=3, layer_types=["linear_attention", "full_attention", "linear_attention"], rope_parameters=rope(None),
             linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=8, linear_value_head_dim=4, linear_conv_kernel_dim=4, linear_allow_neg_eigval=True),
        "Gated delta rule in layers 0 and 2 (2 key heads of 8, 4 value heads of 4, beta up to 2, causal convolutions over 4, norms before), olmo2's attention without positions in layer 1 (norms behind), "
        "untied head. A_log is shifted by -2.5.",
        [r"layers\.0\.linear_attn\.(A_log|dt_bias|[qkv]_conv1d\.weight)", r"layers\.2\.linear_attn\.(a|b|g)_proj\.weight", r"layers\.1\.self_attn\.[qk]_norm\.weight"], shifts={"A_log": -2.5},
        classic=dict(rope_parameters=dict(rope_theta=None)))
KDA = dict(head_dim=6, num_heads=4, short_conv_kernel_size=4, kda_layers=[1, 3], full_attn_layers=[2])
decoder("kimi-linear", tf.KimiLinearConfig, tf.KimiLinearForCausalLM,
        {k: v for k, v in tiny(hidden_size=16, intermediate_size=20, moe_intermediate_size=8, num_hidden_layers=3, num_key_value_heads=4, layer_types=["linear_attention", "full_attention", "linear_attention"],
                               linear_head_dim=6, linear_num_heads=4, linear_conv_kernel_dim=4, kv_lora_rank=12, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=5,
                               num_local_experts=6, num_experts_per_tok=2, n_group=3, topk_group=2, routed_scaling_factor=1.5).items() if k != "rope_parameters"},
        "Delta rule with a decay for each component of the keys in layers 0 and 2 (4 heads of 6, causal convolutions over 4, decays and gates through 6 dims, norms with a sigmoid gate), latent attention "
        "without positions in layer 1; first layer dense, then 6 experts in 3 groups, top 2 of the best 2 groups of sigmoid + bias, normalised, times 1.5, and a shared one; untied head. A_log is shifted by -2.5.",
        [r"layers\.0\.self_attn\.(A_log|dt_bias|k_conv1d\.weight|f_a_proj\.weight)", r"layers\.2\.self_attn\.(g_b_proj|o_norm)\.weight", r"layers\.1\.self_attn\.kv_a_proj_with_mqa\.weight",
         r"layers\.2\.block_sparse_moe\.gate\.weight", r"layers\.1\.block_sparse_moe\.experts\.1\.w2\.weight"], shifts={"A_log": -2.5},
        classic=dict(layer_types=None, mlp_layer_types=None, linear_head_dim=None, linear_num_heads=None, linear_conv_kernel_dim=None, linear_attn_config=KDA, first_k_dense_replace=1, mla_use_nope=True,
                     moe_layer_freq=1, moe_router_activation_func="sigmoid", num_nextn_predict_layers=0, rope_scaling=None, rope_theta=10000.0, use_grouped_topk=True))
QWEN35 = dict(head_dim=8, num_hidden_layers=3, layer_types=["linear_attention", "full_attention", "linear_attention"], linear_conv_kernel_dim=4, linear_key_head_dim=6, linear_value_head_dim=5,
              linear_num_key_heads=2, linear_num_value_heads=4, rope_parameters=rope(10000.0, partial_rotary_factor=0.5, mrope_section=[1, 1, 0], mrope_interleaved=True))
QWEN35_GRADS = [r"layers\.0\.linear_attn\.(A_log|dt_bias|in_proj_[zab]\.weight)", r"layers\.2\.linear_attn\.(in_proj_qkv|conv1d|norm)\.weight", r"layers\.1\.self_attn\.([qk]_norm|q_proj)\.weight"]
QWEN35_CLASSIC = dict(layer_types=None, full_attention_interval=2, attn_output_gate=True, output_gate_type="swish", mamba_ssm_dtype="float32", mtp_num_hidden_layers=1, mtp_use_dedicated_embeddings=False,
                      mlp_only_layers=[], partial_rotary_factor=0.5)
decoder("qwen3-5", tf.Qwen3_5TextConfig, tf.Qwen3_5ForCausalLM, tiny(hidden_size=16, intermediate_size=24, tie_word_embeddings=True, **QWEN35),
        "Gated delta rule in layers 0 and 2 (2 key heads of 6, 4 value heads of 5, projections of queries, keys and values in one, gate, beta and step by themselves), attention with an output gate in layer 1, norms (1 + w), "
        "half of each head rotates; an MLP in each layer, tied head. A_log is shifted by -2.5.",
        QWEN35_GRADS + [r"layers\.1\.mlp\.down_proj\.weight"], emb_std=0.5, signed_norm="model.norm.weight", shifts={"A_log": -2.5}, classic=QWEN35_CLASSIC)
decoder("qwen3-5-moe", tf.Qwen3_5MoeTextConfig, tf.Qwen3_5MoeForCausalLM,
        {k: v for k, v in tiny(hidden_size=16, moe_intermediate_size=8, shared_expert_intermediate_size=12, num_experts=4, num_experts_per_tok=2, **QWEN35).items() if k != "intermediate_size"},
        "qwen3-5 with 4 experts, top 2 of softmax over all, normalised, and a shared one with a gate; untied head. A_log is shifted by -2.5.",
        QWEN35_GRADS + [r"layers\.0\.mlp\.gate\.weight", r"layers\.1\.mlp\.experts\.1\.down_proj\.weight", r"layers\.2\.mlp\.shared_expert(_gate|\.up_proj)\.weight"], shifts={"A_log": -2.5},
        gains={"mlp.gate.weight": 2.5}, classic=QWEN35_CLASSIC)
