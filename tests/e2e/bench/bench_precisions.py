"""`./dev bench precisions`: a Llama (or a small Mixtral) in every number format, beside llama.cpp on the same GGUF files, in one run.

Random weights at a public shape (--size). Each round runs every row once, Quern's and llama.cpp's next to each other, and begins with another row,
so that a machine that changes its pace changes it for all. Both read 512 tokens, then write 128, with as many threads. The limit of decoding is
the bandwidth of reading that Quern's program measures around its own run, that of prefill what its products reach in registers: multiply-adds of f32, pairs
of bf16 where rows are so, too, products of bytes where rows are in int8. Prints a table of medians, or with --json all that was measured.

llama.cpp is no part of Quern: `--install` fetches its sources from PyPI (the sdist of llama-cpp-python, 80 MB) and builds two of its tools in
build/llama.cpp (ten minutes on two cores); `--llama FOLDER` names a folder that has llama-bench and llama-quantize."""
import argparse
import array
import json
import math
import pathlib
import random
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile

from tests.e2e.bench.bench import LLAMA
from tests.e2e.weights.gguf_file import header
from tests.e2e.harness import BUILD, EXAMPLES, QUERN, run

SDIST = "llama-cpp-python==0.3.36"
PLACE = BUILD / "llama.cpp"
SIZES = {"110m": LLAMA,
         "1.1b": dict(LLAMA, hidden_size=2048, intermediate_size=5632, num_hidden_layers=22, num_attention_heads=32, num_key_value_heads=4),
         "experts": dict(LLAMA, hidden_size=512, intermediate_size=1792, num_hidden_layers=8, num_attention_heads=8, num_key_value_heads=8,
                         num_local_experts=8, num_experts_per_tok=2)}  # a Mixtral of 215M parameters
# Quern's options, llama.cpp's type. `stored`: as the file mixes them, here Q4_K and Q6_K.
ROWS = {"f32": ((), "F32"), "bf16": (("--precision", "bf16"), "BF16"),
        "bf16 rows too": (("--quantize", "w16a16"), "BF16"), "8 bits": (("--quantize", "w8a8"), "Q8_0"), "8 bits in groups of 128": (("--quantize", "w8a8_g128"), "Q8_0"),
        "4 bits": (("--quantize", "w4a8"), "Q4_0"), "K-quants": (("--precision", "stored", "--activations", "int8"), "Q4_K_M")}


def install():
    PLACE.mkdir(parents=True, exist_ok=True)
    print(f"fetching {SDIST} and building llama.cpp in {PLACE}: ten minutes on two cores", file=sys.stderr)
    try:
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", SDIST, "-d", PLACE], check=True, stdout=sys.stderr)
        subprocess.run(["tar", "-xzf", next(PLACE.glob("*.tar.gz")), "-C", PLACE], check=True)
        sources = next(PLACE.glob("llama_cpp_python-*/vendor/llama.cpp"))
        off = [f"-D{name}=OFF" for name in ("BUILD_SHARED_LIBS", "LLAMA_CURL", "LLAMA_OPENSSL", "LLAMA_BUILD_TESTS", "LLAMA_BUILD_EXAMPLES",
                                            "LLAMA_BUILD_SERVER")]
        subprocess.run(["cmake", "-G", "Ninja", "-S", sources, "-B", PLACE / "build", "-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON", *off],
                       check=True, stdout=sys.stderr)
        subprocess.run(["ninja", "-C", PLACE / "build", "llama-bench", "llama-quantize"], check=True, stdout=sys.stderr)
    except (OSError, StopIteration, subprocess.CalledProcessError) as error:
        sys.exit(f"bench_precisions.py: {error}\nllama.cpp cannot be built so (is there a network?); "
                 "with a build of your own: ./dev bench precisions --llama /path/to/bin")


