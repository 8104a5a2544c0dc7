"""GGUF files as llama.cpp's converter writes them, and what transformers computes with the same weights.

    python make_gguf.py SOURCES [name ...]      SOURCES: llama.cpp's folder (vendor/llama.cpp in the sdist of PyPI's llama-cpp-python)

Writes ../gguf/<name>.gguf: a golden model, or one of its architecture with values that a GGUF file can hold, as what it leaves out (whether the
weights of experts are normalised, say) is what every published model has; then ../gguf/<name>.safetensors has inputs and logits (float64).
The files have no vocabulary.
"""
import dataclasses
import json
import logging
import re
import shutil
import sys
import tempfile
import zlib
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

import make_fixtures as fixtures
from architectures import ARCH

OUT = Path(__file__).resolve().parent.parent / "gguf"
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=16)

PHIMOE = dict(rope_type="longrope", rope_theta=500.0, original_max_position_embeddings=32, short_factor=[1.0, 1.1, 1.3], long_factor=[1.0, 2.0, 4.0],
              short_mscale=1.2 ** 0.5, long_mscale=1.2 ** 0.5)  # what the converter derives from the lengths, 64 and 32
SMALL = dict(vocab_size=48)
FAR = SMALL | dict(relative_attention_max_distance=128)


def published(*pairs):
    """Renames tensors to what published checkpoints call them where transformers writes another name."""
    return lambda name: next((re.sub(pattern, to, name) for pattern, to in pairs if re.search(pattern, name)), name)


@dataclasses.dataclass
class Variant:
    golden: str = ""         # the architecture; "": the fixture's own name
    kw: dict = dataclasses.field(default_factory=dict)      # other values than the golden model's; none: the golden model itself
    config: dict = dataclasses.field(default_factory=dict)  # what published config.json files say besides, under these names
    rename: object = None
    classic: bool = True     # config.json as checkpoints of transformers 4 have it
    sentence: str = ""       # a model of ../sentences, with this way of pooling
    coded: bool = False      # matrices whose rows have whole blocks as Q8_0, other ones as F16


def deepseek(**kw):
    return dict(rope_parameters=YARN | dict(mscale=0.7, mscale_all_dim=0.7), **kw)


