"""`./dev bench recurrences`: models with recurrences beside a decoder of as many operations a token and as many bytes a step.

Mamba and Mamba 2 in their 130M shape, RWKV in its 169M shape, and a decoder of attention that is as large as the first two (random weights). Their
programs alternate, so that a machine that changes its pace changes it for all. Prints a table of medians: tokens a second, the share of what
registers and memory give, which each program measures around its run, and how fast the share is beside the decoder's (1: as near the machine)."""
import argparse
import json
import pathlib
import shutil
import statistics
import tempfile

from tests.e2e.harness import EXAMPLES, QUERN, run

SHAPES = {
    "llama": ("decoder", {"vocab_size": 50280, "hidden_size": 768, "intermediate_size": 608, "num_hidden_layers": 24, "num_attention_heads": 12,
                          "num_key_value_heads": 12, "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": True}),
    "mamba": ("Mamba 130M", {"vocab_size": 50280, "hidden_size": 768, "state_size": 16, "num_hidden_layers": 24, "time_step_rank": 48, "intermediate_size": 1536}),
    "mamba2": ("Mamba 2 130M", {"vocab_size": 50288, "hidden_size": 768, "state_size": 128, "num_hidden_layers": 24, "num_heads": 24, "head_dim": 64, "n_groups": 1,
                                "tie_word_embeddings": True}),
    "rwkv": ("RWKV 169M", {"vocab_size": 50277, "hidden_size": 768, "attention_hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12}),
}


def main():
    parser = argparse.ArgumentParser(prog="./dev bench recurrences")
    parser.add_argument("--prompt", type=int, default=512, help="tokens that are read")
    parser.add_argument("--steps", type=int, default=64, help="tokens that are written")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, help="threads (all)")
    parser.add_argument("--json", action="store_true", help="print all that was measured")
    options = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="quern-bench-"))
    threads = ["--threads", options.threads] if options.threads else []
    rounds = []
    try:
        for name, (_, config) in SHAPES.items():
            (folder / f"{name}.json").write_text(json.dumps(config))
            run(QUERN, "compile", EXAMPLES / f"{name}.quern", "--config", folder / f"{name}.json", "-o", folder / name)
        for _ in range(options.rounds):
            rounds.append({name: json.loads(run(folder / name, "bench", "-p", options.prompt, "-n", options.steps, "--json", *threads).out) for name in SHAPES})
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if options.json:
        print(json.dumps(rounds, indent=1))
        return

    def middle(name, phase, of):
        return statistics.median(of(one[name][phase]) for one in rounds)

    speed, share = (lambda part: part["tokens"] / part["seconds"]), (lambda part: part["ratio"])
    first = rounds[0]["llama"]
    print(f"{first['cpu']}, {first['threads']} threads, {options.prompt} tokens read, {options.steps} written, medians of {options.rounds}\n")
    print("| model | prefill, tokens/s | of the peak | beside the decoder | decode, tokens/s | of the bandwidth | beside the decoder |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, (title, _) in SHAPES.items():
        cells = [title]
        for phase in ("prefill", "decode"):
            mine, its = middle(name, phase, share), middle("llama", phase, share)
            cells += [f"{middle(name, phase, speed):.0f}", f"{100 * mine:.0f}%", f"{mine / its:.2f}"]
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
