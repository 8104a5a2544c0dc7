"""More encoder-decoders, small: see decoders.py."""
import transformers as tf

from architectures import ARCH, EPS, SEQ, T5_KW, TOK, Arch, rope

GRADS = [r"encoder\.layers\.0\.self_attn\.[qv]_proj\.weight", r"decoder\.layers\.1\.encoder_attn\.k_proj\.weight", r"layernorm_embedding\.weight"]


def pair(name, config, model, kw, notes, grads=GRADS, **more):
    ARCH[name] = Arch("seq2seq", config, model, kw, grads, notes, **{**dict(emb_std=0.8, gain=2.2), **more})


SMALL = dict(SEQ, vocab_size=48, d_model=16, encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=24, decoder_ffn_dim=24, forced_eos_token_id=None, pad_token_id=1, bos_token_id=0, eos_token_id=2,
             decoder_start_token_id=2)
VARIED = dict(signed_norm="decoder.layers.1.final_layer_norm.weight", emb_std=1.0, gain=1.0, gains={"encoder_attn.out_proj.weight": 0.4, "fc2.weight": 0.6})  # the constant memory must not decide alone
pair("bart", tf.BartConfig, tf.BartForConditionalGeneration, dict(SMALL, activation_function="gelu", scale_embedding=False),
     "Post-LN encoder-decoder, norm on embeddings, learned positions (row 2 is position 0), GELU, tied head with a bias.", **VARIED)
pair("plbart", tf.PLBartConfig, tf.PLBartForConditionalGeneration, dict(SMALL, activation_function="gelu", scale_embedding=True), "bart with embeddings times sqrt(16).",
     **{**VARIED, "emb_std": 0.7})
pair("mbart", tf.MBartConfig, tf.MBartForConditionalGeneration, dict(SMALL, activation_function="gelu", scale_embedding=True),
     "Pre-LN, norm on embeddings and behind both stacks, learned positions (row 2 is position 0).", signed_norm="decoder.layer_norm.weight")
pair("marian", tf.MarianConfig, tf.MarianMTModel, dict(SMALL, activation_function="swish", scale_embedding=True, pad_token_id=47, bos_token_id=None, eos_token_id=0, decoder_start_token_id=47),
     "Post-LN, sinusoids (sines, then cosines), swish, no norm on embeddings; decoding starts with the padding token, the last of the vocabulary.", **{**VARIED, "emb_std": 0.3})
pair("pegasus", tf.PegasusConfig, tf.PegasusForConditionalGeneration, dict(SMALL, activation_function="relu", scale_embedding=True, pad_token_id=0, bos_token_id=None, eos_token_id=1, decoder_start_token_id=0),
     "Pre-LN, sinusoids, ReLU, norms behind both stacks.", signed_norm="decoder.layer_norm.weight")
pair("blenderbot", tf.BlenderbotConfig, tf.BlenderbotForConditionalGeneration, dict(SMALL, activation_function="gelu", scale_embedding=True, encoder_no_repeat_ngram_size=0),
     "Pre-LN, learned positions from row 0, norms behind both stacks.", signed_norm="decoder.layer_norm.weight")

TINY_T5 = dict(T5_KW, vocab_size=48, d_model=16, d_kv=6, d_ff=24, num_heads=2, feed_forward_proj="gated-gelu")
T5_GRADS = [r"encoder\.block\.[01]\.layer\.0\.SelfAttention\.(q|relative_attention_bias)\.weight", r"decoder\.block\.1\.layer\.1\.EncDecAttention\.k\.weight", r"lm_head\.weight"]
pair("mt5", tf.MT5Config, tf.MT5ForConditionalGeneration, dict(TINY_T5, tie_word_embeddings=False), "T5 1.1: gated tanh-GELU, untied head without the factor.", T5_GRADS, emb_std=1.0, untie_head=True,
     config_fix=dict(tie_word_embeddings=False))
pair("t5-own-head", tf.T5Config, tf.T5ForConditionalGeneration, dict(TINY_T5, tie_word_embeddings=False), "Flan-T5 as transformers 5 saves it: scale_decoder_outputs is false, and tie_word_embeddings true although "
     "the head is its own.", T5_GRADS, emb_std=1.0, untie_head=True, classic=dict(tie_word_embeddings=False, scale_decoder_outputs=None))
pair("umt5", tf.UMT5Config, tf.UMT5ForConditionalGeneration, dict(TINY_T5, tie_word_embeddings=True), "Gated tanh-GELU, a relative bias of its own in every layer, tied head.", T5_GRADS, emb_std=1.0, signed_norm="decoder.final_layer_norm.weight")

STACK = dict(vocab_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=6, query_pre_attn_scalar=20, sliding_window=3, max_position_embeddings=64, rms_norm_eps=EPS,
             layer_types=["sliding_attention", "full_attention"], **TOK)
LARGE, LESS = dict(STACK, hidden_size=20, intermediate_size=24, attn_logit_softcapping=2.5), dict(STACK, hidden_size=16, intermediate_size=20, attn_logit_softcapping=1.5, final_logit_softcapping=4.0)
ROTARY, OLD = dict(rope_parameters=rope(10000.0)), dict(rope_theta=10000.0)
pair("t5gemma", tf.T5GemmaConfig, tf.T5GemmaForConditionalGeneration,
     dict(encoder=LARGE | ROTARY, decoder=LESS | ROTARY, vocab_size=48, decoder_start_token_id=1, tie_word_embeddings=True, **TOK),
     "Gemma 2's layers as an encoder (20 wide) that looks both ways, three positions far in its first layer, and as a decoder (16 wide) with attention to the memory between; tied head, caps.",
     [r"encoder\.layers\.0\.self_attn\.[qv]_proj\.weight", r"decoder\.layers\.1\.cross_attn\.k_proj\.weight", r"decoder\.layers\.0\.post_cross_attn_layernorm\.weight"], emb_std=0.25, gain=1.4,
     shifts={"post_cross_attn_layernorm.weight": -0.9}, signed_norm="decoder.norm.weight", classic=dict(encoder=LARGE | OLD, decoder=LESS | OLD))
