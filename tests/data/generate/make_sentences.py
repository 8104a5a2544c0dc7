"""Tiny sentence encoders, and the vectors that transformers' models with the pooling of sentence-transformers give.

    python make_sentences.py [name ...]

Writes ../sentences/<name>/: config.json, model.safetensors, expected.safetensors (input_ids and attention_mask [2, 17], the second row shorter; for each
way of pooling a vector of length one for each row, float64). Models of MODULES are folders as sentence-transformers writes them, with modules.json, 1_Pooling,
2_Dense and so on, and config.v4.json; their `vector` is what all modules together give.
"""
import json
import sys
import zlib
from pathlib import Path

import torch
import transformers as tf
from safetensors.torch import save_file

import make_fixtures as fixtures
from architectures import EPS, Arch, rope

OUT = Path(__file__).resolve().parent.parent / "sentences"
ENCODER = dict(vocab_size=48, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=40, max_position_embeddings=32, layer_norm_eps=EPS,
               pad_token_id=1, bos_token_id=0, eos_token_id=2, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
DECODER = dict(vocab_size=48, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=40, max_position_embeddings=64, rms_norm_eps=EPS,
               rope_parameters=rope(10000.0), pad_token_id=1, bos_token_id=0, eos_token_id=2)
MODELS = {
    "bert": (tf.BertConfig, tf.BertModel, ENCODER),
    "roberta": (tf.RobertaConfig, tf.RobertaModel, ENCODER | dict(type_vocab_size=1)),
    "xlm-roberta": (tf.XLMRobertaConfig, tf.XLMRobertaModel, ENCODER | dict(type_vocab_size=1)),
    "camembert": (tf.CamembertConfig, tf.CamembertModel, ENCODER | dict(type_vocab_size=1)),
    "mpnet": (tf.MPNetConfig, tf.MPNetModel, ENCODER),
    "distilbert": (tf.DistilBertConfig, tf.DistilBertModel,
                   dict(vocab_size=48, dim=24, n_layers=2, n_heads=4, hidden_dim=40, max_position_embeddings=32, pad_token_id=1, dropout=0.0, attention_dropout=0.0)),
    "modernbert": (tf.ModernBertConfig, tf.ModernBertModel,
                   dict(vocab_size=48, hidden_size=24, num_hidden_layers=3, num_attention_heads=4, intermediate_size=32, norm_eps=EPS, local_attention=6, max_position_embeddings=64,
                        pad_token_id=1, bos_token_id=0, eos_token_id=2, cls_token_id=0, sep_token_id=2)),
    "qwen3": (tf.Qwen3Config, tf.Qwen3Model, DECODER | dict(head_dim=8)),
    "qwen2": (tf.Qwen2Config, tf.Qwen2Model, DECODER),
    "mistral": (tf.MistralConfig, tf.MistralModel, DECODER | dict(sliding_window=6)),
    "llama": (tf.LlamaConfig, tf.LlamaModel, DECODER),
}
# What follows the model: a way of pooling, Dense modules (width, bias, class of torch.nn), and whether vectors get length one; and the older spelling of its config.
MODULES = {
    "labse": ("cls", [(24, True, torch.nn.Tanh)], True, {}),
    "distiluse": ("mean", [(16, True, torch.nn.Tanh)], False, {}),
    "embedding-gemma": ("mean", [(32, False, torch.nn.Identity), (20, False, torch.nn.Identity)], True,
                        dict(rope_parameters=None, rope_theta=1000000.0, rope_local_base_freq=10000.0, layer_types=None, sliding_window_pattern=3)),
    "sentence-t5": ("mean", [(20, False, torch.nn.Identity)], True, {}),
    "mt5": ("mean", [], True, {}),
    "umt5": ("mean", [], True, {}),
    "gte": ("cls", [], True, dict(rope_parameters=None, rope_theta=500.0)),
    "jina-v3": ("mean", [], True, dict(rope_parameters=None, rope_theta=20000.0)),
    "eurobert": ("mean", [], True, dict(rope_parameters=None, rope_theta=250000.0, clf_pooling="late", classifier_pooling=None)),
}
T5 = dict(vocab_size=48, d_model=24, d_kv=8, d_ff=40, num_layers=2, num_heads=3, relative_attention_num_buckets=8, relative_attention_max_distance=12, layer_norm_epsilon=EPS,
          dropout_rate=0.0, feed_forward_proj="relu", pad_token_id=0, eos_token_id=1)
MODELS |= {
    "mt5": (tf.MT5Config, tf.MT5EncoderModel, T5 | dict(feed_forward_proj="gated-gelu")),
    "umt5": (tf.UMT5Config, tf.UMT5EncoderModel, T5 | dict(feed_forward_proj="gated-gelu")),
    "labse": MODELS["bert"],
    "distiluse": MODELS["distilbert"],
    "embedding-gemma": (tf.Gemma3TextConfig, tf.Gemma3TextModel,
                        DECODER | dict(head_dim=8, num_hidden_layers=3, num_key_value_heads=1, num_attention_heads=3, query_pre_attn_scalar=12, sliding_window=6, use_bidirectional_attention=True,
                                       layer_types=["sliding_attention", "sliding_attention", "full_attention"],
                                       rope_parameters=dict(sliding_attention=rope(10000.0), full_attention=rope(1000000.0)), pad_token_id=0, bos_token_id=2, eos_token_id=1)),
    "sentence-t5": (tf.T5Config, tf.T5EncoderModel, T5),
    "gte": (tf.GteConfig, tf.GteModel, ENCODER | dict(type_vocab_size=1, rope_parameters=rope(500.0))),
    "jina-v3": (tf.JinaEmbeddingsV3Config, tf.JinaEmbeddingsV3Model, ENCODER | dict(type_vocab_size=1, rope_parameters=rope(20000.0))),
    "eurobert": (tf.EuroBertConfig, tf.EuroBertModel, DECODER | dict(rope_parameters=rope(250000.0), mask_token_id=3)),
}
MODES = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token", "last": "pooling_mode_lasttoken"}


def write(path, value):
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value, indent=2) + "\n")


