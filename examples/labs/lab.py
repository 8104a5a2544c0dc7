#!/usr/bin/env python3
"""The manuals' labs: each measures with compiled programs and writes one page of plots.

    lab.py cost       attention's time and memory from 100 to 10,000 tokens: full, local, linear
    lab.py heads      one head against eight of an eighth of the width
    lab.py window     what a longer context is worth
    lab.py size       model size against loss
      --out FILE.html   where the page goes (build/labs/LAB.html)
      --text FILE       what to learn from (tests/data/tinyshakespeare.txt)
      --steps N         updates of each run (heads 500, window 800, size 500)
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
import struct
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

    def learn(self, name, batch, length, width, heads, layers=2, seed=0, rate=3e-3):
        """Trains Llama's spec on the text, character by character; what its log says."""
        begin, steps, file = time.time(), self.options.steps, name.replace(" ", "-")
        folder = self.folder / f"{file}.run"
        self.say(f"  {name}: {steps} steps of {batch} rows of {length} characters ...")
        shape = {"vocab_size": len(set(self.text())), "hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads,
                 "intermediate_size": 8 * width // 3 // 8 * 8, "tie_word_embeddings": "true"}
        program = self.compile("examples/llama.quern", file, "--train", **shape)
        run([program, "train", "--data", self.options.text, "--tokenizer", "chars", "--output", folder, "--steps", steps, "--batch", batch,
             "--length", length, "--rate", rate, "--seed", seed, "--eval-every", -(-steps // 8), "--eval-batches", 8 if self.options.quick else 40,
             "--sample-every", 0, "--keep", 1, "--quiet", "--save-every", steps])
        lines = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
        curve = [(line["step"], line["valid_loss"]) for line in lines if "valid_loss" in line]
        parameters = next(line["run"]["parameters"] for line in lines if "run" in line)
        self.say(f"  {name}: {short(parameters)} parameters, validation loss {curve[-1][1]:.3f}, {time.time() - begin:.0f} s")
        return {"curve": curve, "parameters": parameters, "loss": curve[-1][1], "program": program, "checkpoint": folder / f"checkpoint-{steps}"}

    def text(self):
        return self.options.text.read_text(encoding="utf-8")

    def loss_by_place(self, learnt, length, most=400):
        """What a model loses at each place of a row, on the last tenth of the text: the mean over `most` rows."""
        text = self.text()
        number = {c: i for i, c in enumerate(sorted(set(text)))}
        tokens = [number[c] for c in text[len(text) * 9 // 10:]]
        rows = [tokens[at:at + length + 1] for at in range(0, len(tokens) - length, length)][:most]
        given, packed, out = (self.folder / f"places.{kind}" for kind in ("json", "in.safetensors", "out.safetensors"))
        given.write_text(json.dumps({"tokens": [row[:-1] for row in rows]}))
        run([QUERN, "tensors", given, "-o", packed])
        run([learnt["program"], "eval", "--weights", learnt["checkpoint"], "--input", packed, "--output", out])
        data = out.read_bytes()
        begin = 8 + struct.unpack("<Q", data[:8])[0]
        (logits,) = (tensor for name, tensor in json.loads(data[8:begin]).items() if name != "__metadata__")
        begin, wide = begin + logits["data_offsets"][0], logits["shape"][-1]
        losses = [0.0] * length
        for i, row in enumerate(rows):
            for place in range(length):
                scores = struct.unpack_from(f"<{wide}f", data, begin + (i * length + place) * wide * 4)
                losses[place] += (math.log(sum(map(math.exp, scores))) - scores[row[place + 1]]) / len(rows)
        return losses


def slope(points):
    """The exponent b of y = a x^b through the last two points."""
    (x0, y0), (x1, y1) = points[-2:]
    return math.log(y1 / y0) / math.log(x1 / x0)


def mebibytes(x):
    return f"{x:.3g} MiB" if x < 1000 else f"{x / 1024:.3g} GiB"


def cost(lab):
    lengths = [64, 128, 256] if lab.options.quick else [100, 200, 500, 1000, 2000, 5000, 10000]
    seconds, memory, rows = {}, {}, []
    for kind in ("full", "local", "linear"):
        program = lab.compile("examples/labs/attention.quern", kind, kind=kind)
        seconds[kind], memory[kind] = [], []
        for length in lengths:
            measured = json.loads(run([program, "bench", "-p", length, "-n", 1, "--json"]))
            took, peak = measured["prefill"]["seconds"], measured["memory"]["used_bytes"] / 2**20
            seconds[kind].append((length, took))
            memory[kind].append((length, peak))
            lab.say(f"  {kind}, {length} tokens: {took:.4f} s, {peak:.2f} MiB")
    for i, length in enumerate(lengths):
        rows.append([length] + [f"{seconds[kind][i][1] * 1e3:.2f} ms" for kind in seconds] + [mebibytes(4.0 * length * length * 4 / 2**20)])
    grows = ", ".join(f"{kind} as N<sup>{slope(line):.2f}</sup>" for kind, line in seconds.items())
    lab.write("Lab: what attention costs", [
        "<p>Two layers of attention (width 64, 4 heads) process prompts of N tokens at once. Full attention looks at N&#178;/2 pairs, a window of 64 at "
        "64 N, and linear attention at none: it carries a sum. On these axes a straight line is a power of N, its slope the exponent.</p>",
        chart("Seconds of prefill", "tokens", "seconds", seconds, True, True),
        f"<p>Between the two longest texts time grows: {grows}. Linear attention does the least work for a long text, and here moves the most memory: "
        "the spec's running sums have 16 x 16 numbers for each head and token, and beyond the caches those take their time.</p>",
        chart("Memory beside the weights", "tokens", "MiB", memory, True, True),
        "<p>Full and local coincide: memory grows in a straight line although the scores of all pairs would fill the last column of the table, as the compiled kernel never holds them all (flash attention). Linear keeps its running sums.</p>",
        table(["tokens", *seconds, "N x N scores of 4 heads"], rows)])


def heads(lab):
    width, length, batch, seeds = (16, 16, 4, (0,)) if lab.options.quick else (128, 64, 16, (0, 1, 2))
    runs = {f"{n} head{'s' if n > 1 else ''}": [lab.learn(f"heads{n} seed {seed}", batch, length, width, n, seed=seed) for seed in seeds] for n in (1, 8)}
    mean = {name: sum(r["loss"] for r in each) / len(each) for name, each in runs.items()}
    best, worst = sorted(mean, key=mean.get)
    gap, spread = mean[worst] - mean[best], max(max(r["loss"] for r in each) - min(r["loss"] for r in each) for each in runs.values())
    verdict = "One run of each says nothing about chance." if len(seeds) == 1 else (
        f"The same model begun with other random numbers differs by up to {spread:.3f}, " + (
            "so this is more than chance." if gap > spread else "so this says little."))
    curves = {name: [(points[0][0], sum(y for _, y in points) / len(points)) for points in zip(*(r["curve"] for r in each))] for name, each in runs.items()}
    lab.write("Lab: one head against eight", [
        f"<p>Two models of the same size, Llama's spec with two layers {width} wide: one whose head sees all {width} numbers of a position, one with eight heads that see {width // 8} each. "
        f"Both read the same characters in the same order, {lab.options.steps} steps of {batch} rows of {length}"
        + (f", three times, each begun with other random numbers; the curves are means.</p>" if len(seeds) > 1 else ".</p>"),
        chart("Loss on text that was not trained on", "step", "loss per character", curves),
        f"<p>Lower is better. At the end {best} lost {gap:.3f} less. {verdict}</p>",
        table(["", "parameters", *(f"run {seed + 1}" for seed in seeds), "mean", "perplexity"],
              [[name, each[0]["parameters"], *(f"{r['loss']:.4f}" for r in each), f"{mean[name]:.4f}", f"{math.exp(mean[name]):.2f}"] for name, each in runs.items()])])


def window(lab):
    lengths, tokens, width = ([4, 16], 64, 16) if lab.options.quick else ([4, 8, 16, 32, 64, 128], 1024, 96)
    runs = {n: lab.learn(f"window {n}", tokens // n, n, width, 4) for n in lengths}
    longest, seen = lengths[-1], {}
    for place, loss in enumerate(lab.loss_by_place(runs[longest], longest)):
        seen.setdefault(1 << place.bit_length(), []).append(loss)  # 1, 2, 3 and 4, 5 to 8, ...
    seen = [(most, sum(losses) / len(losses)) for most, losses in seen.items()]
    best = min(runs, key=lambda n: runs[n]["loss"])
    lab.write("Lab: the context window", [
        f"<p>The same model sees rows of different lengths, always {tokens} characters a step. With a window of {lengths[0]} it guesses a character from at most {lengths[0]} before it; "
        f"with {longest}, from a line or several, and whose they are.</p>",
        chart("Loss by the length of the window", "characters in the window", "loss per character", {"last loss": [(n, r["loss"]) for n, r in runs.items()]}, True),
        f"<p>Here the window of {best} does best. All were given as many characters; a longer window has more to learn from them, and may need more "
        "<code>--steps</code> to show what it is worth.</p>",
        chart(f"Loss inside the window of {longest}", "characters seen so far, at most", "loss per character", {"mean over places": seen}, True),
        f"<p>One model, asked at each place of its rows: how much it gains from having seen more. The first places of a row are hard for every model, "
        "so short windows, which have many beginnings, also pay for those.</p>",
        table(["seen at most", "loss"], [[most, f"{loss:.4f}"] for most, loss in seen]),
        chart("While training", "step", "loss per character", {f"window {n}": r["curve"] for n, r in runs.items()}),
        table(["window", "last loss", "perplexity"], [[n, f"{r['loss']:.4f}", f"{math.exp(r['loss']):.2f}"] for n, r in runs.items()])])


def size(lab):
    widths, length, batch = ([8, 16], 16, 4) if lab.options.quick else ([16, 32, 64, 128, 192], 64, 16)
    runs = {n: lab.learn(f"size {n}", batch, length, n, max(1, n // 16), rate=3e-3 * min(1, 96 / n)) for n in widths}
    points = [(r["parameters"], r["loss"]) for r in runs.values()]
    logs = [(math.log(x), math.log(y)) for x, y in points]
    mx, my = (sum(column) / len(logs) for column in zip(*logs))
    b = sum((x - mx) * (y - my) for x, y in logs) / sum((x - mx) ** 2 for x, _ in logs)
    fit = [(x, math.exp(my + b * (math.log(x) - mx))) for x, _ in (points[0], points[-1])]
    lab.write("Lab: model size against loss", [
        f"<p>Llama's spec with two layers, wider and wider, each for {lab.options.steps} steps of {batch} rows of {length} characters. "
        "Wide models bear smaller steps only: beyond a width of 96 the learning rate falls with it. On axes of logarithms the losses are near a straight line: "
        f"here loss &#8776; {math.exp(my - b * mx):.3g} N<sup>{b:.3f}</sup> for N parameters.</p>",
        chart("Loss by size", "parameters", "last loss per character", {"measured": points, "straight line": fit}, True, True, dashed=("straight line",)),
        chart("While training", "step", "loss per character", {f"{n} wide, {short(r['parameters'])}": r["curve"] for n, r in runs.items()}),
        "<p>Where the points leave the line upwards at its right end, the largest models have not learnt enough yet: more <code>--steps</code> bring them down.</p>",
        table(["width", "parameters", "last loss", "line"], [[n, r["parameters"], f"{r['loss']:.4f}", f"{math.exp(my + b * (math.log(r['parameters']) - mx)):.4f}"] for n, r in runs.items()])])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, add_help=True)
    parser.add_argument("lab", choices=["cost", "heads", "window", "size"])
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--text", type=pathlib.Path, default=ROOT / "tests" / "data" / "tinyshakespeare.txt")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    options.steps = options.steps or (10 if options.quick else 800 if options.lab == "window" else 500)
    options.out = (options.out or ROOT / "build" / "labs" / f"{options.lab}.html").absolute()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    if not QUERN.exists():
        sys.exit(f"lab.py: {QUERN} does not exist; run ./dev build")
    {"cost": cost, "heads": heads, "window": window, "size": size}[options.lab](Lab(options))


if __name__ == "__main__":
    main()
