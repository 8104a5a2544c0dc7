"""`./dev bench passes`: what each optimisation is worth, measured by leaving it out (`--without`).

The 110M Llama shape with random weights. Prints a table: time to read 512 tokens and to write one, what kernels then read and write
(each its arguments and results once), all as multiples of the same with everything on; kernels a layer; and the memory of a call
beside weights and caches. Every variant is run several times in turn with the whole, so that a
machine that changes its pace changes it for both; medians."""
import json
import pathlib
import shutil
import statistics
import sys
import tempfile

from bench import LLAMA
from harness import EXAMPLES, QUERN, run

RULES = ["roll-repeats", "incremental", "pack-projections", "fuse-attention", "fuse-epilogues", "fuse-branches", "fuse-prologues", "fuse-norms",
         "fuse-elementwise", "pack-weights", "write-in-place"]


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    folder = pathlib.Path(tempfile.mkdtemp(prefix="quern-worth-"))
    config = folder / "llama.json"
    config.write_text(json.dumps(LLAMA))

    def bench(program):
        out = json.loads(run(program, "bench", "-p", "512", "-n", "24", "--json").out)
        rate = lambda part: out[part]["tokens_per_s"] if out[part] else None
        return rate("prefill"), rate("decode"), out["memory"]["planned_bytes"]

    def functions(rule, sizes):
        text = run(QUERN, "dump", EXAMPLES / "llama.quern", "--config", config, "--after", "planned", "--stats", "--json", "--set-size", sizes,
                   *(["--without", rule] if rule else [])).out
        return {f["name"]: f for f in json.loads(text)["passes"][-1]["statistics"]["functions"]}

    def traffic(rule):
        """Kernels a layer; bytes that kernels move in one call: reading 512 tokens, writing the next."""
        reading, writing = functions(rule, "T=512,past=0,B=1"), functions(rule, "T=1,past=512,B=1")
        read = reading.get("forward.last", reading["forward"])  # without caches only the page's own function is there
        step = writing.get("forward.last")
        return read["loops"][0]["launches"], read["bytes_at"], step["bytes_at"] if step else None

    def compile_without(rule):
        program = folder / (rule or "whole")
        run(QUERN, "compile", EXAMPLES / "llama.quern", "--config", config, "-o", program, *(["--without", rule] if rule else []))
        return program

    try:
        whole = compile_without(None)
        base = traffic(None)
        print("| left out | reading 512 tokens | bytes moved | writing a token | bytes moved | kernels a layer | memory of a call |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
        for rule in RULES:
            program = compile_without(rule)
            pairs = [(bench(whole), bench(program)) for _ in range(rounds)]
            cells = []
            for part in (0, 1):
                times = [a[part] / b[part] for a, b in pairs if a[part] and b[part]]
                cells.append(f"{statistics.median(times):.2f} x" if times else "not possible")
            memory = statistics.median(b[2] / a[2] for a, b in pairs)
            layer, *moved = traffic(rule)
            moved = [f"{now / then:.2f} x" if now else "not possible" for now, then in zip(moved, base[1:])]
            print(f"| `{rule}` | {cells[0]} | {moved[0]} | {cells[1]} | {moved[1]} | {layer} | {memory:.2f} x |", flush=True)
            program.unlink()
        print(f"\nWith everything: {base[0]} kernels a layer, {base[1] / 1e9:.2f} and {base[2] / 1e9:.2f} GB moved; {pairs[-1][0][0]:.0f} tokens/s read, {pairs[-1][0][1]:.1f} written, {pairs[-1][0][2] / 2**20:.1f} MiB.")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