def add_modules(name, folder, pooled, generator):
    """Writes what follows the model; the vectors that all of it gives."""
    pooling, denses, unit, classic = MODULES[name]
    x = pooled[pooling]
    listed = [("Transformer", ""), ("Pooling", "1_Pooling")]
    write(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": x.shape[1]} | {mode: mode == MODES[pooling] for mode in MODES.values()} | {"include_prompt": True})
    for width, bias, activation in denses:
        path = f"{len(listed)}_Dense"
        linear = torch.nn.Linear(x.shape[1], width, bias=bias)
        for parameter in linear.parameters():
            parameter.data = torch.randn(parameter.shape, generator=generator) * 0.3
        write(folder / path / "config.json", {"in_features": x.shape[1], "out_features": width, "bias": bias, "activation_function": f"{activation.__module__}.{activation.__qualname__}"})
        save_file({f"linear.{n}": p.data for n, p in linear.named_parameters()}, folder / path / "model.safetensors")
        x = activation()(torch.nn.functional.linear(x, linear.weight.data.double(), linear.bias.data.double() if bias else None))
        listed.append(("Dense", path))
    if unit:
        listed.append(("Normalize", f"{len(listed)}_Normalize"))
        x = torch.nn.functional.normalize(x, dim=1)
    write(folder / "modules.json", [{"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"} for i, (kind, path) in enumerate(listed)])
    config = json.loads((folder / "config.json").read_text())
    write(folder / "config.v4.json", fixtures.classic_config(config, classic))
    return x


def make(name):
    config, model, values = MODELS[name]
    arch = Arch("mlm", config, model, values, [], "")
    seed = zlib.crc32(name.encode())
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    tiny = fixtures.build(arch)
    fixtures.randomize(tiny, arch, generator)
    tokens = torch.randint(3, values["vocab_size"], (2, 17), generator=generator)
    mask = torch.ones_like(tokens)
    tokens[1, 12:], mask[1, 12:] = values["pad_token_id"], 0
    twin = fixtures.float64_twin(tiny, arch)
    old = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad(), fixtures.PromoteToFloat64():
            hidden = twin(input_ids=tokens, attention_mask=mask).last_hidden_state
    finally:
        torch.set_default_dtype(old)
    real = mask[:, :, None].double()
    pooled = {"mean": (hidden * real).sum(1) / real.sum(1), "cls": hidden[:, 0], "last": hidden[torch.arange(2), mask.sum(1) - 1]}
    folder = OUT / name
    tiny.save_pretrained(folder)
    expected = {"input_ids": tokens, "attention_mask": mask} | {kind: torch.nn.functional.normalize(v, dim=1).contiguous() for kind, v in pooled.items()}
    if name in MODULES:
        expected["vector"] = add_modules(name, folder, pooled, generator).contiguous()
    save_file(expected, folder / "expected.safetensors")
    print(name, flush=True)


if __name__ == "__main__":
    for wanted in sys.argv[1:] or MODELS:
        make(wanted)
