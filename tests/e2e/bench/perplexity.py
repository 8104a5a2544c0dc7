"""What number formats cost in quality: perplexity of examples/novels/model on the end of the text that it was trained on, and the KL divergence from f32.

    ./dev novels && QUERN_BUILD=build python3 -m tests.e2e.bench.perplexity [ROWS [FORMAT ...]]

ROWS (default 16) pieces of 256 tokens, each token but the first of a piece scored; FORMATs by their names below, f32 always. Prints a table; docs/design/precisions.md has one.

"rotated": the same model with queries, keys and values of each head turned by a Hadamard matrix, which nothing but rounded caches notices. GPT-2 has
no rotary positions, so its weights can be turned beforehand."""
import json
import math
import pathlib
import re
import struct
import sys
import tempfile

from tests.e2e.harness import BUILD, EXAMPLES, QUERN, Tensor, ints, read_safetensors, run, write_safetensors

MODEL = EXAMPLES / "novels" / "model"
FORMATS = {"f32": (), "bf16": ("--precision", "bf16"), "int8": ("--quantize", "int8"), "w8a8": ("--quantize", "w8a8"), "w8a8_g128": ("--quantize", "w8a8_g128"),
           "w8a8 by pairs": ("--quantize", "w8a8", "--target", "x86-64-v3"), "w8a8_g128 by pairs": ("--quantize", "w8a8_g128", "--target", "x86-64-v3"), "int4": ("--quantize", "int4"),
           "w4a8": ("--quantize", "w4a8"), "w16a16": ("--quantize", "w16a16"), "w8a16": ("--quantize", "w8a16"), "w4a16": ("--quantize", "w4a16"), "int4, projections out int8": ("--quantize", "int4,*c_proj*=int8"),
           "caches in bf16": ("--kv-cache", "bf16"), "caches in int8": ("--kv-cache", "int8"), "caches in int8, rotated": ("--kv-cache", "int8"), "q4_k": ("--quantize", "q4_k"), "q4_k+a8": ("--quantize", "q4_k+a8"), "q6_k+a8": ("--quantize", "q6_k+a8"), "q8_k+a8": ("--quantize", "q8_k+a8"), "int8, the table, too": ("--quantize", "int8,*wte*=int8")}
LENGTH = 256


def encode(text):
    """As the model's tokenizer.json does, of ASCII: words by GPT-2's pattern, then byte pairs by rank."""
    model = json.loads((MODEL / "tokenizer.json").read_text())["model"]
    ranks = {tuple(pair.split(" ")) if isinstance(pair, str) else tuple(pair): rank for rank, pair in enumerate(model["merges"])}
    known = {}

    def word(piece):
        parts = [c.translate({32: 0x120, 10: 0x10a}) for c in piece]
        while len(parts) > 1:
            rank, at = min((ranks.get(pair, math.inf), at) for at, pair in enumerate(zip(parts, parts[1:])))
            if rank == math.inf:
                break
            parts[at:at + 2] = [parts[at] + parts[at + 1]]
        return [model["vocab"][part] for part in parts]

    tokens = []
    for piece in re.findall(r"'(?:[sdmt]|ll|ve|re)| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+", text):
        known[piece] = known.get(piece) or word(piece)
        tokens += known[piece]
    return tokens


def turned(row):
    """A row times the Hadamard matrix of its length, which is its own inverse."""
    row, step = list(row), 1
    while step < len(row):
        for at in range(0, len(row), 2 * step):
            for i in range(at, at + step):
                row[i], row[i + step] = row[i] + row[i + step], row[i] - row[i + step]
        step *= 2
    return [x / math.sqrt(len(row)) for x in row]


def rotated(folder):
    """The model with heads turned: columns of what makes queries, keys and values, rows of what reads values."""
    config = json.loads((MODEL / "config.json").read_text())
    width, wide = config["n_embd"] // config["n_head"], config["n_embd"]
    tensors = read_safetensors(MODEL / "model.safetensors")
    for name, tensor in tensors.items():
        if tensor.dtype == "F16":
            tensor = tensors[name] = Tensor("F32", tensor.shape, struct.unpack(f"<{len(tensor.data)}e", bytes(tensor.data)))
        if ".c_attn." in name:
            tensor.data = [x for at in range(0, len(tensor.data), width) for x in turned(tensor.data[at:at + width])]
        elif name.endswith("attn.c_proj.weight"):
            columns = [[x for at in range(0, wide, width) for x in turned(tensor.data[column::wide][at:at + width])] for column in range(wide)]
            tensor.data = [columns[column][row] for row in range(wide) for column in range(wide)]
    write_safetensors(folder / "model.safetensors", tensors)
    return folder / "model.safetensors"


def probabilities(logits, vocabulary):
    """Of each position, as logarithms."""
    for at in range(0, len(logits), vocabulary):
        row = logits[at:at + vocabulary]
        most = max(row)
        total = most + math.log(sum(math.exp(x - most) for x in row))
        yield [x - total for x in row]


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 16
    if unknown := [name for name in sys.argv[2:] if name not in FORMATS]:
        sys.exit(f"{', '.join(unknown)}: no format; one of {', '.join(FORMATS)} is needed")
    text = (BUILD / "novels" / "austen.txt").read_text()[-200_000:]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        tokens = encode(text[:LENGTH * count * 6])
        rows = [tokens[at:at + LENGTH] for at in range(0, LENGTH * count, LENGTH)]
        write_safetensors(folder / "in", {"tokens": ints(rows)})
        exact, turned_model = None, rotated(folder)
        print(f"{'format':28} perplexity      from f32   KL divergence   ({count * (LENGTH - 1)} tokens)")
        for name, options in FORMATS.items():
            if sys.argv[2:] and name not in ("f32", *sys.argv[2:]):
                continue
            run(QUERN, "compile", EXAMPLES / "gpt2.quern", "--config", MODEL / "config.json", *options, "-o", folder / "program")
            run(folder / "program", "eval", "--weights", turned_model if "rotated" in name else MODEL, "--input", folder / "in", "--output", folder / "out")
            logits = read_safetensors(folder / "out")["logits"]
            scores = list(probabilities(logits.data, logits.shape[-1]))
            exact = exact or scores
            loss = [-scores[r * LENGTH + t][rows[r][t + 1]] for r in range(count) for t in range(LENGTH - 1)]
            divergence = [sum(math.exp(p) * (p - q) for p, q in zip(a, b)) for a, b in zip(exact, scores)]
            perplexity = math.exp(sum(loss) / len(loss))
            base = perplexity if exact is scores else base
            print(f"{name:28} {perplexity:10.4f} {100 * (perplexity / base - 1):+12.3f}% {sum(divergence) / len(divergence):15.2e}", flush=True)


if __name__ == "__main__":
    main()
