"""`./dev bench sentences`: texts a second that all-MiniLM-L6-v2 embeds, 2,000 lines of 12 tokens, in several formats, in turns; medians.

--python PYTHON (with torch and transformers) puts PyTorch beside it: batches of 32 texts sorted by length, as sentence-transformers makes them. Both are timed
over the texts alone, without their start (Quern: less that of one text)."""
import argparse
import pathlib
import statistics
import subprocess
import tempfile
import time

from tests.e2e.harness import DATA, MINILM, QUERN, run

FORMATS = {"f32": [], "bf16, rows too": ["--quantize", "w16a16"], "8 bits": ["--quantize", "w8a8"]}
TORCH = '''
import sys, time, torch, transformers
torch.set_num_threads(int(sys.argv[3]))
words, model = transformers.AutoTokenizer.from_pretrained(sys.argv[1]), transformers.AutoModel.from_pretrained(sys.argv[1]).eval()
lines = sorted(open(sys.argv[2]).read().splitlines(), key=len, reverse=True)
def embed(lines):
    with torch.no_grad():
        for at in range(0, len(lines), 32):
            batch = words(lines[at : at + 32], padding=True, return_tensors="pt")
            hidden, mask = model(**batch).last_hidden_state, batch["attention_mask"][:, :, None].float()
            torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=1)
embed(lines[:64])
begin = time.perf_counter()
embed(lines)
print(time.perf_counter() - begin)
'''


def main():
    parser = argparse.ArgumentParser(prog="./dev bench sentences")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--python", help="a Python that can import torch and transformers")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="quern-bench-") as name:
        folder = pathlib.Path(name)
        lines = [line for line in (DATA / "tinyshakespeare.txt").read_text().splitlines() if len(line) > 20][:2000]
        (folder / "lines").write_text("\n".join(lines))
        (folder / "line").write_text(lines[0])
        programs = {}
        for title, options in FORMATS.items():
            programs[title] = folder / title.split(",")[0].replace(" ", "")
            run(QUERN, "compile", MINILM, *options, "-o", programs[title])

        def seconds(program, texts):
            begin = time.perf_counter()
            run(program, "embed", "--weights", MINILM, "--threads", arguments.threads, "-f", folder / texts)
            return time.perf_counter() - begin

        rates = {title: [] for title in [*FORMATS, *(["PyTorch, f32"] if arguments.python else [])]}
        for _ in range(arguments.rounds):
            for title, program in programs.items():
                rates[title].append(len(lines) / (seconds(program, "lines") - seconds(program, "line")))
            if arguments.python:
                done = subprocess.run([arguments.python, "-c", TORCH, str(MINILM), str(folder / "lines"), str(arguments.threads)], capture_output=True, text=True, check=True)
                rates["PyTorch, f32"].append(len(lines) / float(done.stdout.split()[-1]))
        print(f"all-MiniLM-L6-v2, {len(lines)} lines, {arguments.threads} threads, medians of {arguments.rounds} rounds\n\n| format | texts/s (least to most) |\n| --- | --- |")
        for title, some in rates.items():
            print(f"| {title} | **{statistics.median(some):.0f}** ({min(some):.0f} to {max(some):.0f}) |")


if __name__ == "__main__":
    main()
