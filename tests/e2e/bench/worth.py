"""`./dev bench passes [ROUNDS] [RULE...]`: what each optimisation is worth, measured by leaving it out (`--without`).

Specs with random weights: the 110M Llama shape, and what it does not have: experts, latents, a softmax by hand, training. Prints
tables: time to read and to write a token, what kernels then read and write (each its arguments and results once), all as multiples
of the same with everything on; kernels a layer; the memory of a call beside weights and caches. Every variant alternates with the
whole, so that a machine that changes its pace changes it for both; medians."""
import json
import pathlib
import shutil
import statistics
import sys
import tempfile

from tests.e2e.bench.bench import LLAMA
from tests.e2e.harness import EXAMPLES, QUERN, ROOT, run

RULES = ["roll-repeats", "incremental", "pack-projections", "raise-attention", "fuse-epilogues", "fuse-branches", "fuse-prologues", "fuse-norms",
         "fuse-elementwise", "pack-weights", "write-in-place"]
MIXTRAL = dict(LLAMA, hidden_size=512, intermediate_size=1792, num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=8,
               num_local_experts=8, num_experts_per_tok=2)
DEEPSEEK = {"vocab_size": 8000, "hidden_size": 1024, "intermediate_size": 2048, "moe_intermediate_size": 256, "num_hidden_layers": 4,
            "first_k_dense_replace": 4, "num_attention_heads": 16, "kv_lora_rank": 256, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32,
            "v_head_dim": 64}
GPT2 = {"n_embd": 768, "n_layer": 4, "n_head": 12, "n_positions": 2048}  # and 50,257 tokens
T5 = {"num_layers": 2}  # of T5-small
BY_HAND = ("      a = attention[S, K](q, k[T -> S], v[T -> S], mask: index(S) <= index(T))\n",
           "      e = where(index(S) <= index(T), exp(sum[K](q * k[T -> S]) * 0.125), 0)\n"
           "      a = sum[S](e * v[T -> S]) / sum[S](e)\n")


class Model:
    """A spec with a config, its programs and what the compiler says of them."""

    def __init__(self, folder, name, text, config, options=()):
        self.folder, self.name = folder, name
        self.spec, self.config = folder / f"{name}.quern", folder / f"{name}.json"
        self.spec.write_text(text)
        self.config.write_text(json.dumps(config))
        self.options = [self.spec, "--config", self.config, *options]

    def compile(self, rule):
        program = self.folder / f"{self.name}-{rule}"
        run(QUERN, "compile", *self.options, "-o", program, *without(rule))
        return program

    def functions(self, rule, sizes):
        out = run(QUERN, "dump", *self.options, "--after", "planned", "--stats", "--json", "--set-size", sizes, *without(rule)).out
        return {f["name"]: f for f in json.loads(out)["passes"][-1]["statistics"]["functions"]}


def without(rule):
    return ["--without", rule] if rule else []


def median(values):
    return statistics.median(values) if values else None


def times(value):
    return f"{value:.2f} x" if value else "not possible"


