"""What measure.sh runs: takes a build, or what one compiled. Gives results.json, results.txt, and status 1 where a step failed."""
import argparse
import concurrent.futures
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from tests.e2e.bench.bench_precisions import write_model  # noqa: E402
from tests.e2e.harness import BUILD, ints, random_tokens, read_safetensors, relative_error, write_safetensors  # noqa: E402
from tests.e2e.models.models_test import INPUTS  # noqa: E402
from tests.e2e.training import gradients_test  # noqa: E402
from tests.gpu.programs import FEW_LAYERS, FORMATS, GPT2, SMALL, SMALL_GPT2, Programs, ahead  # noqa: E402

# The device's work is not timed in steps of correctness: they run side by side.
SIDE_BY_SIDE = min(8, os.cpu_count() or 1)

# What is wanted of an H100 (issue 15, docs/design/gpu.md): the step, its number, at least. `bench` gives a ratio to what the same run measured.
WANTED = (("product 8192", "tflops", 600), ("product 8192, tuned", "of_pytorch", 0.95), ("decode 1B", "ratio", 0.80),
          ("decode 1B, by kernels", "largest_of_read_probe", 0.90), ("attention 8k", "tflops", 550), ("training GPT-2", "of_pytorch", 1.0))


class Run:
    def __init__(self, arguments):
        self.arguments, self.begin, self.steps = arguments, time.monotonic(), []
        self.out = pathlib.Path(arguments.out)
        self.out.mkdir(parents=True, exist_ok=True)
        self.quick = arguments.quick
        self.programs = Programs(pathlib.Path(arguments.built or arguments.only_build or self.out / "built").resolve(), self.quick, self.command)

    def sized(self, small, large):
        return small if self.quick else large

    def command(self, words, limit, **variables):
        left = self.arguments.minutes * 60 - (time.monotonic() - self.begin)
        if left < 1:
            raise RuntimeError("no time is left")
        done = subprocess.run([str(word) for word in words], capture_output=True, encoding="utf-8", errors="replace", timeout=min(limit, left), cwd=self.out,
                              env=dict(os.environ, NO_COLOR="1", **variables))
        if done.returncode:
            raise RuntimeError(f"{' '.join(map(str, words))}: status {done.returncode}: {done.stderr.strip()[-800:]}")
        return done.stdout

    def step(self, name, code):
        """A result, whatever happens: what fails is written down, and the next step runs."""
        self.add(self.result(name, code))

    def side_by_side(self, steps):
        with concurrent.futures.ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            for one in pool.map(lambda step: self.result(*step), steps):
                self.add(one)

    @staticmethod
    def result(name, code):
        begin = time.monotonic()
        try:
            result = {"status": "ok", **code()}
        except subprocess.TimeoutExpired as error:
            result = {"status": "timeout", "why": str(error)[:300]}
        except Exception as error:  # noqa: BLE001: all of it goes into the report
            result = {"status": "failed", "why": f"{type(error).__name__}: {error}"[:1000]}
        return {"step": name, "took_s": round(time.monotonic() - begin, 1), **result}

    def add(self, result):
        self.steps.append(result)
        print(json.dumps(result), flush=True)
        self.write()

    def found(self, step, key):
        """A number of a step before, or nothing."""
        return next((one.get(key) for one in self.steps if one["step"] == step), None)

    def write(self):
        wanted = [{"step": step, "number": key, "wanted": least, "found": self.found(step, key)} for step, key, least in WANTED]
        (self.out / "results.json").write_text(json.dumps({"date": time.strftime("%Y-%m-%d %H:%M"), "quick": self.quick, "steps": self.steps, "wanted": wanted}, indent=1) + "\n")
        lines = []
        for step in self.steps:
            rest = {key: value for key, value in step.items() if key not in ("step", "status", "took_s")}
            lines.append(f"{step['step']:<32} {step['status']:<8} {step['took_s']:>7.1f} s  " + ", ".join(f"{key} {value}" for key, value in rest.items()))
        lines += [""] + [f"{one['step']:<32} {one['number']:<24} wanted {one['wanted']:<6} found {one['found']}" for one in wanted]
        (self.out / "results.txt").write_text("\n".join(lines) + "\n")

    # Correctness.

    def machine(self):
        found = shutil.which("nvidia-smi")
        text = self.command([found, "--query-gpu=name,driver_version,memory.total,clocks.max.sm", "--format=csv,noheader"], 60).strip() if found else "no nvidia-smi"
        return {"gpu": text}

    def call(self, command, weights, inputs, **variables):
        with tempfile.TemporaryDirectory(dir=self.out) as scratch:
            given, got = pathlib.Path(scratch) / "in.safetensors", pathlib.Path(scratch) / "out.safetensors"
            write_safetensors(given, inputs)
            self.command([*command, "--weights", weights, "--input", given, "--output", got], 300, **variables)
            return read_safetensors(got)

    def evaluated(self, program, fixture, *before, **variables):
        """A model's logits, PyTorch's, and which of them count."""
        folder = self.programs["data"] / fixture
        expected = read_safetensors(folder / "expected.safetensors")
        inputs = {name: expected[there] for name, there in INPUTS.items() if there in expected}
        got = self.call([*before, self.programs[program], "eval"], folder / "model.safetensors", inputs, **variables)
        return got["logits"], expected["logits"], list(inputs["mask"].data) if fixture == "bert" else None

    def golden(self, fixture, *before, **variables):
        error = relative_error(*self.evaluated(f"golden-{fixture}", fixture, *before, **variables))
        if error > 5e-5:
            raise RuntimeError(f"logits are {error:.2g} from PyTorch's, not within 5e-5")
        return {"error": error}

    def gradients(self, *before):
        golden = gradients_test.Golden()
        folder, expected, inputs = golden.read("gpt2")
        got = self.call([*before, self.programs["gradients"], "grad"], folder / "model.safetensors", inputs)
        golden.compare(folder, expected, got, noise=1e-6)
        return {"loss": got["loss"].data[0], "loss_of_pytorch": expected["loss"].data[0]}

    def beside_older(self):
        """In bf16, by kernels for this card alone (wgmma, copies of boxes) and by those for 8.0 (mma.sync): the same but for bf16's rounding."""
        mine, expected, _ = self.evaluated("rounded-llama", "llama")
        older, _, _ = self.evaluated("rounded-llama", "llama", QUERN_CUDA_CAPABILITY="80")
        result = {"apart": relative_error(mine, older), "error": relative_error(mine, expected), "error_80": relative_error(older, expected)}
        if result["apart"] > 3e-2:
            raise RuntimeError(f"kernels for this card compute something else: {result}")
        return result

    def continuation(self, name):
        """A greedy continuation, token by token (kernels of few rows, caches, graphs of launches), beside the logits of the whole text at once."""
        config, weights = self.sized(SMALL, FEW_LAYERS), self.out / "few.gguf"
        prompt, n = list(random_tokens(3, 1, self.sized(3, 100), config["vocab_size"]).data), self.sized(3, 60)
        said = json.loads(self.command([self.programs[f"few-{name}"], "generate", "--weights", weights, "--tokens", ",".join(map(str, prompt)), "-n", n,
                                        "--json", "--logprobs"], 300))
        logits = self.call([self.programs[f"few-{name}"], "eval"], weights, {"tokens": ints([prompt + said["tokens"]])})["logits"]
        apart = 0.0
        for i, (token, probability) in enumerate(zip(said["tokens"], said["logprobs"], strict=True)):
            at = (len(prompt) + i - 1) * config["vocab_size"]
            row = logits.data[at : at + config["vocab_size"]]
            largest = max(row)
            total = math.log(sum(math.exp(x - largest) for x in row))
            apart = max(apart, abs(row[token] - largest - total - probability), largest - row[token])
        if not apart <= FORMATS[name][1]:
            raise RuntimeError(f"the log probability of a token is {apart:.2g} from that of the whole text at once")
        return {"apart": apart}

    # Speed.

    def bench(self, name, *options, limit=300, **variables):
        """What `bench` reports, and the profile of the same run, whose launches are timed one by one."""
        return json.loads(self.command([self.programs[name], "bench", *options, "--json"], limit, **variables))

    def profiled(self, name, file, *options, **variables):
        """Kernels of each kind of call, those that take most first, with what they reach beside the limits of the same run."""
        path = self.out / f"{file}.json"
        self.command([self.programs[name], "bench", *options, "--profile", path], 600, **variables)
        profile = json.loads(path.read_text())
        titles, limits = {one["launch"]: one["title"] for one in profile["kernels"]}, profile.get("limits", {})
        kinds = []
        for kind in profile["kinds"]:
            rows = {}
            for launch in kind["launches"]:
                row = rows.setdefault(titles[launch["launch"]], {"runs": 0, "ns": 0, "flops": 0, "bytes": 0})
                row["ns"] += sum(launch["iterations_ns"])
                for key in ("runs", "flops", "bytes"):
                    row[key] += launch[key]
            kernels = [{"title": title, "us": row["ns"] / row["runs"] / 1e3, "share": row["ns"], "tflops": row["flops"] / max(1, row["ns"]) / 1e3,
                        "gb_s": row["bytes"] / max(1, row["ns"]), "of_read_probe": row["bytes"] / max(1, row["ns"]) * 1e9 / limits.get("bytes", float("inf"))}
                       for title, row in rows.items()]
            total = sum(one["share"] for one in kernels) or 1
            for one in kernels:
                one["share"] /= total
            kinds.append({"name": kind["name"], "lengths": kind["lengths"], "kernels": sorted(kernels, key=lambda one: -one["share"])})
        return kinds

    def pytorch(self, what, *options):
        """The same work by PyTorch, right after; nothing where it is not installed."""
        script = pathlib.Path(__file__).with_name("beside_torch.py")
        if self.quick or subprocess.run([sys.executable, "-c", "import torch"], capture_output=True).returncode:
            return {}
        return json.loads(self.command([sys.executable, script, what, *options], 400).splitlines()[-1])

    def product(self, **variables):
        width = self.sized(64, 8192)
        kinds = self.profiled("product", "product", "-p", width, "-r", self.sized(1, 20), **variables)
        best = max((one for kind in kinds for one in kind["kernels"]), key=lambda one: one["tflops"])
        result = {"tflops": best["tflops"], "kernel": best["title"]}
        if not variables and (torch := self.pytorch("product", "--width", width)):
            result |= {"pytorch_tflops": torch["tflops"], "of_pytorch": best["tflops"] / torch["tflops"]}
        return result

    def tuned_product(self):
        """By the best of the plans in the bundle: its gain was measured beside the default plan."""
        plans = self.out / "product.plans"
        budget = 6 * self.arguments.minutes
        self.command([self.programs["product-tune"], "tune", "--budget", self.sized(1, budget), "--seconds", self.sized(0.01, 3), "--output", plans], budget + 180)
        found = [line.split("|") for line in plans.read_text().splitlines() if line.strip() and not line.startswith("#")]
        gains = {fields[6].strip(): {"gain": float(fields[4]), "plan": fields[5].strip()} for fields in found}
        untuned = self.found("product 8192", "tflops") or 0
        result = {"tflops": untuned * gains.get("product", {}).get("gain", 1), "plans": gains}
        if torch := self.found("product 8192", "pytorch_tflops"):
            result["of_pytorch"] = result["tflops"] / torch
        return result

    def decode(self, name="decode", steps=256, **variables):
        result = self.bench(name, "-p", self.sized(4, 128), "-n", self.sized(3, steps), "-r", self.sized(1, 5), **variables)
        one, device = result["decode"], result["device"]
        return {"tokens_per_s": one["tokens_per_s"], "gb_s": one["achieved"], "limit_gb_s": one["limit"]["value"], "ratio": one["ratio"],
                **{key: device[key] for key in ("launches", "graphs", "sent_bytes", "fetched_bytes", "allocations")}}

    def decode_kernels(self):
        """Where a step's time goes; of the product that reads most, its part of what a probe reads."""
        kinds = self.profiled("decode", "decode", "-p", self.sized(4, 128), "-n", self.sized(3, 64), "-r", 1)
        step = next(kind for kind in kinds if kind["lengths"]["T"] == 1)["kernels"]
        largest = max(step, key=lambda one: one["gb_s"] * one["us"])
        return {"largest": largest["title"], "largest_of_read_probe": largest["of_read_probe"], "kernels": step[:12]}

    def prefill(self):
        length = self.sized(24, 4096)
        one = self.bench("decode", "-p", length, "-n", 1, "-r", self.sized(1, 5))["prefill"]
        kinds = self.profiled("decode", "prefill", "-p", length, "-n", 1, "-r", 1)
        kernels = next(kind for kind in kinds if kind["lengths"]["T"] == length)["kernels"]
        return {"tokens_per_s": one["tokens_per_s"], "tflops": one["achieved"], "limit": one["limit"]["value"], "ratio": one["ratio"], "kernels": kernels[:12]}

    def prefills(self, length):
        """In each format: tokens a second."""
        names = {name: "decode" if name == "bf16" else f"decode-{name}" for name in FORMATS}
        return {name: self.bench(program, "-p", length, "-n", 1, "-r", self.sized(1, 5))["prefill"]["tokens_per_s"] for name, program in names.items()}

    def attention(self):
        length, heads, size = self.sized(24, 8192), self.sized(2, 16), self.sized(16, 128)
        kinds = self.profiled("attention", "attention", "-p", length, "-n", 2, "-r", self.sized(1, 10))
        result = {"tflops": self.of_attention(kinds, length)["tflops"]}
        kinds = self.profiled("attention-train", "attention-train", "--train", "--batch", 1, "-p", length, "-r", self.sized(1, 5))
        kernels = [one for kind in kinds for one in kind["kernels"] if "attention" in one["title"]]
        result["training"] = [{key: one[key] for key in ("title", "us", "tflops")} for one in kernels]
        if torch := self.pytorch("attention", "--length", length, "--heads", heads, "--size", size):
            result |= {"pytorch_tflops": torch["tflops"], "pytorch_gradient_tflops": torch["gradient_tflops"], "of_pytorch": result["tflops"] / torch["tflops"]}
        return result

    @staticmethod
    def of_attention(kinds, length):
        kind = next(kind for kind in kinds if kind["lengths"]["T"] == length)
        return next(one for one in kind["kernels"] if "attention" in one["title"])

    def training(self):
        batch, length = self.sized(1, 4), self.sized(8, 1024)
        one = self.bench("train", "--train", "--batch", batch, "-p", length, "-r", self.sized(1, 10), limit=600)
        result = {"step_s": one["step_seconds"], "tokens_per_s": one["step_tokens_per_s"], "ratio": one["step_ratio"]}
        config = json.dumps(self.sized(SMALL_GPT2, GPT2))
        if torch := self.pytorch("training", "--batch", batch, "--length", length, "--config", config):
            result |= {"pytorch_step_s": torch["step_s"], "of_pytorch": torch["step_s"] / result["step_s"]}
        kinds = self.profiled("train", "train", "--train", "--batch", batch, "-p", length, "-r", 1)
        return {**result, "kernels": max(kinds, key=lambda kind: len(kind["kernels"]))["kernels"][:12]}

    def measure(self):
        self.step("machine", self.machine)
        steps = [(f"golden {fixture}", lambda fixture=fixture: self.golden(fixture)) for fixture in json.loads(self.programs["goldens.json"].read_text())]
        steps += [("golden llama, capability 8.0", lambda: self.golden("llama", QUERN_CUDA_CAPABILITY="80")),
                  ("llama in bf16, beside 8.0", self.beside_older), ("gradients gpt2", self.gradients)]
        write_model(self.out / "few.gguf", self.sized(SMALL, FEW_LAYERS))
        steps += [(f"continuation, {name}", lambda name=name: self.continuation(name)) for name in FORMATS]
        if sanitizer := shutil.which("compute-sanitizer"):
            checked = (sanitizer, "--error-exitcode", "9")
            steps += [("compute-sanitizer llama", lambda: self.golden("llama", *checked)),
                      ("compute-sanitizer llama, bf16", lambda: {"error": relative_error(*self.evaluated("rounded-llama", "llama", *checked))}),
                      ("compute-sanitizer gradients", lambda: self.gradients(*checked))]
        self.side_by_side(steps)
        self.step("product 8192", self.product)
        self.step("product 8192, capability 8.0", lambda: self.product(QUERN_CUDA_CAPABILITY="80"))
        self.step("product 8192, tuned", self.tuned_product)
        self.step("decode 1B", self.decode)
        self.step("decode 1B, each after the one before", lambda: self.decode(QUERN_CUDA_DEPENDENT="0"))
        for steps in ahead(self.quick):
            self.step(f"decode 1B, ahead {steps}", lambda steps=steps: self.decode(f"decode-ahead-{steps}"))
        for name in FORMATS:
            if name != "bf16":
                self.step(f"decode 1B, {name}", lambda name=name: self.decode(f"decode-{name}", 64))
        for length in (self.sized(4, 128), self.sized(24, 2048)):
            self.step(f"prefill 1B of {length}", lambda length=length: self.prefills(length))
        self.step("prefill 1B", self.prefill)
        self.step("decode 1B, by kernels", self.decode_kernels)
        self.step("attention 8k", self.attention)
        self.step("training GPT-2", self.training)


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
        run.programs.build()
    if arguments.only_build:
        return 0
    run.measure()
    print((run.out / "results.txt").read_text())
    return int(any(step["status"] != "ok" for step in run.steps))


if __name__ == "__main__":
    sys.exit(main())
