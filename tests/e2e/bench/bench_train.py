"""`./dev bench train`: a training step beside PyTorch's, in one run.

GPT-2 of 124M parameters, 4 x 64 tokens, AdamW with clipping; Quern's `PROGRAM bench --train`, PyTorch eager and torch.compile alternate, so
that a machine that changes its pace changes it for all; and with bf16 in memory Quern's `--precision bf16` and PyTorch's eager autocast (--rows
chooses). Work counts as 6 operations a parameter and token; the limit is what registers do in f32, measured by Quern's program around each of its
runs. Prints a table of medians, or with --json all that was measured.

PyTorch is no part of Quern: `--install` makes build/torch and installs it there from PyPI (about 3 GB to fetch, 6 GB on disk: its Linux wheel
brings CUDA along), or `--python PATH` names a Python that has it."""
import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

from tests.e2e.bench.bench import GPT2
from tests.e2e.harness import BUILD, EXAMPLES, QUERN, run

TORCH = "torch==2.15.0"  # as the golden data's
PLACE = BUILD / "torch"


def install():
    free = shutil.disk_usage(BUILD).free
    if free < 8e9:
        sys.exit(f"bench_train.py: PyTorch needs 8 GB of room in {BUILD}; there are {free / 1e9:.1f}")
    print(f"installing {TORCH} into {PLACE}: about 3 GB from PyPI", file=sys.stderr)
    try:
        subprocess.run([sys.executable, "-m", "venv", str(PLACE)], check=True, stdout=sys.stderr)
        subprocess.run([str(PLACE / "bin/python"), "-m", "pip", "install", "-q", TORCH, "numpy", "setuptools"], check=True, stdout=sys.stderr)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"bench_train.py: {error}\nPyTorch cannot be installed so (is there a network? the package python3-venv? a wheel for this Python?); "
                 f"with another Python that can `import torch`: ./dev bench train --python /path/to/python3")


ROWS = {"quern": "Quern", "eager": "PyTorch eager", "compiled": "PyTorch compiled", "quern-bf16": "Quern, bf16",
        "autocast": "PyTorch eager, autocast to bf16"}


