"""`./dev bench`: what Quern reaches on this machine, one table, each figure beside its limit in the same run.

Random weights at public shapes, two threads, f32, medians of five rounds, in which the rows alternate, so that a machine that changes its pace changes
it for all. Limits are what registers and memory do, measured by the same process right before and after. About ten minutes on two cores.

--tuned SECONDS adds programs that `quern tune` has searched plans for so long, in turns with the others.

llama.cpp stands beside decode where `./dev bench precisions --install` built it; oneDNN beside contractions after `--install`, which fetches its package
from PyPI (39 MB) into build/onednn."""
import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from tests.e2e.bench import bench_onednn
from tests.e2e.harness import BUILD, EXAMPLES, QUERN, run

GPT2 = {"vocab_size": 50257, "n_positions": 1024, "n_embd": 768, "n_layer": 12, "n_head": 12}
LLAMA = {"vocab_size": 32000, "hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 12, "num_attention_heads": 12,
         "num_key_value_heads": 12, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "hidden_act": "silu"}
PRODUCTS = [(512, 768, 2048), (512, 2048, 2048)]  # as quern_kernel_bench's group `large`
ROWS = {"kernels": "contractions and attention", "llama110m": "prefill and decode, 110M", "llama1.1b": "the same, 1.1B", "train": "a training step",
        "start": "start to first token, memory", "compile": "compile times"}


