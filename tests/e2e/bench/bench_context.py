"""`./dev bench context`: what a long text costs models that carry a state, beside one that remembers every position.

Each (random weights, six layers 512 wide) reads a short and a long text and writes after it. Prints one JSON object: milliseconds of
a step and bytes of what is kept, after either text, and the ratio of each: near 1 where nothing grows with the text (a window of 512 positions fills first). Steps of the two texts are
measured alternately, and the best of each counts, as a shared machine drifts."""
import argparse
import json
import pathlib
import shutil
import tempfile

from tests.e2e.harness import EXAMPLES, QUERN, run

MAMBA = {"vocab_size": 16000, "hidden_size": 512, "state_size": 16, "num_hidden_layers": 6, "time_step_rank": 32, "intermediate_size": 1024}
GRIFFIN = {"vocab_size": 16000, "hidden_size": 512, "intermediate_size": 3072, "num_hidden_layers": 6, "num_attention_heads": 8, "num_key_value_heads": 1,
           "attention_window_size": 512, "rms_norm_eps": 1e-6}
LLAMA = {"vocab_size": 16000, "hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 6, "num_attention_heads": 8,
         "num_key_value_heads": 8, "max_position_embeddings": 32768, "rms_norm_eps": 1e-5, "hidden_act": "silu"}
MODELS = {"mamba": MAMBA, "recurrent_gemma": GRIFFIN, "llama": LLAMA}


def main():
    parser = argparse.ArgumentParser(prog="./dev bench context")
    parser.add_argument("--short", type=int, default=64, help="tokens of the short text, and of the pieces that the long one is read in")
    parser.add_argument("--long", type=int, default=16384, help="tokens of the long text")
    parser.add_argument("--steps", type=int, default=64, help="tokens written after each")
    parser.add_argument("--rounds", type=int, default=2, help="measurements of each")
    parser.add_argument("--models", default=",".join(MODELS), help="some of " + ", ".join(MODELS))
    parser.add_argument("--threads", type=int, help="threads (all)")
    options = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="quern-bench-"))
    threads = ["--threads", str(options.threads)] if options.threads else []
    result = {}
    try:
        for name in options.models.split(","):
            config = folder / f"{name}.json"
            config.write_text(json.dumps(MODELS[name]))
            run(QUERN, "compile", EXAMPLES / f"{name}.quern", "--config", config, "-o", folder / name)
            milliseconds, kept = {}, {}
            for _ in range(options.rounds):
                for length in (options.short, options.long):
                    got = json.loads(run(folder / name, "bench", "-p", length, "-n", options.steps, "--chunk", options.short, "--json", *threads).out)
                    step = got["decode"]["seconds"] / got["decode"]["tokens"] * 1000
                    milliseconds[length] = min(step, milliseconds.get(length, step))
                    kept[length] = got["memory"]["kept_bytes"]
            ratio = lambda of: round(of[options.long] / of[options.short], 3)
            result[name] = {"step_ms": {n: round(ms, 3) for n, ms in milliseconds.items()}, "kept_bytes": kept,
                            "step_ratio": ratio(milliseconds), "kept_ratio": ratio(kept)}
        print(json.dumps(result, indent=1))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
