#!/usr/bin/env python3
"""The manuals' labs: each measures with compiled programs and writes one page of plots.

    lab.py cost       attention's time and memory from 100 to 10,000 tokens: full, local, linear
    lab.py heads      one head against eight of an eighth of the width
    lab.py window     what a longer context is worth
    lab.py size       model size against loss
      --out FILE.html   where the page goes (build/labs/LAB.html)
      --text FILE       what to learn from (tests/data/tinyshakespeare.txt)
      --steps N         updates of each run (400)
      --quick           a few small points, in seconds: shows that it works, and nothing else

Python's standard library and build/bin/quern (./dev build); QUERN names another compiler.
"""
import argparse
import html
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import time

from chart import chart, page, short, table

ROOT = pathlib.Path(__file__).resolve().parents[2]
QUERN = pathlib.Path(os.environ.get("QUERN", ROOT / "build" / "bin" / "quern"))


def run(command):
    """What a command prints; its failure ends the lab."""
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"lab.py: {' '.join(map(str, command))} ended with status {done.returncode}")
    return done.stdout


class Lab:
    def __init__(self, options):
        self.options, self.folder = options, options.out.parent / f"{options.out.stem}.work"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)

    def say(self, text):
        print(text, file=sys.stderr, flush=True)

    def compile(self, spec, name, *options, **settings):
        sets = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        run([QUERN, "compile", ROOT / spec, *options, *sets, "-q", "-o", self.folder / name])
        return self.folder / name

    def write(self, title, parts):
        command = " ".join(["examples/labs/lab.py", *sys.argv[1:]])
        parts.append(f"<p>Made by <code>{html.escape(command)}</code>.</p>")
        self.options.out.write_text(page(title, parts), encoding="utf-8")
        shutil.rmtree(self.folder)
        print(self.options.out)

    def learn(self, name, batch, length, steps=None, **shape):
        """Trains GPT-2's page on the text, character by character; what its log says."""
        begin = time.time()
        shape = {"vocab_size": len(set(self.options.text.read_text(encoding="utf-8"))), "n_positions": length, **shape}
        program = self.compile("examples/gpt2.quern", name, "--train", **shape)
        steps = steps or self.options.steps
        folder = self.folder / f"{name}.run"
        run([program, "train", "--data", self.options.text, "--output", folder, "--steps", steps, "--batch", batch, "--length", length, "--rate", 3e-3,
             "--eval-every", max(1, steps // 8), "--eval-batches", 8 if self.options.quick else 40, "--sample-every", 0, "--keep", 1, "--quiet",
             "--save-every", steps])
        lines = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
        curve = [(line["step"], line["valid_loss"]) for line in lines if "valid_loss" in line]
        parameters = next(line["run"]["parameters"] for line in lines if "run" in line)
        self.say(f"  {name}: {short(parameters)} parameters, validation loss {curve[-1][1]:.3f}, {time.time() - begin:.0f} s")
        return {"curve": curve, "parameters": parameters, "loss": curve[-1][1]}


def slope(points):
    """The exponent b of y = a x^b through the last two points."""
    (x0, y0), (x1, y1) = points[-2:]
    return math.log(y1 / y0) / math.log(x1 / x0)


def cost(lab):
    lengths = [64, 128, 256] if lab.options.quick else [100, 200, 500, 1000, 2000, 5000, 10000]
    seconds, memory, rows = {}, {}, []
    for kind in ("full", "local", "linear"):
        program = lab.compile("examples/labs/attention.quern", kind, kind=kind)
        seconds[kind], memory[kind] = [], []
        for length in lengths:
            told = json.loads(run([program, "bench", "-p", length, "-n", 1, "--json"]))
            took, peak = told["prefill"]["seconds"], told["memory"]["used_bytes"] / 2**20
            seconds[kind].append((length, took))
            memory[kind].append((length, peak))
            lab.say(f"  {kind}, {length} tokens: {took:.4f} s, {peak:.2f} MiB")
    for i, length in enumerate(lengths):
        rows.append([length] + [f"{seconds[kind][i][1] * 1e3:.2f} ms" for kind in seconds] + [short(4.0 * length * length * 4 / 2**20) + " MiB"])
    grows = ", ".join(f"{kind} as N<sup>{slope(line):.2f}</sup>" for kind, line in seconds.items())
    lab.write("Lab: what attention costs", [
        "<p>Two layers of attention (width 64, 4 heads) read texts of N tokens at once. Full attention looks at N&#178;/2 pairs, a window of 64 at "
        "64 N, and linear attention at none: it carries a sum. On these axes a straight line is a power of N, its slope the exponent.</p>",
        chart("Seconds to read a text", "tokens", "seconds", seconds, True, True),
        f"<p>Between the two longest texts time grows: {grows}.</p>",
        chart("Memory beside the weights", "tokens", "MiB", memory, True, True),
        "<p>Memory grows in a straight line although the scores of all pairs would fill the last column of the table: the compiled kernel never holds them all (flash attention).</p>",
        table(["tokens", *seconds, "N x N scores of 4 heads"], rows)])


def heads(lab):
    width, length, batch = (16, 16, 4) if lab.options.quick else (128, 64, 16)
    runs = {f"{n} head{'s' if n > 1 else ''}": lab.learn(f"heads{n}", batch, length, n_embd=width, n_layer=2, n_head=n) for n in (1, 8)}
    best = min(runs, key=lambda name: runs[name]["loss"])
    lab.write("Lab: one head against eight", [
        f"<p>Two models of the same size, GPT-2's page with two layers {width} wide: one whose head sees all {width} numbers of a position, one with eight heads that see {width // 8} each. "
        "Both read the same characters in the same order.</p>",
        chart("Loss on text that was not trained on", "step", "loss per character", {name: r["curve"] for name, r in runs.items()}),
        f"<p>Lower is better. Here {best} did better; one run of each is one throw of the dice, so look at the distance, and run it again with other <code>--steps</code>.</p>",
        table(["", "parameters", "last loss", "perplexity"], [[name, r["parameters"], f"{r['loss']:.4f}", f"{math.exp(r['loss']):.2f}"] for name, r in runs.items()])])


def window(lab):
    lengths, tokens, width = ([4, 16], 64, 16) if lab.options.quick else ([4, 8, 16, 32, 64, 128], 1024, 96)
    runs = {n: lab.learn(f"window{n}", tokens // n, n, n_embd=width, n_layer=2, n_head=4) for n in lengths}
    lab.write("Lab: the context window", [
        f"<p>The same model sees rows of different lengths, always {tokens} characters a step: with a window of 4 it knows at most the three characters before; with 128 the line, and whose line it is.</p>",
        chart("Loss by the length of the window", "characters that are seen", "last loss per character", {"last loss": [(n, r["loss"]) for n, r in runs.items()]}, True),
        chart("While training", "step", "loss per character", {f"window {n}": r["curve"] for n, r in runs.items()}),
        "<p>The first characters of each row are guessed with little before them, so short windows also pay for having many beginnings.</p>",
        table(["window", "last loss", "perplexity"], [[n, f"{r['loss']:.4f}", f"{math.exp(r['loss']):.2f}"] for n, r in runs.items()])])


def size(lab):
    widths, length, batch = ([8, 16], 16, 4) if lab.options.quick else ([16, 32, 64, 128, 192], 64, 16)
    runs = {n: lab.learn(f"size{n}", batch, length, n_embd=n, n_layer=2, n_head=max(1, n // 16)) for n in widths}
    points = [(r["parameters"], r["loss"]) for r in runs.values()]
    logs = [(math.log(x), math.log(y)) for x, y in points]
    mx, my = (sum(column) / len(logs) for column in zip(*logs))
    b = sum((x - mx) * (y - my) for x, y in logs) / sum((x - mx) ** 2 for x, _ in logs)
    fit = [(x, math.exp(my + b * (math.log(x) - mx))) for x, _ in (points[0], points[-1])]
    lab.write("Lab: model size against loss", [
        "<p>GPT-2's page with two layers, wider and wider, each for the same number of characters. On axes of logarithms the losses lie near a straight line: "
        f"here loss &#8776; {math.exp(my - b * mx):.3g} N<sup>{b:.3f}</sup> for N parameters.</p>",
        chart("Loss by size", "parameters", "last loss per character", {"measured": points, "straight line": fit}, True, True, dashed=("straight line",)),
        chart("While training", "step", "loss per character", {f"{n} wide, {short(r['parameters'])}": r["curve"] for n, r in runs.items()}),
        "<p>With few steps the largest models are not done learning, and bend the line up at its end: more <code>--steps</code> straighten it.</p>",
        table(["width", "parameters", "last loss", "line"], [[n, r["parameters"], f"{r['loss']:.4f}", f"{math.exp(my + b * (math.log(r['parameters']) - mx)):.4f}"] for n, r in runs.items()])])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, add_help=True)
    parser.add_argument("lab", choices=["cost", "heads", "window", "size"])
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--text", type=pathlib.Path, default=ROOT / "tests" / "data" / "tinyshakespeare.txt")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    options.steps = options.steps or (10 if options.quick else 400)
    options.out = (options.out or ROOT / "build" / "labs" / f"{options.lab}.html").absolute()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    if not QUERN.exists():
        sys.exit(f"lab.py: {QUERN} does not exist; run ./dev build")
    {"cost": cost, "heads": heads, "window": window, "size": size}[options.lab](Lab(options))


if __name__ == "__main__":
    main()
