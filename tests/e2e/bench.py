"""`./dev bench`: what Quern costs and how fast its programs are on this machine, with random weights at two public shapes.

Prints one JSON object: compile times (cold: empty kernel cache; warm: the same again; 12 and 48 layers), and for the 110M Llama what its own
`bench` measures: tokens per second next to the machine's limits, taken right before and after."""
import json
import os
import pathlib
import shutil
import sys
import tempfile
import time

from harness import EXAMPLES, QUERN, run

GPT2 = {"vocab_size": 50257, "n_positions": 1024, "n_embd": 768, "n_layer": 12, "n_head": 12}
LLAMA = {"vocab_size": 32000, "hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 12, "num_attention_heads": 12,
         "num_key_value_heads": 12, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "hidden_act": "silu"}


def main():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="quern-bench-"))
    count = 0

    def compile_seconds(spec, config, fresh):
        """Seconds to compile; `fresh` starts from an empty kernel cache."""
        nonlocal count
        if fresh:
            count += 1
        path = folder / f"{spec}.json"
        path.write_text(json.dumps(config))
        start = time.monotonic()
        run(QUERN, "compile", EXAMPLES / f"{spec}.quern", "--config", path, "-o", folder / spec, cache=folder / f"cache{count}")
        return round(time.monotonic() - start, 2)

    result = {"machine": {"cpus": os.cpu_count()}, "compile_s": {}}
    try:
        times = result["compile_s"]
        times["gpt2_12_layers_cold"] = compile_seconds("gpt2", GPT2, True)
        times["gpt2_12_layers_warm"] = compile_seconds("gpt2", GPT2, False)
        times["gpt2_48_layers_cold"] = compile_seconds("gpt2", dict(GPT2, n_layer=48), True)
        times["llama_110m_cold"] = compile_seconds("llama", LLAMA, True)
        result["llama_110m"] = json.loads(run(folder / "llama", "bench", "-p", "512", "-n", "128", "--json", *sys.argv[1:]).out)
        print(json.dumps(result, indent=1))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