class Bench:
    """What each round adds to: lists of figures by name; a share is a pair with its limit."""

    def __init__(self, options, folder):
        self.options, self.folder, self.figures = options, folder, {}
        self.threads = ["--threads", options.threads]

    def add(self, name, **values):
        for key, value in values.items():
            self.figures.setdefault(name, {}).setdefault(key, []).append(value)

    def on_few_processors(self):
        """For what takes as many threads as there are processors."""
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: self.options.threads])

    def compile(self, name, spec, config, *words, cache=None):
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(config))
        start = time.monotonic()
        run(QUERN, "compile", EXAMPLES / f"{spec}.quern", "--config", path, *words, "-o", self.folder / name, cache=cache or self.folder / "cache")
        return time.monotonic() - start

    def compile_both(self, name, spec, config, *words, tune=()):
        """Programs by the suffix of their figures: of default plans and, with --tuned, of those that a search finds."""
        self.compile(name, spec, config, *words)
        programs = {"": self.folder / name}
        if self.options.tuned:
            database = ["--database", self.folder / f"{name}.sqlite"]
            run(QUERN, "tune", EXAMPLES / f"{spec}.quern", "--config", self.folder / f"{name}.json", *words, *tune, "--budget", self.options.tuned, *self.threads, *database,
                cache=self.folder / "cache", timeout=None)
            self.compile(f"{name}-tuned", spec, config, *words, *database)
            programs[", tuned"] = self.folder / f"{name}-tuned"
        return programs

    # ---- rows: prepare once, then measure in rounds

    def kernels(self):
        def measure():
            for target in ("x86-64-v3", "native"):
                text = subprocess.run([BUILD / "bin/quern_kernel_bench", "--target", target, "large", *(["long"] if target == "native" else [])], check=True,
                                      capture_output=True, encoding="utf-8", preexec_fn=self.on_few_processors).stdout
                for line in text.splitlines():
                    what, reached, limit, vectors = re.match(r"(.*?) +[\d.]+ us +([\d.]+) GFLOP/s of ([\d.]+):[^,]*(?:, \d+% of ([\d.]+) by multiply-adds)?", line).groups()
                    self.add(what if what.startswith("attention") else f"{what}, {target}", value=float(reached), limit=float(limit), unit="GFLOP/s",
                             **({"multiply_adds": float(vectors)} if vectors else {}))
            if bench_onednn.PROGRAM.exists():
                words = [str(size) for product in PRODUCTS for size in product]
                rates = subprocess.run([bench_onednn.PROGRAM, *words], check=True, capture_output=True, encoding="utf-8", preexec_fn=self.on_few_processors).stdout.split()
                for product, rate in zip(PRODUCTS, rates):
                    self.add("contraction {} x {} x {}, native".format(*product), peer=float(rate), peer_name="oneDNN")
        return measure

    def llama(self, size):
        from tests.e2e.bench.bench_precisions import PLACE, SIZES, write_model
        tool, weights = PLACE / "build/bin/llama-bench", []
        name = f"llama{size}"
        programs = self.compile_both(name, "llama", SIZES[size])
        model = self.folder / f"{size}.gguf"
        if tool.exists():
            write_model(model, SIZES[size])
            run(self.folder / name, "pack", "--weights", model, "-o", self.folder / f"{name}-packed")
            weights = ["--weights", self.folder / f"{name}-packed"]

        def measure():
            for suffix, program in programs.items():
                result = json.loads(run(program, "bench", "-p", 512, "-n", 64, "-r", 2 if size == "110m" else 1, *weights, *self.threads, "--json").out)
                for phase in ("prefill", "decode"):
                    one = result[phase]
                    self.add(f"{phase}, Llama {size}{suffix}", value=one["achieved"], limit=one["limit"]["value"], unit=one["limit"]["unit"], rate=one["tokens_per_s"],
                             **({"multiply_adds": one["multiply_adds"]} if "multiply_adds" in one else {}))
            if tool.exists():
                for phase, words in (("prefill", ("-p", 512, "-n", 0)), ("decode", ("-p", 0, "-n", 64, "-d", 512))):
                    command = [tool, "-m", model, *map(str, words), "-t", str(self.options.threads), "-r", "1", "-o", "json"]
                    rate = json.loads(subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout)[0]["avg_ts"]
                    self.add(f"{phase}, Llama {size}", peer=rate, peer_name="llama.cpp, tokens/s")
        return measure

    def train(self):
        programs = self.compile_both("gpt2-train", "gpt2", GPT2, "--train", tune=["--batch", 4, "-p", 64])

        def measure():
            for suffix, program in programs.items():
                one = json.loads(run(program, "bench", "--train", "--batch", 4, "-p", 64, *self.threads, "--json").out)
                limit = one["limit_gflops"]
                self.add(f"training step, GPT-2 124M, 4 x 64{suffix}", value=one["step_ratio"] * limit, limit=limit, unit="GFLOP/s", rate=one["step_tokens_per_s"])
                self.add(f"of it the gradient{suffix}", value=one["achieved_gflops"], limit=limit, unit="GFLOP/s", rate=one["tokens"] / one["seconds"])
        return measure

    def start(self):
        from tests.e2e.bench.bench_precisions import write_model
        model = self.folder / "start.gguf"
        write_model(model, LLAMA)
        self.compile("start", "llama", LLAMA)
        packed = self.folder / "start-packed"
        run(self.folder / "start", "pack", "--weights", model, "-o", packed)
        stored = (packed / "model.safetensors").stat().st_size
        words = ["--tokens", "1,2,3,4,5,6,7,8", "-n", 1, *self.threads]
        by_run = [QUERN, "run", "--cache-dir", self.folder / "cache", model, "-q", *words]

        def measured(name, command):
            started = time.monotonic()
            process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            if status:
                sys.exit(f"bench.py: {command[0]} ends with status {status}")
            self.add(name, seconds=time.monotonic() - started, memory=usage.ru_maxrss * 1024, weights=stored)

        subprocess.run([str(word) for word in by_run], check=True, stdout=subprocess.DEVNULL)  # compiles and packs

        def measure():
            measured("start to first token, Llama 110m, packed", [self.folder / "start", "generate", "--weights", packed, *words])
            measured("the same by quern run, from the second start on", by_run)
        return measure

    def compiling(self):
        cache = self.folder / "cold"

        def measure():
            shutil.rmtree(cache, ignore_errors=True)
            for name in ("cold", "warm"):
                self.add(f"compile GPT-2 124M, {name}", seconds=self.compile("gpt2", "gpt2", GPT2, cache=cache))
        return measure