VARIANTS = {
    "apertus": Variant(), "arcee": Variant(), "bamba": Variant(kw=dict(rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=1.0))), "bloom": Variant(kw=SMALL | dict(hidden_size=24, n_head=3)), "cohere": Variant(kw=SMALL),
    "cohere2": Variant(kw=dict(num_hidden_layers=4, layer_types=3 * ["sliding_attention"] + ["full_attention"]), config=dict(rotary_pct=1.0)),
    "deepseek-v2": Variant(kw=deepseek(), classic=False), "deepseek-v2-lite": Variant(), "deepseek-v3": Variant(kw=deepseek(), classic=False),
    "dots1": Variant(kw=dict(sliding_window=None, layer_types=2 * ["full_attention"]), classic=False), "solar-open": Variant(), "exaone-moe": Variant(), "hy-v3": Variant(), "ernie4-5": Variant(), "ernie4-5-moe": Variant(kw=dict(moe_norm_min=1e-12)), "exaone4": Variant(), "exaone4-whole": Variant(),
    "falcon": Variant(config=dict(num_kv_heads=1)), "falcon-40b": Variant(), "falcon-h1": Variant(kw=dict(mamba_norm_before_gate=False)), "falcon-mamba": Variant(kw=dict(mixer_rms_eps=1e-6)),
    "gemma": Variant(kw=SMALL), "gemma2": Variant(kw=dict(query_pre_attn_scalar=8)), "gemma3-text": Variant(kw=SMALL), "gemma3n": Variant(kw=dict(altup_num_inputs=4, vocab_size_per_layer_input=48)), "gemma4": Variant(), "gemma4-moe": Variant(), "gemma4-ple": Variant(), "glm": Variant(kw=dict(hidden_size=32, rms_norm_eps=1e-5)), "glm4": Variant(), "glm4-moe": Variant(), "glm4v-moe": Variant(),
    "gpt-bigcode": Variant(kw=SMALL | dict(n_embd=24, n_inner=40)), "gpt-neox": Variant(config=dict(rotary_pct=0.5)), "gpt-oss": Variant(kw=dict(swiglu_limit=7.0)), "gpt2": Variant(kw=SMALL | dict(n_embd=24), config=dict(n_ctx=48)),
    "jais2": Variant(), "mellum": Variant(kw=dict(mlp_layer_types=2 * ["sparse"]), classic=False), "youtu": Variant(), "granite": Variant(), "granitemoe": Variant(), "granitemoehybrid": Variant(), "granitemoeshared": Variant(),
    "hunyuan-v1-dense": Variant(kw=dict(max_position_embeddings=32768, rope_parameters=dict(rope_type="dynamic", rope_theta=10000.0, factor=1.0, alpha=50.0)), classic=False), "hunyuan-v1-moe": Variant(), "jamba": Variant(),
    "kimi-linear": Variant(kw=dict(num_expert_group=1, topk_group=1), rename=published((r"(layers\.0\.)block_sparse_moe(\.(gate|up|down)_proj)", r"\1mlp\2"))),
    "lfm2": Variant(kw=dict(conv_bias=False)), "lfm2-moe": Variant(kw=dict(conv_bias=False, routed_scaling_factor=1.0)),
    "llama": Variant(), "llama3-rope-scaling": Variant(kw=SMALL | dict(hidden_size=24, intermediate_size=24)), "mamba": Variant(kw=SMALL), "mamba2": Variant(), "minimax-m2": Variant(), "ministral3": Variant(classic=False), "deepseek-v32": Variant(kw=deepseek(attention_bias=False), classic=False), "glm-moe-dsa": Variant(classic=False),
    "llama4": Variant(kw=dict(num_hidden_layers=4, no_rope_layer_interval=4, attention_chunk_size=8192, floor_scale=8192, attn_scale=0.1, attention_bias=False), classic=False), "glm4-moe-lite": Variant(), "mistral": Variant(kw=SMALL | dict(sliding_window=None)), "mixtral": Variant(kw=SMALL | dict(hidden_size=24, intermediate_size=24)),
    "mpt": Variant(kw=SMALL | dict(layer_norm_epsilon=1e-5), config=dict(architectures=["MPTForCausalLM"])), "mt5": Variant(kw=FAR), "nemotron": Variant(),
    "nemotron-h": Variant(config=dict(d_head=6)), "olmo": Variant(), "olmo2": Variant(), "olmo3": Variant(), "olmoe": Variant(kw=dict(rms_norm_eps=1e-5)), "phi": Variant(), "phi3": Variant(kw=SMALL | dict(hidden_size=32)),
    "phi3-longrope": Variant(kw=SMALL), "phi4-mini": Variant(), "phimoe": Variant(kw=dict(router_jitter_noise=0.01, rope_parameters=PHIMOE), config=dict(architectures=["PhiMoEForCausalLM"])),
    "qwen2": Variant(kw=SMALL), "qwen2-moe": Variant(kw=dict(decoder_sparse_step=1)), "qwen3": Variant(), "qwen3-moe": Variant(kw=dict(mlp_only_layers=[])), "qwen3-vl-moe": Variant(kw=dict(num_hidden_layers=2, mlp_only_layers=[]), classic=False),
    "qwen3-next": Variant(kw=SMALL | dict(hidden_size=24, moe_intermediate_size=8, shared_expert_intermediate_size=12)), "qwen3-5": Variant(), "qwen3-5-moe": Variant(), "seed-oss": Variant(), "smollm3": Variant(kw=SMALL | dict(hidden_size=24, intermediate_size=24)), "stablelm": Variant(kw=SMALL | dict(hidden_size=24)), "starcoder2": Variant(kw=SMALL | dict(sliding_window=None)), "t5": Variant(kw=FAR | dict(d_model=16, d_ff=24, num_heads=2)), "umt5": Variant(kw=FAR),
    "sentence-bert": Variant("bert", sentence="mean"), "sentence-xlm-roberta": Variant("xlm-roberta", sentence="cls"),
    "sentence-distilbert": Variant("distilbert", sentence="mean"), "sentence-modernbert": Variant("modernbert", sentence="cls", config=dict(global_attn_every_n_layers=3)),
    "sentence-qwen3": Variant("qwen3", sentence="last"), "sentence-embedding-gemma": Variant("embedding-gemma", sentence="mean"), "sentence-eurobert": Variant("eurobert", sentence="mean", config=dict(classifier_pooling=None)),
    # In codes: each way in which rows move.
    "phi3-q8_0": Variant("phi3", kw=SMALL, coded=True), "mixtral-q8_0": Variant("mixtral", kw=SMALL, coded=True),
    "gpt2-q8_0": Variant("gpt2", kw=SMALL | dict(n_embd=32), config=dict(n_ctx=48), coded=True),
    "falcon-q8_0": Variant("falcon-40b", kw=dict(hidden_size=32), coded=True),
    "granitemoe-q8_0": Variant("granitemoe", kw=dict(hidden_size=32, intermediate_size=32), coded=True),
    "gpt-oss-q8_0": Variant("gpt-oss", kw=dict(hidden_size=32, intermediate_size=32, swiglu_limit=7.0), coded=True),
    "deepseek-q8_0": Variant("deepseek-v3", kw=deepseek(hidden_size=32, kv_lora_rank=32, qk_nope_head_dim=32, v_head_dim=8), classic=False, coded=True),
    "qwen3-next-q8_0": Variant("qwen3-next", kw=SMALL, coded=True),
    "qwen3-5-q8_0": Variant("qwen3-5", kw=dict(hidden_size=32, intermediate_size=32, linear_value_head_dim=32), coded=True),
}


