"""Models of texts and images, of which only the text part is computed: see decoders.py. Their checkpoints differ in how they name that part."""
import transformers as tf

from architectures import ARCH, Arch, rope
from zoo.decoders import MOE, SIGMOID, tiny
from zoo.hybrids import QWEN35, QWEN35_CLASSIC

TOWER = dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2, image_size=8, patch_size=4)
QWEN = dict(hidden_size=8, intermediate_size=8, depth=1, num_heads=2, patch_size=2, out_hidden_size=24)


def part(name, config, text, model, kw, tower, notes, outer=None, **more):
    """`kw`: of the text part. No gradients: those of the text part are other models'."""
    whole = lambda **fields: config(text_config=text(**fields), vision_config=tower, **dict(tie_word_embeddings=fields["tie_word_embeddings"], **(outer or {})))
    ARCH[name] = Arch("causal", whole, model, kw, [], notes, **more)


part("gemma3", tf.Gemma3Config, tf.Gemma3TextConfig, tf.Gemma3ForConditionalGeneration,
     tiny(head_dim=8, sliding_window=6, num_hidden_layers=3, query_pre_attn_scalar=12, tie_word_embeddings=True, hidden_activation="gelu_pytorch_tanh",
          layer_types=["sliding_attention", "sliding_attention", "full_attention"], rope_parameters=dict(sliding_attention=rope(10000.0), full_attention=rope(1000000.0))),
     tf.SiglipVisionConfig(**TOWER), "The text part of Gemma 3 with images.", outer=dict(mm_tokens_per_image=4, image_token_index=46, boi_token_index=44, eoi_token_index=45), emb_std=0.35,
     signed_norm="language_model.norm.weight", classic=dict(text_config=dict(rope_parameters=None, rope_theta=1000000.0, rope_local_base_freq=10000.0, layer_types=None, sliding_window_pattern=3)))
part("mistral3", tf.Mistral3Config, tf.MistralConfig, tf.Mistral3ForConditionalGeneration, tiny(head_dim=8, sliding_window=None),
     tf.PixtralVisionConfig(**TOWER), "The text part of Mistral Small 3.1, with images.", outer=dict(image_token_index=46, spatial_merge_size=1),
     classic=dict(text_config=dict(rope_parameters=None, rope_theta=10000.0)))
part("llava", tf.LlavaConfig, tf.LlamaConfig, tf.LlavaForConditionalGeneration, tiny(),
     tf.CLIPVisionConfig(**TOWER), "The text part of LLaVA, a Llama.", outer=dict(image_token_index=46), classic=dict(text_config=dict(rope_parameters=None, rope_theta=10000.0)))
part("smolvlm", tf.SmolVLMConfig, tf.LlamaConfig, tf.SmolVLMForConditionalGeneration, tiny(),
     tf.SmolVLMVisionConfig(**TOWER), "The text part of SmolVLM, a Llama.", outer=dict(image_token_id=46, scale_factor=2), classic=dict(text_config=dict(rope_parameters=None, rope_theta=10000.0)))
MROPE = dict(mrope_section=[1, 1, 1])
WORDS = dict(image_token_id=46, video_token_id=45, vision_start_token_id=43, vision_end_token_id=44)
# As older files have it: the text part's fields are the model's own.
FLAT_VL = dict({k: v for k, v in tiny().items() if k != "rope_parameters"}, text_config=None, hidden_act="silu", rope_theta=10000.0, rope_scaling=dict(type="mrope", **MROPE),
               use_sliding_window=False, sliding_window=32768, max_window_layers=80)
part("qwen2-vl", tf.Qwen2VLConfig, tf.Qwen2VLTextConfig, tf.Qwen2VLForConditionalGeneration, tiny(rope_parameters=rope(10000.0, **MROPE)),
     dict(embed_dim=8, hidden_size=24, depth=1, num_heads=2, patch_size=2, mlp_ratio=1), "The text part of Qwen2-VL: positions of three kinds, all one for text.",
     outer=WORDS, classic=FLAT_VL)
part("qwen2-5-vl", tf.Qwen2_5_VLConfig, tf.Qwen2_5_VLTextConfig, tf.Qwen2_5_VLForConditionalGeneration, tiny(rope_parameters=rope(10000.0, **MROPE)),
     dict(QWEN, fullatt_block_indexes=[0]), "The text part of Qwen2.5-VL.", outer=WORDS, classic=FLAT_VL)