def report(figures, machine, rounds):
    middle = statistics.median
    print(f"{machine}; f32; medians of {rounds}\n")
    print("| what | reached | limit in the same run | share (least to most) | beside |\n| --- | --- | --- | --- | --- |")
    for name, one in figures.items():
        cells = [name]
        if "value" in one:
            shares = [100 * min(1, value / limit) for value, limit in zip(one["value"], one["limit"])]
            rate = f", {middle(one['rate']):.4g} tokens/s" if "rate" in one else ""
            cells += [f"{middle(one['value']):.4g} {one['unit'][0]}{rate}", f"{middle(one['limit']):.4g} {one['unit'][0]}",
                      f"**{middle(shares):.1f}%** ({min(shares):.0f} to {max(shares):.0f})"]
            if "multiply_adds" in one:  # tiles multiply f32 in pieces
                of_vectors = [100 * value / most for value, most in zip(one["value"], one["multiply_adds"])]
                cells[-1] += f"; of {middle(one['multiply_adds']):.4g} by multiply-adds **{middle(of_vectors):.1f}%** ({min(of_vectors):.0f} to {max(of_vectors):.0f})"
        else:
            memory = f", {middle(one['memory']) / 1e6:.0f} MB resident, {middle(one['weights']) / 1e6:.0f} MB of weights" if "memory" in one else ""
            times = one["seconds"]
            cells += [f"**{1000 * middle(times):.0f} ms** ({1000 * min(times):.0f} to {1000 * max(times):.0f}){memory}", "", ""]
        if "peer" in one:
            mine = one["rate"] if "tokens" in one["peer_name"][0] else one["value"]
            times = middle(m / p for m, p in zip(mine, one["peer"]))
            cells.append(f"{middle(one['peer']):.4g} ({one['peer_name'][0]}): {times:.2f} times")
        else:
            cells.append("")
        print("| " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(prog="./dev bench", description="what Quern reaches on this machine, beside its limits")
    parser.add_argument("--install", action="store_true", help="fetch oneDNN from PyPI (39 MB) into build/onednn, to stand beside contractions")
    parser.add_argument("--rows", default=",".join(ROWS), help=f"which ({', '.join(f'{name}: {what}' for name, what in ROWS.items())})")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tuned", type=int, default=0, metavar="SECONDS", help="tune the Llamas and the training step for so long each, and add what these programs reach")
    parser.add_argument("--json", action="store_true", help="all that was measured")
    options = parser.parse_args()
    rows = options.rows.split(",")
    if unknown := [row for row in rows if row not in ROWS]:
        sys.exit(f"bench.py: there is no row {unknown[0]!r}; there are {', '.join(ROWS)}")
    if options.install:
        bench_onednn.install()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="quern-bench-"))
    began = time.monotonic()
    try:
        bench = Bench(options, folder)
        prepare = {"kernels": bench.kernels, "llama110m": lambda: bench.llama("110m"), "llama1.1b": lambda: bench.llama("1.1b"), "train": bench.train,
                   "start": bench.start, "compile": bench.compiling}
        measures = [prepare[row]() for row in rows]
        for number in range(options.rounds):
            first = number % len(measures)
            for measure in measures[first:] + measures[:first]:
                measure()
            print(f"round {number + 1} of {options.rounds}, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    names = [line.split(":")[1].strip() for line in open("/proc/cpuinfo", encoding="utf-8") if line.startswith("model name")]
    flags = next((line for line in open("/proc/cpuinfo", encoding="utf-8") if line.startswith("flags")), "")
    vectors = "AVX-512" if "avx512f" in flags else "AVX2" if "avx2" in flags else "SSE"
    machine = f"{names[0] if names else 'unknown processor'} ({vectors}), {options.threads} threads"
    if options.json:
        print(json.dumps({"machine": machine, "rounds": options.rounds, "figures": bench.figures}, indent=1))
    else:
        report(bench.figures, machine, options.rounds)


if __name__ == "__main__":
    main()