class Torch:
    """A process with PyTorch's model in it, which runs steps on command."""

    def __init__(self, python, arguments):
        try:
            check = subprocess.run([python, "-c", "import torch; print(torch.__version__)"], capture_output=True, encoding="utf-8")
            missing = check.returncode and (check.stderr.strip().splitlines() or ["it ends at once"])[-1]
        except OSError as error:
            missing = error.strerror
        if missing:
            sys.exit(f"bench_train.py: {python} has no PyTorch: {missing}\n"
                     "./dev bench train --install fetches it (about 3 GB, 6 GB on disk), --python PATH names a Python that has it")
        self.version = check.stdout.strip()
        script = pathlib.Path(__file__).with_name("bench_torch.py")
        words = ["--batch", arguments.batch, "--length", arguments.length, "--threads", arguments.threads, "--config", json.dumps(GPT2)]
        self.process = subprocess.Popen([python, script, *map(str, words)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")

    def run_steps(self, kind, steps):
        self.process.stdin.write(f"{kind} {steps}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"bench_train.py: PyTorch's process ended ({self.process.wait()})")
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def main():
    parser = argparse.ArgumentParser(prog="./dev bench train", description="a training step beside PyTorch's")
    parser.add_argument("--install", action="store_true", help="install PyTorch into build/torch first (about 3 GB from PyPI)")
    parser.add_argument("--python", help="a Python that can import torch (build/torch/bin/python)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=4, help="PyTorch's steps a round (4)")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rows", type=rows_of, default=list(ROWS), help=f"which, the first of Quern's counts as 1 ({','.join(ROWS)})")
    parser.add_argument("--program", type=pathlib.Path, help="a program of gpt2.quern made before, instead of compiling it")
    parser.add_argument("--program-bf16", type=pathlib.Path, help="the same with --precision bf16")
    parser.add_argument("--wait", action="store_true", help="wait for a line on standard input before the first round")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.install:
        install()
    torch = Torch(arguments.python or str(PLACE / "bin/python"), arguments)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="quern-bench-train-"))
    try:
        (folder / "config.json").write_text(json.dumps(GPT2))
        programs = {"quern": arguments.program, "quern-bf16": arguments.program_bf16}
        for kind, precision in {"quern": "f32", "quern-bf16": "bf16"}.items():
            if kind in arguments.rows and not programs[kind]:
                programs[kind] = folder / kind
                run(QUERN, "compile", EXAMPLES / "gpt2.quern", "--config", folder / "config.json", "--train", "--precision", precision, "-o", programs[kind])
        kinds = arguments.rows
        for kind in kinds:  # torch.compile takes its minutes here
            if kind not in programs:
                torch.run_steps(kind, 1)
        if arguments.wait:
            print("ready", file=sys.stderr, flush=True)
            sys.stdin.readline()
        rounds = []
        for number in range(arguments.rounds):
            figures = {}
            first = number % len(kinds)
            for kind in kinds[first:] + kinds[:first]:
                if kind in programs:
                    figures[kind] = json.loads(run(programs[kind], "bench", "--train", "--batch", arguments.batch, "-p", arguments.length, "--threads",
                                                 arguments.threads, "--json").out)
                else:
                    figures[kind] = torch.run_steps(kind, arguments.steps)
            rounds.append(figures)
            print(f"round {number + 1} of {arguments.rounds}", file=sys.stderr, flush=True)
    finally:
        torch.close()
        shutil.rmtree(folder, ignore_errors=True)
    report(rounds, torch.version, arguments)


def rows_of(text):
    """Of --rows."""
    rows = text.split(",")
    if unknown := [row for row in rows if row not in ROWS]:
        raise argparse.ArgumentTypeError(f"there is no row {unknown[0]}; there are {', '.join(ROWS)}")
    if not any(row.startswith("quern") for row in rows):
        raise argparse.ArgumentTypeError("one of Quern's rows is needed: its program measures the limit")
    return rows


def report(rounds, version, arguments):
    middle = statistics.median
    ours = next(row for row in arguments.rows if row.startswith("quern"))
    first = rounds[0][ours]
    work, limit = 6 * first["parameters"] * first["tokens"], middle(r[ours]["limit_gflops"] for r in rounds) * 1e9
    result = {"cpu": first["cpu"], "threads": arguments.threads, "tokens": [arguments.batch, arguments.length], "torch": version,
              "parameters": first["parameters"], "limit_gflops": limit / 1e9, "rounds": rounds}
    for kind in arguments.rows:
        gradient, update = (middle(r[kind][key] for r in rounds) for key in ("seconds", "update_seconds"))
        # Each round against the limit of that round, and against Quern's run in it.
        peak = lambda r, seconds: work / seconds / (r[ours]["limit_gflops"] * 1e9)
        step = lambda r, kind: r[kind]["seconds"] + r[kind]["update_seconds"]
        result[kind] = {"gradient_s": gradient, "update_s": update, "gradient_of_peak": middle(peak(r, r[kind]["seconds"]) for r in rounds),
                        "step_of_peak": middle(peak(r, step(r, kind)) for r in rounds),
                        "gradient_times_quern": middle(r[kind]["seconds"] / r[ours]["seconds"] for r in rounds),
                        "step_times_quern": middle(step(r, kind) / step(r, ours) for r in rounds)}
    if arguments.json:
        print(json.dumps(result, indent=1))
        return
    print(f"GPT-2, {first['parameters'] / 1e6:.1f}M parameters, {arguments.batch} x {arguments.length} tokens, {arguments.threads} threads, "
          f"{first['cpu']}\nregisters: {limit / 1e9:.0f} GFLOP/s; PyTorch {version}; medians of {len(rounds)} rounds\n")
    print(f"| | gradient | of the peak | update | step | of the peak | step, {ROWS[ours]} = 1 |\n| --- | --- | --- | --- | --- | --- | --- |")
    for kind in arguments.rows:
        r = result[kind]
        print(f"| {ROWS[kind]} | {r['gradient_s']:.3f} s | {100 * r['gradient_of_peak']:.0f}% | {r['update_s']:.3f} s | {r['gradient_s'] + r['update_s']:.3f} s "
              f"| {100 * r['step_of_peak']:.0f}% | {r['step_times_quern']:.2f} |")


if __name__ == "__main__":
    main()
