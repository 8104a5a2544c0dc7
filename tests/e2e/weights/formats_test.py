"""Every golden model with its weights in every number format: the program computes what the interpreter does with the same numbers, and how far that is
from PyTorch's f32 is bounded and printed. One class a fixture; all of them take minutes, so they are of the tier `nightly`."""
import sys
import unittest

from tests.e2e.harness import DATA, Case, read_safetensors, relative_error
from tests.e2e.models.models_test import ENCODERS, INPUTS, SPECS

# How near the interpreter; how far from f32 at most. These models have weights 16 to 64 wide, drawn at random: worse than any that was trained.
# Rows become codes where they are near the middle between two: the rounding of f32 decides, and the next code is 1/254 of a group's largest number away.
CODED_ROWS = 3e-2
FORMATS = {"bf16": (("--precision", "bf16"), 5e-5, 1e-1), "f16": (("--precision", "f16"), 5e-5, 1e-2), "int8": (("--quantize", "int8"), 1e-5, 2e-1), "int4": (("--quantize", "int4"), 1e-5, 1.5),
           "q4_k": (("--quantize", "q4_k"), 1e-5, 1.5), "q6_k": (("--quantize", "q6_k"), 1e-5, 5e-1),
           "w16a16": (("--quantize", "w16a16"), CODED_ROWS, 1e-1), "q5_k+a8": (("--quantize", "q5_k", "--activations", "int8"), CODED_ROWS, 1.5), "w8a8": (("--quantize", "w8a8"), CODED_ROWS, 5e-1), "w4a8": (("--quantize", "w4a8"), CODED_ROWS, 1.5)}


class Formats(Case):
    fixture = None

    def test_formats(self):
        folder, spec = DATA / self.fixture, SPECS[self.fixture]
        config, weights = folder / "config.json", folder / "model.safetensors"
        expected = read_safetensors(folder / "expected.safetensors")
        inputs = {name: expected[there] for name, there in INPUTS.items() if there in expected}
        keep = list(inputs["mask"].data) if self.fixture in ENCODERS else None
        for name, (options, near, far) in FORMATS.items():
            program = self.compile(spec, "--config", config, *options, name=name)
            got = self.evaluate(program, weights, inputs)["logits"]
            want = self.interpret(spec, weights, inputs, "--config", config, *options, "--after", "narrow-storage")["logits"]
            self.assertLess(relative_error(got, want, keep), near, name)
            apart = relative_error(want, expected["logits"], keep)
            print(f"{self.fixture} {name} {apart:.2g}", file=sys.stderr)
            self.assertLess(apart, far, name)
            self.assertGreater(apart, 1e-5 if name == "f16" else 1e-4, name)  # else nothing was rounded


for fixture in SPECS:
    globals()[fixture] = type(fixture, (Formats,), {"fixture": fixture, "__module__": __name__})
del Formats

if __name__ == "__main__":
    unittest.main()