def generating(model, rules, rounds, read, write):
    """A table of what a text of `read` tokens and `write` more cost."""

    def bench(program):
        out = json.loads(run(program, "bench", "-p", read, "-n", write, "--json").out)
        rate = lambda part: out[part]["tokens_per_s"] if out[part] else None
        return rate("prefill"), rate("decode"), out["memory"]["planned_bytes"]

    def traffic(rule):
        """Kernels a layer; bytes that kernels move in one call: prefill of the text, decode of the next token."""
        prefill, decode = (model.functions(rule, f"T={t},past={past},B=1") for t, past in ((read, 0), (1, read)))
        first = prefill.get("forward.last", prefill["forward"])  # without caches only the spec's own function is there
        step = decode.get("forward.step", decode.get("forward.last"))
        return first["loops"][0]["launches"], first["bytes_at"], step["bytes_at"] if step else None

    whole, base = model.compile(None), traffic(None)
    print(f"\n| {model.name}, left out | prefill of {read} tokens | bytes moved | decode of a token | bytes moved | kernels a layer | memory of a call |")
    print("| --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for rule in rules:
        program = model.compile(rule)
        pairs = [(bench(whole), bench(program)) for _ in range(rounds)]
        read_time, write_time = (times(median([a[i] / b[i] for a, b in pairs if a[i] and b[i]])) for i in (0, 1))
        layer, *moved = traffic(rule)
        read_bytes, write_bytes = (times(now and now / then) for now, then in zip(moved, base[1:]))
        memory = median([b[2] / a[2] for a, b in pairs])
        print(f"| `{rule}` | {read_time} | {read_bytes} | {write_time} | {write_bytes} | {layer} | {memory:.2f} x |", flush=True)
        program.unlink()
    last = pairs[-1][0]
    print(f"\nWith everything: {base[0]} kernels a layer, {base[1] / 1e9:.2f} and {base[2] / 1e9:.2f} GB moved; {last[0]:.0f} tokens/s read, "
          f"{last[1]:.1f} written, {last[2] / 2**20:.1f} MiB.", flush=True)


def training(model, rules, rounds, tokens):
    """A table of what the gradient of one text costs."""
    bench = lambda program: json.loads(run(program, "bench", "--train", "--batch", 1, "-p", tokens, "--json").out)
    gradient = lambda rule: model.functions(rule, f"T={tokens},S={tokens},B=1")["loss.grad"]
    whole, base = model.compile(None), gradient(None)
    print(f"\n| {model.name}, left out | gradient of {tokens} tokens | operations | bytes moved | memory |")
    print("| --- | --- | --- | --- | --- |", flush=True)
    for rule in rules:
        program, counted = model.compile(rule), gradient(rule)
        pairs = [(bench(whole), bench(program)) for _ in range(rounds)]
        ratio = lambda key: times(counted[key] / base[key])
        print(f"| `{rule}` | {times(median([b['seconds'] / a['seconds'] for a, b in pairs]))} | {ratio('flops_at')} | {ratio('bytes_at')} | "
              f"{ratio('peak_at')} |", flush=True)
        program.unlink()
    print(f"\nWith everything: {pairs[-1][0]['seconds']:.2f} s, {base['bytes_at'] / 1e9:.2f} GB moved, {base['peak_at'] / 2**20:.0f} MiB.", flush=True)


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    wanted = lambda rules: [rule for rule in rules if not sys.argv[2:] or rule in sys.argv[2:]]
    llama, gpt2 = ((EXAMPLES / f"{name}.quern").read_text() for name in ("llama", "gpt2"))
    assert BY_HAND[0] in llama
    folder = pathlib.Path(tempfile.mkdtemp(prefix="quern-worth-"))
    models = [
        (generating, ("Llama", llama, LLAMA), RULES, (512, 24)),
        (generating, ("softmax by hand", llama.replace(*BY_HAND), LLAMA), ["raise-softmax"], (512, 24)),
        (generating, ("experts", (EXAMPLES / "mixtral.quern").read_text(), MIXTRAL), ["sink-gathers"], (512, 24)),
        (generating, ("latents", (ROOT / "tests" / "frontend" / "specs" / "deepseek_v3.quern").read_text(), DEEPSEEK), ["absorb-projections"],
         (2048, 24)),
        (training, ("training", gpt2, GPT2, ["--train"]), ["raise-loss-attention", "chunk-loss"], (1024,)),
        (training, ("training of experts", (EXAMPLES / "mixtral.quern").read_text(), MIXTRAL, ["--train"]), ["sink-loss-gathers"], (512,)),
        (training, ("training of T5", (EXAMPLES / "t5.quern").read_text(), T5, ["--train"]), ["tabulate-distances"], (1024,)),
    ]
    try:
        for table, model, rules, sizes in models:
            if wanted(rules):
                table(Model(folder, *model), wanted(rules), rounds, *sizes)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
