"""NaN injected into a row of the data, and into a parameter: `PROGRAM train` stops at that step before anything changes, and
`quern interpret --train --first-broken`, with the files that it leaves, names the operation, its line and its layer."""
import math
import random
import re
import shlex
import unittest

from tests.e2e.harness import QUERN, Case, Tensor, random_tensor, read_safetensors, run, write_safetensors

# A regression with real inputs, so that data can hold a NaN.
TEXT = """quern 1
model regression {
  config { width = 8, layers = 3 }
  dim D = width
  param out: [D] @ "out"
  loss(x: [B, D], y: [B]) -> [] {
    h = x
    repeat i in layers @ "layers.{i}" {
      h = h + tanh(linear[D -> D](h) @ "inner")
    }
    e = sum[D](h * out) - y
    return mean[B](e * e)
  }
  forward(x: [B, D]) -> [B, D] { return x * out }
}
"""
BATCHES, ROWS, WIDTH = 6, 5, 8


class Broken(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.spec = cls.write_spec("regression", TEXT)
        cls.program = cls.compile(cls.spec, "--train")
        source = random.Random(3)
        cls.x, cls.y = random_tensor(source, [BATCHES, ROWS, WIDTH], 1), random_tensor(source, [BATCHES, ROWS], 1)

    def train(self, name, x, *options, status=1):
        data = self.scratch / f"{name}.safetensors"
        write_safetensors(data, {"x": x, "y": self.y})
        return run(self.program, "train", "--data", data, "--output", self.scratch / name, "--steps", BATCHES, "--save-every", 1, *options, status=status)

    def named(self, finished, step, spec):
        """Runs the command that the message ends with; what it says."""
        self.assertEqual(re.search(r"step (\d+): ", finished.err).group(1), str(step))
        command = re.search(r"for the operation: quern (interpret SPEC .*)", finished.err).group(1)
        return run(QUERN, *shlex.split(command.replace("SPEC", str(spec)))).err

    def test_in_the_data(self):
        batch = 4
        x = Tensor("F32", self.x.shape, list(self.x.data))
        x.data[(batch - 1) * ROWS * WIDTH + 2 * WIDTH + 5] = math.nan  # the third row of the fourth batch
        finished = self.train("data", x)
        self.assert_refused(finished, f"step {batch}", "the loss is nan", "all parameters were finite")
        kept = self.scratch / "data" / f"broken-{batch}"
        self.assertTrue(math.isnan(read_safetensors(f"{kept}.inputs.safetensors")["x"].data[2 * WIDTH + 5]))
        before = read_safetensors(self.scratch / "data" / f"checkpoint-{batch - 1}" / "model.safetensors")
        for name, tensor in read_safetensors(f"{kept}.model.safetensors").items():
            self.assertEqual(tensor.data, before[name].data, name)
        said = self.named(finished, batch, self.spec)
        # The first thing that reads the row: the first layer's product.
        self.assertIn("'contract', in iteration 0 of its loop", said)
        self.assertIn("an operand has it already", said)
        self.assertIn("regression.quern:9:", said)

    def test_in_a_parameter(self):
        self.train("begin", self.x, status=0)
        model = self.scratch / "begin" / f"checkpoint-{BATCHES}" / "model.safetensors"
        tensors = read_safetensors(model)
        tensors["layers.1.inner.weight"].data[3] = math.nan
        weights = self.scratch / "nan.safetensors"
        write_safetensors(weights, tensors)
        finished = self.train("parameter", self.x, "--weights", weights)
        self.assert_refused(finished, "step 1", "the loss is nan", "the parameter layers.1.inner.weight was not finite")
        said = self.named(finished, 1, self.spec)
        self.assertIn("'param', in iteration 1 of its loop", said)

    def test_in_the_gradient_alone(self):
        """sqrt has no slope at 0: the loss is finite, its gradient is not."""
        spec = self.write_spec("root", TEXT.replace("mean[B](e * e)", "mean[B](e * e) + sqrt(sum[B](e * e) * 0)"))
        program = self.compile(spec, "--train", name="root")
        data = self.scratch / "root.safetensors"
        write_safetensors(data, {"x": self.x, "y": self.y})
        finished = run(program, "train", "--data", data, "--output", self.scratch / "root-run", "--steps", 2, status=None)
        self.assert_refused(finished, "step 1", "the loss is finite, but the gradient of")
        said = self.named(finished, 1, spec)
        self.assertRegex(said, r"root\.quern:12:\d+: warning: this is the first operation")


if __name__ == "__main__":
    unittest.main()
