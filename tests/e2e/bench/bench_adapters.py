"""`./dev bench adapters`: what a step of training adapters holds in memory and how long it takes, over a base in f32 and in codes.

A GPT-2 (random weights; 124M parameters unless told otherwise) with adapters of rank 8 on all matrices of its layers. Prints one JSON object: for each format the
median seconds of a step in each round, MiB of the process during steps, and MiB of a gradient's arena, of which the rest is weights, adapters, their gradients
and moments. Formats are measured in turns, as a shared machine drifts; `--beside PROGRAM=WORDS` adds a program of another compiler with its options of `train`."""
import argparse
import json
import pathlib
import re
import shutil
import statistics
import subprocess
import tempfile
import time

from tests.e2e.harness import DATA, EXAMPLES, QUERN, run


def measure(command, log):
    """Medians of the steps after the first, and the most that the process held once some were done."""
    process, held = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL), 0
    losses = lambda: [json.loads(line) for line in log.read_text().splitlines() if '"loss"' in line] if log.exists() else []
    while process.poll() is None:
        try:
            status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        except OSError:
            break
        if len(losses()) > 2:
            held = max(held, sum(int(kib) for kib in re.findall(r"Rss(?:Anon|File):\s+(\d+)", status)) / 1024)
        time.sleep(0.05)
    if process.wait():
        raise SystemExit(f"{command} ended with {process.returncode}")
    return statistics.median(step["seconds"] for step in losses()[1:]), held


def main():
    parser = argparse.ArgumentParser(prog="./dev bench adapters")
    parser.add_argument("--formats", default="f32,int8,int4,q4_k", help="of the base")
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--beside", help="PROGRAM=WORDS: another program of the same model, and its further options")
    options = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="quern-bench-"))
    spec, model = EXAMPLES / "gpt2.quern", ["--set", f"n_layer={options.layers}"]
    try:
        text = folder / "text.txt"
        text.write_text((DATA / "tinyshakespeare.txt").read_text()[:400000])
        common = ["--data", text, "--tokenizer", "bytes", "--batch", options.batch, "--length", options.length, "--sample-every", 0, "--eval-every", 10**6,
                  "--save-every", 10**6, "--valid-split", 0]
        run(QUERN, "compile", spec, "--train", *model, "-o", folder / "base")
        run(folder / "base", "train", *common, "--output", folder / "begin", "--steps", 1)
        programs, result = {}, {}
        for form in options.formats.split(","):
            words = ["--train", "--lora", options.rank, *model, *(() if form == "f32" else ("--quantize", form))]
            run(QUERN, "compile", spec, *words, "-o", folder / form)
            programs[form] = ([folder / form], [])
            dump = run(QUERN, "dump", spec, *words, "--after", "planned", "--stats", "--json", "--set-size", f"B={options.batch},T={options.length}").out
            (arena,) = [f["arena_at"] for f in json.loads(dump)["passes"][0]["statistics"]["functions"] if f["name"] == "loss.grad"]
            result[form] = {"step_seconds": [], "held_mib": 0, "arena_mib": round(arena / 2**20, 1)}
        if options.beside:
            program, _, words = options.beside.partition("=")
            programs["beside"] = ([program], words.split())
            result["beside"] = {"step_seconds": [], "held_mib": 0}
        for number in range(options.rounds):
            for name, (program, words) in programs.items():
                out = folder / f"{name}-{number}"
                seconds, held = measure([*program, "train", *common, "--weights", folder / "begin/checkpoint-1/model.safetensors", "--output", out,
                                         "--steps", options.steps, "--quiet", *words], out / "train.jsonl")
                shutil.rmtree(out)
                result[name]["step_seconds"].append(round(seconds, 3))
                result[name]["held_mib"] = max(result[name]["held_mib"], round(held))
        print(json.dumps(result, indent=1))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
