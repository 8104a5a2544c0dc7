"""What measure.sh runs: takes a build, or what one compiled. Gives results.json, results.txt, and status 1 where a step failed."""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from tests.e2e.harness import BUILD, DATA, EXAMPLES, QUERN, read_safetensors, relative_error, write_safetensors  # noqa: E402

GOLDENS = ("gpt2", "llama", "bert", "t5", "mixtral", "mamba")
INPUTS = {"tokens": "input_ids", "mask": "attention_mask", "segments": "token_type_ids", "target": "decoder_input_ids"}

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
ATTENTION = """quern 1
model heads {
  config { heads = 16, size = 128 }
  dim H = heads, K = size, V = 64
  forward(tokens: int[B, T]) -> [B, T] {
    dim S = T  # all of them: with a mask of the past there would be steps to measure, too
    param queries: [V, H, K] @ "queries" ~ normal(1.0)
    param keys: [V, H, K] @ "keys" ~ normal(1.0)
    q, k = queries[V = tokens], keys[V = tokens]
    a = attention[S, K](q, k[T -> S], k[T -> S])
    return sum[H, K](a)
  }
}
"""
BILLION = dict(vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8,
               head_dim=64, tie_word_embeddings=True)
SMALL = dict(vocab_size=320, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16, tie_word_embeddings=True)
GPT2 = dict(vocab_size=50257, n_positions=1024, n_embd=768, n_layer=12, n_head=12)
SMALL_GPT2 = dict(vocab_size=96, n_positions=64, n_embd=32, n_layer=2, n_head=2)

# PyTorch's side, where it is installed with CUDA: a product by cuBLAS, attention, a step of training GPT-2's layers.
TORCH = """
import json, sys, time, torch
import torch.nn.functional as F
assert torch.cuda.is_available()
def rate(work, f, n=20):
    for _ in range(5): f()
    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    a.record()
    for _ in range(n): f()
    b.record(); torch.cuda.synchronize()
    return work * n / (a.elapsed_time(b) * 1e-3) / 1e12
n, t = 8192, 8192
x, w = (torch.randn(n, n, device="cuda", dtype=torch.bfloat16) for _ in range(2))
q = torch.randn(1, 16, t, 128, device="cuda", dtype=torch.bfloat16)
print(json.dumps({"device": torch.cuda.get_device_name(), "torch": torch.__version__,
                  "product_tflops": rate(2.0 * n ** 3, lambda: x @ w.T),
                  "attention_tflops": rate(4.0 * 16 * 128 * t * t, lambda: F.scaled_dot_product_attention(q, q, q))}))
"""


