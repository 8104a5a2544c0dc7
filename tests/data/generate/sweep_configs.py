"""Every architecture of the fixtures with one field of its config changed at a time: Quern beside transformers.

    python sweep_configs.py [--quern build/bin/quern] [--fields PATTERN] [--all] [ARCHITECTURE ...]    # sentences/bert: of make_sentences.py

A field's other values: a flag is flipped, an activation replaced, a factor changed, a window, the counts of heads and the scalings of rotary positions tried. A model of random weights is saved as
transformers saves it; the spec is found by its config.json, and `quern interpret` must give transformers' logits, or refuse with a reason. Prints what differs, what is refused, and how many agree.
Falcon with alibi differs here: transformers' eager attention adds the slopes twice, its other attention (sdpa), which Quern follows, once.
A change that moves no logit of transformers says nothing and is not counted. Needs: pip install torch transformers safetensors.
"""
import argparse
import copy
import dataclasses
import fnmatch
import inspect
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

import make_fixtures
import make_sentences
from architectures import ARCH, Arch

warnings.filterwarnings("ignore")
ROOT = Path(__file__).resolve().parents[3]
INPUTS = {"tokens": "input_ids", "mask": "attention_mask", "segments": "token_type_ids", "target": "decoder_input_ids", "features": "input_features", "pixels": "pixel_values"}
ACTIVATIONS = ["relu", "gelu", "gelu_new", "silu", "gelu_pytorch_tanh", "quick_gelu", "relu2"]
SKIP = ("*dropout*", "*_token_id", "use_cache", "*initializer*", "output_*", "return_dict", "is_encoder_decoder", "*chunk*", "torchscript", "*jitter*", "*aux*", "is_decoder", "add_cross_attention",
        "_*", "scale_embedding_init", "rescale_*", "pretraining_tp", "slow_but_exact", "*layerdrop*", "forced_*", "classifier_*", "use_return_dict")
ROPES = {
    "linear": dict(rope_type="linear", factor=2.5),
    "dynamic": dict(rope_type="dynamic", factor=2.0),
    "llama3": dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32),
    "yarn": dict(rope_type="yarn", factor=4.0, beta_fast=8.0, beta_slow=1.0, original_max_position_embeddings=16),
    "yarn, mscale": dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16, mscale=0.7, mscale_all_dim=1.3),
    "theta": dict(rope_type="default", rope_theta=123.0),
    "partial": dict(rope_type="default", partial_rotary_factor=0.5),
}


def other_values(name, value, kw):
    if any(fnmatch.fnmatch(name, pattern) for pattern in SKIP):
        return
    if name == "rope_parameters" and isinstance(value, dict) and "rope_type" in value:
        for said, more in ROPES.items():
            yield said, {"rope_theta": value["rope_theta"], **more}
    elif isinstance(value, bool):
        yield str(not value), not value
    elif isinstance(value, str) and (name.endswith("_act") or "activation" in name):
        for other in ACTIVATIONS:
            if other != value:
                yield other, other
    elif isinstance(value, float):
        yield f"{value * 1.5 + 0.25:g}", value * 1.5 + 0.25
    elif name in ("sliding_window", "attention_window"):
        yield "5", 5
    elif name in ("num_key_value_heads",) and value:
        yield "1", 1
        yield str(kw.get("num_attention_heads", value)), kw.get("num_attention_heads", value)
    elif name in ("head_dim",) and value:
        yield str(value * 2), value * 2
    elif isinstance(value, int) and name in ("num_hidden_layers", "n_layer", "n_layers", "num_experts_per_tok", "first_k_dense_replace", "decoder_sparse_step", "n_group", "topk_group", "max_window_layers",
                                              "full_attention_interval", "conv_kernel", "linear_conv_kernel_dim", "n_groups", "intermediate_size", "ffn_dim", "n_inner"):
        yield str(value + 1), value + 1


SENTENCES = {f"sentences/{name}": Arch("mlm", *make_sentences.MODELS[name], [], "") for name in make_sentences.MODELS}