def write_model(path, config):
    """A Llama in f32 as llama.cpp stores one; its numbers repeat after a million, but rows do not."""
    source = random.Random(0)
    block = array.array("f", (source.gauss(0, 0.02) for _ in range((1 << 20) - 1))).tobytes()
    d, f, v = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    experts = config.get("num_local_experts", 0)
    kv = d // config["num_attention_heads"] * config["num_key_value_heads"]
    shapes = {"token_embd.weight": (v, d)}
    for i in range(config["num_hidden_layers"]):
        layer = {"attn_norm": (d,), "attn_q": (d, d), "attn_k": (kv, d), "attn_v": (kv, d), "attn_output": (d, d), "ffn_norm": (d,)}
        if experts:
            layer.update({"ffn_gate_inp": (experts, d), "ffn_gate_exps": (experts, f, d), "ffn_up_exps": (experts, f, d), "ffn_down_exps": (experts, d, f)})
        else:
            layer.update({"ffn_gate": (f, d), "ffn_up": (f, d), "ffn_down": (d, f)})
        shapes.update({f"blk.{i}.{name}.weight": shape for name, shape in layer.items()})
    shapes.update({"output_norm.weight": (d,), "output.weight": (v, d)})
    values = {"general.architecture": "llama", "llama.block_count": config["num_hidden_layers"], "llama.context_length": config["max_position_embeddings"],
              "llama.embedding_length": d, "llama.feed_forward_length": f, "llama.attention.head_count": config["num_attention_heads"],
              "llama.attention.head_count_kv": config["num_key_value_heads"], "llama.attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
              "llama.rope.dimension_count": d // config["num_attention_heads"], "llama.vocab_size": v, "tokenizer.ggml.model": "no_vocab"}
    if experts:
        values.update({"llama.expert_count": experts, "llama.expert_used_count": config["num_experts_per_tok"]})
    sizes = {name: 4 * math.prod(shape) for name, shape in shapes.items()}
    with open(path, "wb") as out:
        out.write(header(values, [(name, shape, 0, sizes[name]) for name, shape in shapes.items()]))
        for name, size in sizes.items():
            data = struct.pack("<f", 1) * (size // 4) if "norm" in name else b""
            for left in range(size if not data else 0, 0, -len(block)):
                out.write(block[:left])
            out.write(data + b"\0" * (-size % 32))


def measure_quern(program, weights, options):
    return json.loads(run(program, "bench", "-p", options.prefill, "-n", options.decode, "--weights", weights, "--threads", options.threads, "--json").out)


def measure_llama(tool, model, options):
    """Tokens a second of prefill, and of decode behind the tokens that were read, as Quern's."""
    def rate(*words):
        command = [tool, "-m", model, *map(str, words), "-t", str(options.threads), "-r", "1", "-o", "json"]
        return json.loads(subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout)[0]["avg_ts"]

    return {"prefill": rate("-p", options.prefill, "-n", 0), "decode": rate("-p", 0, "-n", options.decode, "-d", options.prefill)}


def main():
    parser = argparse.ArgumentParser(prog="./dev bench precisions", description="a Llama or a Mixtral in every number format, beside llama.cpp")
    parser.add_argument("--install", action="store_true", help="fetch and build llama.cpp in build/llama.cpp first")
    parser.add_argument("--llama", type=pathlib.Path, default=PLACE / "build/bin", help="the folder of llama-bench and llama-quantize (build/llama.cpp/build/bin)")
    parser.add_argument("--size", choices=SIZES, default="110m")
    parser.add_argument("--rows", default=",".join(ROWS), help=f"which ({','.join(ROWS)})")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("-p", dest="prefill", type=int, default=512, help="tokens read (512)")
    parser.add_argument("-n", dest="decode", type=int, default=128, help="tokens written (128)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--target", default="native", help="of Quern's programs (native)")
    parser.add_argument("--keep", type=pathlib.Path, help="a folder for models and programs, used again by the next run")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = options.rows.split(",")
    if unknown := [row for row in rows if row not in ROWS]:
        sys.exit(f"bench_precisions.py: there is no row {unknown[0]!r}; there are {', '.join(ROWS)}")
    if options.install:
        install()
    if not (options.llama / "llama-bench").exists():
        sys.exit(f"bench_precisions.py: {options.llama} has no llama-bench; ./dev bench precisions --install builds it, --llama FOLDER names another folder")
    folder = options.keep or pathlib.Path(tempfile.mkdtemp(prefix="quern-bench-precisions-"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        config = SIZES[options.size]
        spec = EXAMPLES / ("mixtral.quern" if "num_local_experts" in config else "llama.quern")
        (folder / "config.json").write_text(json.dumps(config))
        full, made = folder / f"{options.size}-F32.gguf", {}
        if not full.exists():
            write_model(full, config)
        for row in rows:
            flags, kind = ROWS[row]
            name = "-".join([options.size, *flags, options.target])
            model, program, packed = folder / f"{options.size}-{kind}.gguf", folder / name, folder / f"{name}-packed"
            if not model.exists():
                subprocess.run([options.llama / "llama-quantize", full, model, kind, str(options.threads)], check=True, capture_output=True)
            if not program.exists():
                stored = ("--weights", model) if "stored" in flags else ()
                run(QUERN, "compile", spec, "--config", folder / "config.json", "--target", options.target, *stored, *flags, "-o", program)
                run(program, "pack", "--weights", model, "-o", packed)
            made[row] = (model, program, packed)
        rounds = []
        for number in range(options.rounds):
            figures, first = {}, number % len(rows)
            for row in rows[first:] + rows[:first]:
                model, program, packed = made[row]
                figures[row] = {"quern": measure_quern(program, packed, options), "llama": measure_llama(options.llama / "llama-bench", model, options)}
            rounds.append(figures)
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    report(rounds, rows, options)


def report(rounds, rows, options):
    middle = statistics.median
    first = rounds[0][rows[0]]["quern"]
    result = {"cpu": first["cpu"], "vectors": first["vectors"], "threads": options.threads, "size": options.size, "rounds": rounds}
    for row in rows:
        figures = [one[row] for one in rounds]
        rates = {f"{who}_{what}": [one[who][what]["tokens_per_s"] if who == "quern" else one[who][what] for one in figures]
                 for who in ("quern", "llama") for what in ("prefill", "decode")}
        result[row] = {name: middle(values) for name, values in rates.items()}
        for what in ("prefill", "decode"):
            result[row][f"times_{what}"] = middle(q / l for q, l in zip(rates[f"quern_{what}"], rates[f"llama_{what}"]))
        result[row]["of_peak"] = middle(one["quern"]["prefill"]["ratio"] for one in figures)
        result[row]["of_bandwidth"] = middle(one["quern"]["decode"]["ratio"] for one in figures)
    if options.json:
        print(json.dumps(result, indent=1))
        return
    model = "a Mixtral" if options.size == "experts" else f"Llama {options.size}"
    print(f"{model}, {options.prefill} tokens read, {options.decode} written, {options.threads} threads, {first['cpu']} ({first['vectors']}); "
          f"medians of {len(rounds)} rounds, tokens/s\n")
    print("| format | prefill, Quern | of its peak | llama.cpp | times | decode, Quern | of the read bandwidth | llama.cpp | times |\n" + "| --- " * 9 + "|")
    for row in rows:
        r = result[row]
        print(f"| {row} ({' '.join(ROWS[row][0]) or 'no option'}; {ROWS[row][1]}) | {r['quern_prefill']:.0f} | {100 * r['of_peak']:.0f}% | {r['llama_prefill']:.0f} | {r['times_prefill']:.2f} "
              f"| {r['quern_decode']:.1f} | {100 * r['of_bandwidth']:.0f}% | {r['llama_decode']:.1f} | {r['times_decode']:.2f} |")


if __name__ == "__main__":
    main()
