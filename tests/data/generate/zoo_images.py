"""More image models, small: see zoo_decoders.py."""
import transformers as tf

from architectures import ARCH, EPS, Arch

SMALL = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32, image_size=12, patch_size=4, num_channels=3, num_labels=7, layer_norm_eps=EPS)
PLAIN = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
TOWER = [r"patch_embedding\.weight", r"layers\.0\.self_attn\.[qk]_proj\.weight", r"layers\.1\.mlp\.fc2\.(weight|bias)", r"visual_projection\.weight", r"head\.(probe|attention\.in_proj_weight)"]


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
