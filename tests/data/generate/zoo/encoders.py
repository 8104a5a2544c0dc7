"""More encoders, small: see decoders.py."""
import transformers as tf

from architectures import ARCH, EPS, Arch, rope

GRADS = [r"layer\.0\.attention\.self\.(query|value)\.weight", r"layer\.1\.output\.dense\.bias", r"position_embeddings\.weight", r"lm_head\.(dense\.weight|bias|layer_norm\.weight)"]
BERT = dict(vocab_size=48, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32, max_position_embeddings=40, type_vocab_size=2, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
            layer_norm_eps=EPS, pad_token_id=0)


def encoder(name, config, model, kw, notes, grads=GRADS, **more):
    ARCH[name] = Arch("mlm", config, model, kw, grads, notes, **{**dict(emb_std=0.5), **more})


ROBERTA = dict(BERT, type_vocab_size=1, tie_word_embeddings=True, pad_token_id=1, bos_token_id=0, eos_token_id=2)
encoder("roberta", tf.RobertaConfig, tf.RobertaForMaskedLM, ROBERTA, "bert with positions counted from pad_token_id + 1 (2) over tokens that are no padding, one token type, head lm_head.")
encoder("xlm-roberta", tf.XLMRobertaConfig, tf.XLMRobertaForMaskedLM, ROBERTA, "roberta's architecture under another name.")
encoder("camembert", tf.CamembertConfig, tf.CamembertForMaskedLM, ROBERTA, "roberta's architecture under another name.")
encoder("data2vec-text", tf.Data2VecTextConfig, tf.Data2VecTextForMaskedLM, ROBERTA, "roberta's architecture with the prefix data2vec_text.")
encoder("electra", tf.ElectraConfig, tf.ElectraForMaskedLM, dict(BERT, embedding_size=16), "bert with embeddings of width 16 projected to 24, and back in the head (generator_predictions).",
        [r"embeddings_project\.(weight|bias)", r"layer\.0\.attention\.self\.query\.weight", r"generator_predictions\.dense\.weight", r"generator_lm_head\.bias"])
BERT_GRADS = [r"layer\.0\.attention\.self\.(query|value)\.weight", r"layer\.1\.output\.dense\.bias", r"position_embeddings\.weight", r"predictions\.(transform\.dense\.weight|bias)"]
encoder("megatron-bert", tf.MegatronBertConfig, tf.MegatronBertForMaskedLM, BERT, "bert with norms before each half layer and behind the last one (ln), and none behind the embeddings.",
        BERT_GRADS + [r"layer\.[01]\.(attention\.)?ln\.weight", r"encoder\.ln\.bias"])
encoder("roberta-prelayernorm", tf.RobertaPreLayerNormConfig, tf.RobertaPreLayerNormForMaskedLM, ROBERTA, "roberta with norms before each half layer, behind the embeddings and behind the last layer.",
        GRADS + [r"layer\.[01]\.(attention|intermediate)\.LayerNorm\.weight", r"prelayernorm\.LayerNorm\.bias"])
encoder("ernie", tf.ErnieConfig, tf.ErnieForMaskedLM, dict(BERT, use_task_id=True), "bert with the embedding of task 0 added.",
        BERT_GRADS + [r"task_type_embeddings\.weight"])
encoder("roformer", tf.RoFormerConfig, tf.RoFormerForMaskedLM, dict(BERT, embedding_size=16, rotary_value=True),
        "bert with rotary positions (pairs of neighbours) of queries, keys and values; embeddings of width 16 projected to 24.",
        [r"embeddings_project\.weight", *BERT_GRADS])
encoder("albert", tf.AlbertConfig, tf.AlbertForMaskedLM, dict(BERT, num_hidden_layers=3, embedding_size=16, num_hidden_groups=1, inner_group_num=1, hidden_act="gelu_new", classifier_dropout_prob=0.0),
        "Three layers with the same weights, embeddings of width 16 projected to 24, tanh-GELU.",
        [r"embedding_hidden_mapping_in\.(weight|bias)", r"attention\.query\.weight", r"ffn_output\.weight", r"predictions\.(bias|dense\.weight)"])
encoder("modernbert", tf.ModernBertConfig, tf.ModernBertForMaskedLM,
        dict(vocab_size=48, hidden_size=24, intermediate_size=32, num_hidden_layers=3, num_attention_heads=4, max_position_embeddings=64, norm_eps=EPS, local_attention=6,
             layer_types=["full_attention", "sliding_attention", "sliding_attention"], rope_parameters=dict(full_attention=rope(160000.0), sliding_attention=rope(100.0)),
             pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2),
        "Pre-LN without biases, no norm before the first attention; first layer sees everything, the others 3 positions to each side with their own rotary base; gated GELU (the first half through it).",
        [r"layers\.[01]\.attn\.Wqkv\.weight", r"layers\.1\.mlp\.Wi\.weight", r"head\.(dense|norm)\.weight", r"decoder\.bias"],
        classic=dict(rope_parameters=None, layer_types=None, global_attn_every_n_layers=3, global_rope_theta=160000.0, local_rope_theta=100.0))