part("qwen3-vl", tf.Qwen3VLConfig, tf.Qwen3VLTextConfig, tf.Qwen3VLForConditionalGeneration, tiny(head_dim=6, rope_parameters=rope(10000.0, mrope_interleaved=True, **MROPE)),
     dict(QWEN, deepstack_visual_indexes=[0], num_position_embeddings=4), "The text part of Qwen3-VL.", outer=WORDS,
     classic=dict(text_config=dict(rope_parameters=None, rope_theta=10000.0, rope_scaling=dict(MROPE, mrope_interleaved=True, rope_type="default"))))
for name, kind, more in (("qwen3-5-vl", "", dict(intermediate_size=24)),
                         ("qwen3-5-moe-vl", "Moe", dict(moe_intermediate_size=8, shared_expert_intermediate_size=12, num_experts=4, num_experts_per_tok=2))):
    part(name, getattr(tf, f"Qwen3_5{kind}Config"), getattr(tf, f"Qwen3_5{kind}TextConfig"), getattr(tf, f"Qwen3_5{kind}ForConditionalGeneration"),
         {k: v for k, v in tiny(hidden_size=16, **more, **QWEN35).items() if k in more or k != "intermediate_size"},
         dict(QWEN, out_hidden_size=16, num_position_embeddings=4), f"The text part of {ARCH['qwen3-5' + '-moe' * bool(kind)].model.__name__[:-9]} as published, with images.", outer=WORDS, shifts={"A_log": -2.5},
         gains={"mlp.gate.weight": 2.5}, classic=dict(text_config=dict(QWEN35_CLASSIC)))
part("qwen3-vl-moe", tf.Qwen3VLMoeConfig, tf.Qwen3VLMoeTextConfig, tf.Qwen3VLMoeForConditionalGeneration,
     tiny(head_dim=8, num_hidden_layers=3, mlp_only_layers=[1], rope_parameters=rope(10000.0, mrope_interleaved=True, mrope_section=[2, 1, 1]), **dict(MOE, moe_intermediate_size=10)),
     dict(QWEN, deepstack_visual_indexes=[0], num_position_embeddings=4), "The text part of Qwen3-VL with experts: qwen3-moe with weights that always sum to one, experts stored together and inputs first.", outer=WORDS, inputs_first=r"\.experts\.",
     classic=dict(text_config=dict(rope_parameters=None, rope_theta=10000.0, norm_topk_prob=True, rope_scaling=dict(mrope_section=[2, 1, 1], mrope_interleaved=True, rope_type="default"))))
GLM_ROPE = dict(mrope_section=[1, 1, 1], partial_rotary_factor=0.5)
GLM_WORDS = dict(image_token_id=46, video_token_id=45, image_start_token_id=43, image_end_token_id=44, video_start_token_id=41, video_end_token_id=42)
GLM_CLASSIC = dict(text_config=dict(rope_parameters=None, rope_theta=10000.0, partial_rotary_factor=0.5, rope_scaling=dict(type="default", mrope_section=GLM_ROPE["mrope_section"])))
GLM_TOWER = dict(QWEN, image_size=4)
for name, kind, version in (("glm4v", "Glm4v", "GLM-4.1V"), ("glm46v", "Glm46V", "glm46v, which is that of GLM-4.1V")):
    part(name, getattr(tf, f"{kind}Config"), tf.Glm4vTextConfig, getattr(tf, f"{kind}ForConditionalGeneration"), tiny(num_attention_heads=2, num_key_value_heads=1, rope_parameters=rope(10000.0, **GLM_ROPE)),
         tf.Glm4vVisionConfig(**GLM_TOWER), f"The text part of {version}: glm4 with half of each head rotating.", outer=GLM_WORDS, classic=GLM_CLASSIC)
part("glm4v-moe", tf.Glm4vMoeConfig, tf.Glm4vMoeTextConfig, tf.Glm4vMoeForConditionalGeneration,
     tiny(head_dim=12, n_group=2, topk_group=1, rope_parameters=rope(10000.0, **GLM_ROPE), **SIGMOID), GLM_TOWER,
     "The text part of GLM-4.5V: glm4-moe without norms on heads; 8 experts in 2 groups.", outer=GLM_WORDS, classic=GLM_CLASSIC)
