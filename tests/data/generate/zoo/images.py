"""More image models, small: see decoders.py."""
import transformers as tf

from architectures import ARCH, EPS, Arch

SMALL = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32, image_size=12, patch_size=4, num_channels=3, num_labels=7, layer_norm_eps=EPS)
PLAIN = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
TOWER = [r"patch_embedding\.weight", r"layers\.0\.self_attn\.[qk]_proj\.weight", r"layers\.1\.mlp\.fc2\.(weight|bias)", r"visual_projection\.weight", r"head\.(probe|attention\.in_proj_weight)"]


TEXT = dict(vocab_size=48, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, max_position_embeddings=32, layer_norm_eps=EPS, attention_dropout=0.0, pad_token_id=0, bos_token_id=1)


def image(name, config, model, kw, notes, grads, **more):
    ARCH[name] = Arch("image", config, model, kw, grads, notes, **more)


image("deit", tf.DeiTConfig, tf.DeiTForImageClassification, dict(SMALL, **PLAIN), "vit with a second token, for distillation, behind the class token.",
      [r"(cls|distillation)_token", r"layer\.0\..*query\.weight", r"classifier\.weight"])
image("dinov2", tf.Dinov2Config, tf.Dinov2ForImageClassification, dict(SMALL, mlp_ratio=2, **PLAIN), "A factor for each component of what a half layer adds; classes from the class token and the mean of the patches.",
      [r"layer\.[01]\.layer_scale[12]\.lambda1", r"layer\.0\.attention\.attention\.query\.weight", r"classifier\.weight"])
image("clip-vision", tf.CLIPVisionConfig, tf.CLIPVisionModelWithProjection, dict(SMALL, projection_dim=7, hidden_act="quick_gelu", attention_dropout=0.0),
      "CLIP's image tower: a norm before the layers too, quick GELU, the class token projected to an embedding (here called logits).", TOWER)
image("siglip-vision", tf.SiglipVisionConfig, tf.SiglipVisionModel, dict(SMALL, num_labels=24, hidden_act="gelu_pytorch_tanh", attention_dropout=0.0),
      "SigLIP's image tower: no class token; one learned query gathers the patches (the embedding is here called logits).", TOWER)

VISION = dict({k: v for k, v in SMALL.items() if k != "num_labels"}, attention_dropout=0.0)
BOTH = [r"token_embedding\.weight", r"text_model\.encoder\.layers\.0\.self_attn\.[qk]_proj\.weight", r"(text|visual)_projection\.weight", r"patch_embedding\.weight", r"logit_(scale|bias)",
        r"vision_model\.encoder\.layers\.1\.mlp\.fc2\.(weight|bias)", r"text_model\.head\.weight"]


def contrast(name, config, model, text, vision, notes, **more):
    ARCH[name] = Arch("contrast", config, model, dict(text_config=dict(TEXT, **text), vision_config=dict(VISION, **vision), **more.pop("kw", {})), BOTH, notes, **more)


contrast("clip", tf.CLIPConfig, tf.CLIPModel, dict(hidden_act="quick_gelu", eos_token_id=47, projection_dim=7), dict(hidden_act="quick_gelu", projection_dim=7),
         "Both towers of CLIP: the text's is causal and read where the text ends (eos_token_id; older files say 2 and mean the largest token). logits are the scores [texts, images].",
         kw=dict(projection_dim=7), classic=dict(text_config=dict(eos_token_id=2)))
contrast("siglip", tf.SiglipConfig, tf.SiglipModel, dict(hidden_act="gelu_pytorch_tanh", eos_token_id=2, projection_size=24), dict(hidden_act="gelu_pytorch_tanh"),
         "Both towers of SigLIP: the text's looks both ways and is read at its last position; scores [texts, images] with a bias, called logits.")
