"""The programs that measure.py runs on a GPU: their specs, and how they are compiled."""
import json
import shutil

from tests.e2e.harness import DATA, EXAMPLES, QUERN
from tests.e2e.models.models_test import SPECS

GOLDENS = ("gpt2", "llama", "bert", "t5", "mixtral", "mamba")

PRODUCT = """quern 1
model product {
  config { width = 8192 }
  dim D = width, O = width, V = 64
  forward(tokens: int[T]) -> [T] {
    param words: [V, D] @ "words" ~ normal(0.02)
    y = linear[D -> O](words[V = tokens]) @ "product"
    return sum[O](y * y)
  }
}
"""
# Attention that looks back: with the caches of a program that generates, and with a gradient. Queries are products, as those of a table of
# few words would be multiplied before they are looked up; of the second layer a prefill computes the last row alone.
ATTENTION = """quern 1
model heads {
  config { heads = 16, size = 128 }
  dim H = heads, K = size, V = 64, D = 256
  forward(tokens: int[B, T]) -> [B, T, V] {
    dim S = T
    x = embedding[V -> D](tokens) @ "words"
    repeat i in 2 @ "h.{i}" {
      q, k, v = linear[D -> (H, K) + (H, K) + (H, K)](x) @ "qkv"
      x = x + linear[(H, K) -> D](attention[S, K](q, k[T -> S], v[T -> S], mask: index(S) <= index(T))) @ "out"
    }
    return linear[D -> V](x) @ "head"
  }
}
"""
BILLION = dict(vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8,
               head_dim=64, tie_word_embeddings=True, max_position_embeddings=8192, rms_norm_eps=1e-5)
SMALL = dict(vocab_size=320, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16, tie_word_embeddings=True,
             max_position_embeddings=256, rms_norm_eps=1e-5)
# Of the same shapes as far as kernels of its layers go; small enough for weights to be made on the spot.
FEW_LAYERS = dict(BILLION, vocab_size=16384, num_hidden_layers=2)
# How a program has its weights: options of the compiler, and how far what it says of a token may be when kernels of few rows say it (nats).
FORMATS = {"f32": (("--precision", "f32"), 1e-4), "bf16": ((), 0.05), "int8": (("--quantize", "int8"), 0.05), "q4_k": (("--quantize", "q4_k"), 0.05),
           "q4_k-exact": (("--quantize", "q4_k", "--activations", "exact"), 0.05)}
GPT2 = dict(vocab_size=50257, n_positions=1024, n_embd=768, n_layer=12, n_head=12)
SMALL_GPT2 = dict(vocab_size=96, n_positions=64, n_embd=32, n_layer=2, n_head=2)


def ahead(quick):
    """Steps of weights that a product of few rows fetches before it waits, beside the default."""
    return (4,) if quick else (0, 4, 32)


class Programs:
    """A folder of them. `command` runs a command and gives what it writes."""

    def __init__(self, folder, quick, command):
        self.folder, self.quick, self.command = folder, quick, command

    def __getitem__(self, name):
        return self.folder / name

    def build(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        goldens = GOLDENS[:2] if self.quick else GOLDENS
        (self.folder / "goldens.json").write_text(json.dumps(list(goldens)))
        for fixture in goldens:
            shutil.copytree(DATA / fixture, self.folder / "data" / fixture, dirs_exist_ok=True)
            self.compile(f"golden-{fixture}", EXAMPLES / f"{SPECS[fixture]}.quern", "--config", DATA / fixture / "config.json", "--precision", "f32")
        self.compile("gradients", EXAMPLES / "gpt2.quern", "--train", "--config", DATA / "gpt2" / "config.json", "--precision", "f32")
        self.compile("rounded-llama", EXAMPLES / "llama.quern", "--config", DATA / "llama" / "config.json")
        product, attention = self.spec("product", PRODUCT), self.spec("attention", ATTENTION)
        small = ("--set", "width=64") if self.quick else ()
        self.compile("product", product, *small)
        self.bundle("product-tune", product, *small, "-p", 64 if self.quick else 8192)
        small = ("--set", "heads=2", "--set", "size=16") if self.quick else ()
        self.compile("attention", attention, *small)
        self.compile("attention-train", attention, *small, "--train")
        llama = (EXAMPLES / "llama.quern", "--config", self.config("decode", SMALL if self.quick else BILLION))
        self.compile("decode", *llama)
        few = (EXAMPLES / "llama.quern", "--config", self.config("few", SMALL if self.quick else FEW_LAYERS))
        for name, (options, _) in FORMATS.items():
            self.compile(f"few-{name}", *few, *options)
            if name != "bf16":
                self.compile(f"decode-{name}", *llama, *options)
        for steps in ahead(self.quick):
            schedules = self.folder / f"ahead-{steps}.txt"
            schedules.write_text(f"tile : ahead {steps}\n")
            self.compile(f"decode-ahead-{steps}", *llama, "--schedules", schedules)
        self.compile("train", EXAMPLES / "gpt2.quern", "--config", self.config("train", SMALL_GPT2 if self.quick else GPT2), "--train")

    def compile(self, name, spec, *options):
        self.command([QUERN, "compile", spec, "--target", "cuda", *options, "-o", self.folder / name, "--no-tuned"], 600)

    def bundle(self, name, spec, *options):
        """A program that finds the best plans where no compiler is."""
        self.command([QUERN, "tune", spec, "--target", "cuda", *options, "--bundle", self.folder / name, "--database", self.folder / "tuning.sqlite"], 600)

    def spec(self, name, text):
        path = self.folder / f"{name}.quern"
        path.write_text(text)
        return path

    def config(self, name, values):
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(values))
        return path