class Run:
    def __init__(self, arguments):
        self.arguments, self.begin, self.steps = arguments, time.monotonic(), []
        self.out = pathlib.Path(arguments.out)
        self.out.mkdir(parents=True, exist_ok=True)
        self.built = pathlib.Path(arguments.built or arguments.only_build or self.out / "built").resolve()
        self.quick = arguments.quick

    def command(self, words, limit, **variables):
        left = self.arguments.minutes * 60 - (time.monotonic() - self.begin)
        done = subprocess.run([str(word) for word in words], capture_output=True, encoding="utf-8", errors="replace", timeout=max(1, min(limit, left)),
                              env=dict(os.environ, NO_COLOR="1", **variables))
        if done.returncode:
            raise RuntimeError(f"{' '.join(map(str, words))}: status {done.returncode}: {done.stderr.strip()[-800:]}")
        return done.stdout

    def step(self, name, code):
        """A result, whatever happens: what fails is written down, and the next step runs."""
        begin = time.monotonic()
        try:
            result = {"status": "ok", **code()}
        except subprocess.TimeoutExpired as error:
            result = {"status": "timeout", "why": str(error)[:300]}
        except Exception as error:  # noqa: BLE001: all of it goes into the report
            result = {"status": "failed", "why": f"{type(error).__name__}: {error}"[:1000]}
        self.steps.append({"step": name, "took_s": round(time.monotonic() - begin, 1), **result})
        print(json.dumps(self.steps[-1]), flush=True)
        self.write()

    def write(self):
        (self.out / "results.json").write_text(json.dumps({"date": time.strftime("%Y-%m-%d %H:%M"), "quick": self.quick, "steps": self.steps}, indent=1) + "\n")
        lines = []
        for step in self.steps:
            rest = {key: value for key, value in step.items() if key not in ("step", "status", "took_s")}
            lines.append(f"{step['step']:<28} {step['status']:<8} {step['took_s']:>7.1f} s  " + ", ".join(f"{key} {value}" for key, value in rest.items()))
        (self.out / "results.txt").write_text("\n".join(lines) + "\n")

    # What is compiled: all programs for cuda; those for goldens in f32.
    def build(self):
        self.built.mkdir(parents=True, exist_ok=True)
        from tests.e2e.models.models_test import SPECS
        goldens = GOLDENS[:2] if self.quick else GOLDENS
        (self.built / "goldens.json").write_text(json.dumps(list(goldens)))
        for fixture in goldens:
            shutil.copytree(DATA / fixture, self.built / "data" / fixture, dirs_exist_ok=True)
            self.compile(f"golden-{fixture}", EXAMPLES / f"{SPECS[fixture]}.quern", "--config", DATA / fixture / "config.json", "--precision", "f32")
        self.compile("rounded-llama", EXAMPLES / "llama.quern", "--config", DATA / "llama" / "config.json")
        for name, text in (("product", PRODUCT), ("attention", ATTENTION)):
            spec = self.built / f"{name}.quern"
            spec.write_text(text)
            small = ("--set", "width=64") if name == "product" else ("--set", "heads=2", "--set", "size=16")
            self.compile(name, spec, *(small if self.quick else ()))
        for name, spec, config, options in (("decode", "llama", SMALL if self.quick else BILLION, ()), ("decode-f32", "llama", SMALL if self.quick else BILLION, ("--precision", "f32")),
                                            ("train", "gpt2", SMALL_GPT2 if self.quick else GPT2, ("--train",))):
            file = self.built / f"{name}.json"
            file.write_text(json.dumps(config))
            self.compile(name, EXAMPLES / f"{spec}.quern", "--config", file, *options)

    def compile(self, name, spec, *options):
        self.command([QUERN, "compile", spec, "--target", "cuda", *options, "-o", self.built / name, "--no-tuned"], 600)

    def program(self, name):
        return self.built / name

    # What is measured.
    def machine(self):
        found = shutil.which("nvidia-smi")
        text = self.command([found, "--query-gpu=name,driver_version,memory.total,clocks.max.sm", "--format=csv,noheader"], 60).strip() if found else "no nvidia-smi"
        return {"gpu": text}

    def evaluated(self, program, fixture, *before, **variables):
        """A model's logits, PyTorch's, and which of them count."""
        folder = self.built / "data" / fixture
        expected = read_safetensors(folder / "expected.safetensors")
        inputs = {name: expected[there] for name, there in INPUTS.items() if there in expected}
        given, got = self.out / "in.safetensors", self.out / "out.safetensors"
        write_safetensors(given, inputs)
        self.command([*before, self.program(program), "eval", "--weights", folder / "model.safetensors", "--input", given, "--output", got], 300, **variables)
        return read_safetensors(got)["logits"], expected["logits"], list(inputs["mask"].data) if fixture == "bert" else None

    def golden(self, fixture, *before, **variables):
        error = relative_error(*self.evaluated(f"golden-{fixture}", fixture, *before, **variables))
        if error > 5e-5:
            raise RuntimeError(f"logits are {error:.2g} from PyTorch's, not within 5e-5")
        return {"error": error}

    def beside_older(self):
        """In bf16, by kernels for this card alone (wgmma, copies of boxes) and by those for 8.0 (mma.sync): the same but for bf16's rounding."""
        mine, expected, _ = self.evaluated("rounded-llama", "llama")
        older, _, _ = self.evaluated("rounded-llama", "llama", QUERN_CUDA_CAPABILITY="80")
        result = {"apart": relative_error(mine, older), "error": relative_error(mine, expected), "error_80": relative_error(older, expected)}
        if result["apart"] > 3e-2:
            raise RuntimeError(f"kernels for this card compute something else: {result}")
        return result

    def bench(self, name, *options, limit=300, **variables):
        result = json.loads(self.command([self.program(name), "bench", *options, "--json"], limit, **variables))
        kept = {}
        for part in ("prefill", "decode"):
            if result.get(part):
                one = result[part]
                kept[part] = {"tokens_per_s": round(one["tokens_per_s"], 2), "achieved": round(one["achieved"], 2), "limit": round(one["limit"]["value"], 2),
                              "unit": one["limit"]["unit"], "ratio": round(one["ratio"], 4)}
        if "step" in result or "seconds" in result:
            kept |= {key: result[key] for key in ("seconds", "tokens_per_s") if key in result}
        if "device" in result:
            kept["device"] = {key: result["device"][key] for key in ("launches", "graphs", "sent_bytes", "fetched_bytes") if key in result["device"]}
        return kept

    def measure(self):
        self.step("machine", self.machine)
        for fixture in json.loads((self.built / "goldens.json").read_text()):
            self.step(f"golden {fixture}", lambda fixture=fixture: self.golden(fixture))
        self.step("golden llama, capability 8.0", lambda: self.golden("llama", QUERN_CUDA_CAPABILITY="80"))
        self.step("llama in bf16, beside 8.0", self.beside_older)
        if sanitizer := shutil.which("compute-sanitizer"):
            self.step("compute-sanitizer llama", lambda: self.golden("llama", sanitizer, "--error-exitcode", "9"))
        small = self.quick
        self.step("product 8192", lambda: self.bench("product", "-p", 64 if small else 8192, "-r", 1 if small else 20))
        self.step("product 8192, capability 8.0", lambda: self.bench("product", "-p", 64 if small else 8192, "-r", 1 if small else 20, QUERN_CUDA_CAPABILITY="80"))
        for early in ("0", "1"):
            self.step(f"decode 1B, dependent {early}", lambda early=early: self.bench("decode", "-p", 4 if small else 128, "-n", 4 if small else 256, "-r", 1 if small else 5, QUERN_CUDA_DEPENDENT=early))
        self.step("decode 1B, f32", lambda: self.bench("decode-f32", "-p", 4 if small else 128, "-n", 2 if small else 64, "-r", 1 if small else 3))
        self.step("decode 1B, profile", self.profile)
        self.step("attention 8k", lambda: self.bench("attention", "-p", 16 if small else 8192, "-r", 1 if small else 10))
        self.step("training GPT-2", lambda: self.bench("train", "--train", "--batch", 1 if small else 4, "-p", 8 if small else 1024, "-r", 1 if small else 5, limit=600))
        if not small:
            self.step("PyTorch", lambda: json.loads(self.command([sys.executable, "-c", TORCH], 300).splitlines()[-1]))

    def profile(self):
        """Where a step's time goes, kernel by kernel, for whoever reads the file."""
        file = self.out / "profile.json"
        self.command([self.program("decode"), "bench", "-p", 4 if self.quick else 128, "-n", 2 if self.quick else 64, "-r", 1, "--profile", file], 300)
        return {"profile": str(file), "bytes": file.stat().st_size}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default=BUILD / "gpu")
    parser.add_argument("--built")
    parser.add_argument("--only-build")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--minutes", type=float, default=40)
    arguments = parser.parse_args()
    run = Run(arguments)
    if not arguments.built:
        run.build()
    if arguments.only_build:
        return 0
    run.measure()
    print((run.out / "results.txt").read_text())
    return int(any(step["status"] != "ok" for step in run.steps))


if __name__ == "__main__":
    sys.exit(main())