def logits(model, inputs):
    """Of a sentence encoder the mean of its words, of length one."""
    with torch.no_grad():
        if "labels" not in inspect.signature(model.forward).parameters and "attention_mask" in inputs:
            hidden = model(**{name: tensor for name, tensor in inputs.items() if name != "labels"}).last_hidden_state
            return torch.nn.functional.normalize((hidden * inputs["attention_mask"][:, :, None]).sum(1), dim=1).float()
        more = {"use_cache": False} if model.config.model_type == "rwkv" else {}
        return make_fixtures.forward(model, inputs, **more)["logits"].float()


def made(arch, seed=3):
    model = make_fixtures.build(arch)
    make_fixtures.randomize(model, arch, torch.Generator().manual_seed(seed))
    return model, make_fixtures.make_inputs(arch, model, torch.Generator().manual_seed(seed))


def by_quern(quern, folder, inputs, more):
    """The logits, or what was said instead."""
    def run(*words):
        done = subprocess.run([quern, *map(str, words)], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr.strip() or f"exit status {done.returncode}")

    spec, source, result = folder / "spec.quern", folder / "in.st", folder / "out.st"
    spec.unlink(missing_ok=True)
    run("init", "--from", folder, "-o", spec)
    given = {name: inputs[there] for name, there in INPUTS.items() if there in inputs}
    save_file({name: (tensor if tensor.is_floating_point() else tensor.bool() if name == "mask" else tensor.int()).contiguous() for name, tensor in given.items()}, source)
    run("interpret", spec, "--config", folder / "config.json", "--weights", folder / "model.safetensors", "--input", source, "--output", result, *more)
    (found,) = load_file(result).values()
    return found.float()


def far(a, b, inputs):
    if a.shape != b.shape:
        return float("inf")
    if "attention_mask" in inputs and a.dim() == 3 and a.shape[1] == inputs["attention_mask"].shape[1]:
        keep = inputs["attention_mask"].bool()
        a, b = a[keep], b[keep]
    return float((a - b).abs().max() / b.abs().max())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quern", default=str(ROOT / "build/bin/quern"))
    parser.add_argument("--fields", default="*")
    parser.add_argument("--all", action="store_true", help="print what agrees, too")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    counts = {"same": 0, "refused": 0, "DIFFERENT": 0}
    for name in options.names or ARCH:
        arch = (ARCH | SENTENCES)[name]
        if arch.kind == "contrast":
            continue
        try:
            config = arch.config(**arch.kw)
            base_model, inputs = made(arch)
            base = logits(base_model, inputs)
        except Exception as error:
            print(f"{name}: transformers cannot build it: {error}")
            continue
        variants = [("(as it is)", {})]
        for field, value in sorted({**config.to_dict(), **arch.kw}.items()):
            if fnmatch.fnmatch(field, options.fields):
                variants += [(f"{field} = {said}", {field: other}) for said, other in other_values(field, value, arch.kw)]
        for title, change in variants:
            changed = dataclasses.replace(arch, kw={**copy.deepcopy(arch.kw), **change})
            try:
                model, inputs = made(changed)
                want = logits(model, inputs)
            except Exception:
                continue  # transformers has no such model
            if change and want.shape == base.shape and torch.equal(want, base):
                continue
            if not torch.isfinite(want).all():
                continue
            with tempfile.TemporaryDirectory() as tmp:
                folder = Path(tmp)
                model.save_pretrained(folder)
                try:
                    error = far(by_quern(options.quern, folder, inputs, ["--set", "pooling=mean"] if name in SENTENCES else []), want, inputs)
                    verdict, said = ("same", f"{error:.1e}") if error < 1e-4 else ("DIFFERENT", f"{error:.1e}")
                except RuntimeError as refusal:
                    verdict, said = "refused", next((line for line in str(refusal).splitlines() if "error" in line or "quern" in line), str(refusal))[:230].replace(str(folder), "")
            counts[verdict] += 1
            if verdict != "same" or options.all:
                print(f"{name}: {title}: {verdict}: {said}", flush=True)
    print(", ".join(f"{count} {what}" for what, count in counts.items()))


if __name__ == "__main__":
    sys.exit(main())