DEBERTA = dict(BERT, vocab_size=48, relative_attention=True, pos_att_type=["p2c", "c2p"], position_biased_input=False, share_att_key=True, norm_rel_ebd="layer_norm", position_buckets=4, max_relative_positions=12,
               type_vocab_size=0)
encoder("deberta-v2", tf.DebertaV2Config, tf.DebertaV2ForMaskedLM, DEBERTA,
        "DeBERTa V3: scores of content with content, content with position and position with content; positions in logarithmic buckets (4 to each side, reach 12), their table normed, projected by the layer's own q and k.",
        [r"rel_embeddings\.weight", r"layer\.[01]\.attention\.self\.(query|key)_proj\.weight", r"encoder\.LayerNorm\.weight", r"predictions\.transform\.dense\.weight"])
encoder("nomic-bert", tf.NomicBertConfig, tf.NomicBertForMaskedLM,
        dict(vocab_size=48, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32, max_position_embeddings=40, type_vocab_size=2, hidden_dropout_prob=0.0,
             attention_probs_dropout_prob=0.0, layer_norm_eps=EPS, pad_token_id=0, rope_parameters=rope(1000.0)),
        "bert with rotary positions and a gated SiLU, no biases in layers, norms behind the half layers.",
        [r"layers\.0\.self_attn\.[qk]_proj\.weight", r"layers\.1\.mlp\.gate_proj\.weight", r"post_mlp_layernorm\.bias", r"predictions\.bias"], classic=dict(rope_parameters=None, rope_theta=1000.0))
encoder("deberta-v2-conv", tf.DebertaV2Config, tf.DebertaV2ForMaskedLM, dict(DEBERTA, conv_kernel_size=3, conv_act="gelu", conv_groups=1),
        "deberta-v2 whose first layer adds a convolution over three words (DeBERTa V2's xlarge).", [r"encoder\.conv\.conv\.(weight|bias)", r"encoder\.conv\.LayerNorm\.(weight|bias)", r"rel_embeddings\.weight"])
PROTEIN = dict(vocab_size=48, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32, max_position_embeddings=40, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
               layer_norm_eps=EPS, pad_token_id=1, token_dropout=True)
PROTEIN_GRADS = [r"attention\.self\.query\.weight", r"layer\.1\.attention\.LayerNorm\.weight", r"emb_layer_norm_after\.weight", r"word_embeddings\.weight", r"lm_head\.(dense\.weight|bias)"]
PROTEIN_FILES = dict(hidden_act="gelu", classifier_dropout=None, esmfold_config=None, vocab_list=None)
encoder("esm", tf.EsmConfig, tf.EsmForMaskedLM, dict(PROTEIN, mask_token_id=20, position_embedding_type="rotary"),
        "ESM-2: pre-LN, rotate-half with the frequencies that the file has (random ones), embeddings of the mask token (20) zeroed and the others scaled by 0.88 / the share that is no mask; tied head.",
        PROTEIN_GRADS, classic=PROTEIN_FILES)
encoder("esm-1b", tf.EsmConfig, tf.EsmForMaskedLM, dict(PROTEIN, mask_token_id=34, position_embedding_type="absolute", emb_layer_norm_before=True),
        "ESM-1b: learned positions counted from pad_token_id + 1 (2) over tokens that are no padding, and a norm behind them; mask token 34.",
        PROTEIN_GRADS + [r"position_embeddings\.weight", r"embeddings\.layer_norm\.bias"], classic=PROTEIN_FILES)
encoder("eurobert", tf.EuroBertConfig, tf.EuroBertForMaskedLM,
        dict(vocab_size=48, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=32, max_position_embeddings=40, rms_norm_eps=EPS, rope_parameters=rope(250000.0),
             pad_token_id=0, bos_token_id=1, eos_token_id=2, mask_token_id=3),
        "llama whose words see both sides; grouped queries, rotary base 250000, its own head.",
        [r"layers\.0\.self_attn\.[qk]_proj\.weight", r"layers\.1\.mlp\.gate_proj\.weight", r"model\.norm\.weight", r"embed_tokens\.weight", r"lm_head\.weight"],
        classic=dict(rope_parameters=None, rope_theta=250000.0, clf_pooling="late", classifier_pooling=None, head_dim=None))
