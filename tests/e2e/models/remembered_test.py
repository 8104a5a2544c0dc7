"""What `quern dump` says that each published architecture remembers, numbers per layer and position: the table of the design.

Whole configs as published; no weights are needed to know it."""
import json
import unittest

from tests.e2e.harness import EXAMPLES, QUERN, ROOT, Case, run

DEEPSEEK = ROOT / "tests" / "frontend" / "specs" / "deepseek_v3.quern"
V3 = dict(vocab_size=129280, hidden_size=7168, intermediate_size=18432, moe_intermediate_size=2048, num_hidden_layers=61, num_attention_heads=128,
          q_lora_rank=1536, kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128, n_routed_experts=256, n_group=8,
          topk_group=4, num_experts_per_tok=8, first_k_dense_replace=3)
V2_LITE = dict(V3, vocab_size=102400, hidden_size=2048, intermediate_size=10944, moe_intermediate_size=1408, num_hidden_layers=27, num_attention_heads=16,
               q_lora_rank=None, n_routed_experts=64, n_group=1, topk_group=1, num_experts_per_tok=6, first_k_dense_replace=1, n_shared_experts=2)
LONGROPE = {"rope_type": "longrope", "rope_theta": 10000.0, "factor": 32.0, "original_max_position_embeddings": 4096,
            "short_factor": [1.0] * 48, "long_factor": [2.0] * 48}
EVERY = "numbers per layer and position"


def kept(layers, *numbers, how=EVERY):
    return [(layers, f"{n} {how if layers > 1 else how.replace('layer and ', '')}") for n in numbers]


# Spec, config, what each loop over layers remembers.
SPECS = {
    # Keys and values of all heads.
    "gpt2": ("gpt2", {}, kept(12, 768, 768)),
    # Keys after rotation, and values, of the key/value heads: not repeated for the 4 or 7 queries that share them.
    "llama3_8b": ("llama", dict(vocab_size=128256, intermediate_size=14336, num_key_value_heads=8), kept(32, 1024, 1024)),
    "qwen2_7b": ("qwen2", dict(hidden_size=3584, intermediate_size=18944, num_hidden_layers=28, num_attention_heads=28, num_key_value_heads=4), kept(28, 512, 512)),
    # The same, as many positions as the window has.
    "mistral_7b": ("mistral", dict(sliding_window=4096), kept(32, 1024, 1024, how=EVERY + ", the last 4096 positions in a ring")),
    "phi3_mini_128k": ("phi3", dict(max_position_embeddings=131072, original_max_position_embeddings=4096, rope_scaling=LONGROPE), kept(32, 3072, 3072)),
    "mixtral_8x7b": ("mixtral", {}, kept(32, 1024, 1024)),
    # Of the decoder's own attention; the encoder's keys and values are made once a request.
    "t5_small": ("t5", {}, kept(6, 512, 512)),
    "t5_base": ("t5", dict(d_model=768, d_ff=3072, num_layers=12, num_heads=12), kept(12, 768, 768)),
    # ... and the count of real tokens, from which positions are made.
    "m2m100_418m": ("bart", dict(model_type="m2m_100"), kept(12, 1024, 1024) + [(1, "1 number")]),
    # The latent and the rotary key that all heads share; expanded keys and values would be 128 * (192 + 128).
    "deepseek_v3": (DEEPSEEK, V3, kept(3, 512, 64) + kept(58, 512, 64)),
    "deepseek_v2_lite": (DEEPSEEK, V2_LITE, kept(1, 512, 64) + kept(26, 512, 64)),
    # Two running sums, and no positions.
    "linear_attention": ("linear_attention", dict(width=512, heads=8, layers=6), kept(6, 8 * 64 * 64, 8 * 64, how="numbers per layer")),
}


class Remembered(Case):
    @classmethod
    def dump(cls, spec, config, *options):
        path = spec if not isinstance(spec, str) else EXAMPLES / f"{spec}.quern"
        file = cls.scratch / "config.json"
        file.write_text(json.dumps(config))
        return run(QUERN, "dump", path, "--config", file, "--after", "incremental", *options).out

    def states(self, spec, config, *options):
        text = self.dump(spec, config, "--stats", "--json", *options)
        return json.loads(text)["passes"][-1]["statistics"]["states"]

    def check(self, spec, config, expected):
        self.assertEqual(sorted((s["layers"], s["remembers"]) for s in self.states(spec, config)), sorted(expected))

    def test_without_absorption(self):
        """Then keys and values of all heads are kept."""
        expected = kept(3, 128 * 128, 64, 128 * 128) + kept(58, 128 * 128, 64, 128 * 128)
        states = self.states(DEEPSEEK, V3, "--without", "absorb-projections")
        self.assertEqual(sorted((s["layers"], s["remembers"]) for s in states), sorted(expected))

    def test_running_sums_do_not_grow(self):
        def bytes_at(spec, past):
            return sum(s["bytes_at"] for s in self.states(spec, {}, "--set-size", f"T=1,past={past}"))
        self.assertEqual(bytes_at("linear_attention", 100), bytes_at("linear_attention", 1000000))
        self.assertLess(bytes_at("gpt2", 100), bytes_at("gpt2", 1000))

    def test_encoders_are_read_once(self):
        """Keys and values of the source are made in a request's first call, and kept for as long as the source is."""
        for spec in ("t5", "bart", "translate"):
            text = run(QUERN, "dump", EXAMPLES / f"{spec}.quern", "--after", "planned", "--stats", "--json").out
            (step,) = [f for f in json.loads(text)["passes"][-1]["statistics"]["functions"] if f["name"] == "decode.last"]
            self.assertGreater(sum(loop["once"] for loop in step["loops"]), 0, spec)
            self.assertTrue(any("S" in size for size in step["kept"]), f"{spec} keeps {step['kept']}")
            self.assertTrue(all("T" not in size and "past" not in size for size in step["kept"]), f"{spec} keeps {step['kept']}")

    def test_longrope_redoes_a_row(self):
        """What is remembered changes when T > context does; a function computes it, so that the past is run again."""
        self.assertIn("@forward.epoch", self.dump(*SPECS["phi3_mini_128k"][:2]))
        self.assertNotIn("@forward.epoch", self.dump(*SPECS["llama3_8b"][:2]))

    def test_mixtral_computes_chosen_experts(self):
        path = EXAMPLES / "mixtral.quern"
        text = run(QUERN, "dump", path, "--after", "canonicalize-steps").out
        for name in ("forward", "forward.last", "forward.ragged"):
            form = text.split(f"@{name}(")[1].split("func.func")[0]
            self.assertIn("C = 2, F = 14336, D = 4096", form)
            self.assertNotIn("real[B, T, E = 8, F", form)
        self.assertNotIn("@forward.step", text)  # one form for any number of rows

    def test_encoders_are_refused(self):
        for spec in ("bert", "distilbert"):
            self.assertRegex(self.dump(spec, {}), rf'quern.refusal = "[^"]*{spec}.quern:\d+:\d+: softmax\[S\] is not causal: it sees positions of S after T')


for name, spec in SPECS.items():
    setattr(Remembered, f"test_{name}", lambda self, spec=spec: self.check(*spec))

if __name__ == "__main__":
    unittest.main()