def convert(folder, target, coded, gguf, conversion):
    """The converter's own steps, without a vocabulary."""
    values = conversion.ModelBase.load_hparams(folder, False) | json.loads((folder / "config.json").read_text())
    maker = conversion.get_model_class(conversion.get_model_architecture(values, conversion.ModelType.TEXT))
    maker = getattr(maker, "Ministral3Model", maker)  # the converter's class of Mistral 3 asks one of two others
    maker.set_vocab = lambda self: None
    maker.no_mtp = True  # no layers that guess further tokens
    kind = gguf.LlamaFileType.MOSTLY_Q8_0 if coded else gguf.LlamaFileType.ALL_F32
    with torch.inference_mode():
        maker(folder, kind, target, eager=True, hparams=values, sentence_transformers_dense_modules=True).write()


def compute(name, arch, folder):
    """Saves a model of random weights in the folder; what it computes."""
    seed = zlib.crc32(name.encode())
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model = fixtures.build(arch)
    fixtures.randomize(model, arch, generator)
    inputs = fixtures.make_inputs(arch, model, generator)
    twin = fixtures.float64_twin(model, arch)
    old = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad(), fixtures.PromoteToFloat64():
            logits = fixtures.forward(twin, fixtures.doubled(inputs)).logits
    finally:
        torch.set_default_dtype(old)
    fixtures.save_published(model, arch, folder)
    kept = {n: inputs[n][:1].contiguous() for n in ("input_ids", "decoder_input_ids") if n in inputs}
    return kept | {"logits_f64": logits[:1].contiguous()}


def make(name, gguf, conversion):
    variant = VARIANTS[name]
    golden = variant.golden or name
    arch = None if variant.sentence else ARCH[golden]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / name
        if variant.sentence:
            shutil.copytree(OUT.parent / "sentences" / golden, folder)
            older = folder / "config.v4.json"
            config = json.loads((older if older.exists() else folder / "config.json").read_text())
            way = {"mean": "mean_tokens", "cls": "cls_token", "last": "lasttoken"}[variant.sentence]
            if not (folder / "modules.json").exists():
                (folder / "modules.json").write_text(json.dumps([{"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}]))
                (folder / "1_Pooling").mkdir()
                (folder / "1_Pooling" / "config.json").write_text(json.dumps({f"pooling_mode_{way}": True}))
        elif variant.kw:
            arch = dataclasses.replace(arch, kw=arch.kw | variant.kw)
            save_file(compute(name, arch, folder), OUT / f"{name}.safetensors")
            config = json.loads((folder / "config.json").read_text())
            if variant.classic:
                config = fixtures.classic_config(config, arch.classic)
        else:
            shutil.copytree(OUT.parent / golden, folder)
            config = json.loads((folder / ("config.v4.json" if variant.classic else "config.json")).read_text())
        (folder / "config.json").write_text(json.dumps(config | variant.config))
        words = {"vocab": {str(i): i for i in range(config.get("text_config", config)["vocab_size"])}}  # Gemma 3's converter counts them
        (folder / "tokenizer.json").write_text(json.dumps({"model": words, "added_tokens": []}))
        if variant.rename:
            tensors = load_file(folder / "model.safetensors")
            save_file({variant.rename(n): t for n, t in tensors.items()}, folder / "model.safetensors", {"format": "pt"})
        for other in ("expected.safetensors", "config.v4.json", "meta.json"):
            (folder / other).unlink(missing_ok=True)
        convert(folder, OUT / f"{name}.gguf", variant.coded, gguf, conversion)


def main():
    sys.path.insert(0, str(Path(sys.argv[1]).resolve()))
    import conversion
    import gguf

    logging.disable(logging.CRITICAL)
    OUT.mkdir(exist_ok=True)
    for name in sys.argv[2:] or VARIANTS:
        make(name, gguf, conversion)
        print(name, flush=True)


if __name__ == "__main__":
    main()
