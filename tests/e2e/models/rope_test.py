"""The standard library's `rotary` with every scaling that it knows: transformers' cosines and sines (tests/data/rope.json, made by generate/make_rope.py).

Which models use a scaling is config.json's choice, so each is tried by itself, and beyond the length that a model was trained with."""
import json
import math
import re
import unittest

from tests.e2e.harness import DATA, EXAMPLES, QUERN, Case, ints, run, write_safetensors

SPEC = """quern 1
model m {
  config { width = 16, theta = 10000.0, scaling = null }
  dim N = width, J = N / 2
  forward(tokens: int[B, T]) -> [B, T, N] {
    cosine, sine = rotary[J](tokens + index(T), theta, scaling, length: T)
    return concat[J + J -> N](cosine, sine)
  }
}
"""


class Rope(Case):
    def test_scalings(self):
        golden = json.loads((DATA / "rope.json").read_text())
        spec, config = self.scratch / "rope.quern", self.scratch / "config.json"
        spec.write_text(SPEC)
        weights = self.scratch / "none.safetensors"
        write_safetensors(weights, {})
        for case in golden["cases"]:
            config.write_text(json.dumps({"width": golden["width"], "theta": golden["theta"], "scaling": case["scaling"]}))
            got = self.interpret(spec, weights, {"tokens": ints([[0] * case["length"]])}, "--config", config)["logits"].data
            half = golden["width"] // 2
            for position in range(case["length"]):
                for j, frequency in enumerate(case["frequencies"]):
                    angle = position * frequency  # of float32 frequencies
                    cosine, sine = got[position * 2 * half + j], got[position * 2 * half + half + j]
                    what = (case["name"], case["length"], position, j)
                    self.assertAlmostEqual(cosine, case["longer"] * math.cos(angle), delta=2e-5, msg=what)
                    self.assertAlmostEqual(sine, case["longer"] * math.sin(angle), delta=2e-5, msg=what)

    def test_longrope_needs_the_length(self):
        """A spec that leaves it out is refused: its numbers would be those of short texts."""
        spec, config = self.scratch / "short.quern", self.scratch / "config.json"
        spec.write_text(SPEC.replace(", length: T", ""))
        config.write_text(json.dumps({"width": 4, "theta": 10000.0, "scaling": {
            "rope_type": "longrope", "factor": 2.0, "short_factor": [1, 1], "long_factor": [2, 2], "original_max_position_embeddings": 8}}))
        self.assert_refused(run(QUERN, "check", spec, "--config", config, status=1), "longrope", "length: T")

    def test_dynamic_is_refused_with_what_to_do(self):
        spec, config = self.scratch / "dynamic.quern", self.scratch / "config.json"
        spec.write_text(SPEC)
        config.write_text(json.dumps({"width": 4, "scaling": {"rope_type": "dynamic", "factor": 2.0}}))
        self.assert_refused(run(QUERN, "check", spec, "--config", config, status=1), "dynamic", "--set rope_scaling.rope_type=default")
        run(QUERN, "check", spec, "--config", config, "--set", "scaling.rope_type=default")

    def test_examples_give_the_length(self):
        """Whatever scaling a checkpoint has."""
        for path in EXAMPLES.glob("**/*.quern"):
            for call in re.findall(r"rotary\[.*\n", path.read_text()):
                if "scaling" in call or "rope_parameters" in call:
                    self.assertRegex(call, r"length: T\)|rope_scaling, T,", path.name)


if __name__ == "__main__":
    unittest.main()
