"""Long texts: what a gradient works in grows with the length, not with its square, and T = 4096 gives the numbers that the rules
of the softmax's parts give, which store it."""
import json
import pathlib
import random
import unittest

from tests.e2e.harness import DATA, EXAMPLES, LESSER_TARGET, QUERN, Case, Tensor, ints, random_tensor, relative_error, run, write_safetensors

LENGTHS = (1024, 2048, 4096)


class Planned(Case):
    """GPT-2 of 124M parameters, as `quern dump --stats` plans it."""

    def peaks(self, *options):
        sizes = []
        for length in LENGTHS:
            dumped = run(QUERN, "dump", EXAMPLES / "gpt2.quern", "--train", "--set", "n_positions=4096", *options, "--after", "planned",
                         "--stats", "--json", "--set-size", f"B=1,T={length}").out
            functions = json.loads(dumped)["passes"][0]["statistics"]["functions"]
            sizes += [f["peak_at"] for f in functions if f["name"] == "loss.grad"]
        return sizes

    def test_linear(self):
        short, middle, long = self.peaks()
        self.assertAlmostEqual((long - middle) / (middle - short), 2, delta=0.01)
        self.assertLess(long, 4.01 * short)

    def test_quadratic_without(self):  # so that the test above can fail
        short, middle, long = self.peaks("--without", "raise-loss-attention")
        self.assertGreater((long - middle) / (middle - short), 3)


class Gradient(Case):
    """Rotary positions, grouped queries, a causal mask."""

    def test_same_numbers(self):
        folder, length = DATA / "llama", LENGTHS[-1]
        config = json.loads((folder / "config.json").read_text())
        source = random.Random(5)
        row = [source.randrange(config["vocab_size"]) for _ in range(length + 1)]
        inputs = {"tokens": ints([row[:-1]]), "labels": ints([row[1:]])}
        got = []
        for options in ((), ("--without", "raise-loss-attention"), ("--target", LESSER_TARGET)):
            program = self.compile("llama", "--train", "--config", folder / "config.json", *options, name="llama" + "".join(options))
            got.append(self._evaluate([program, "grad"], folder / "model.safetensors", inputs, ()))
        ours, theirs, lesser = got
        self.assertEqual(sorted(ours), sorted(theirs))
        self.assertEqual(sorted(ours), sorted(lesser))
        self.assertGreater(len(ours), 10)
        for name in ours:
            self.assertLess(relative_error(ours[name], theirs[name]), 2e-4, name)
            self.assertLess(relative_error(lesser[name], theirs[name]), 2e-4, name)


class Kinds(Case):
    """Every kind of attention that has the rule, and one that has not (a learned bias): compiled as interpreted."""

    def weights(self):
        source = random.Random(7)
        shapes = {"qp": [12, 16], "kp": [6, 16]}
        for layer in range(2):
            shapes |= {f"h.{layer}.q": [48, 16], f"h.{layer}.k": [16, 16], f"h.{layer}.v": [16, 16], f"h.{layer}.o": [16, 48]}
        for kind in ("window", "empty", "sink", "finite", "latent", "shared", "biased"):
            shapes |= {f"{kind}.q": [16, 16]}
            if kind != "shared":  # its keys and values are parameters
                shapes |= {f"{kind}.k": [16, 16], f"{kind}.v": [24, 16]}
        named = {f"{name}.weight": shape for name, shape in shapes.items()}
        named |= {"sinks": [2], "mk": [5, 8], "mv": [5, 12], "table": [16, 2]}
        return {name: random_tensor(source, shape) for name, shape in named.items()}, source

    def test_compiled(self):
        weights, source = self.weights()
        file = self.scratch / "attends.safetensors"
        write_safetensors(file, weights)
        spec = pathlib.Path(__file__).parent / "attends.quern"
        program = self.compile(spec, "--train", name="attends")
        for batch, length in ((1, 1), (2, 9), (2, 70)):
            seen = [1 if at % length == 0 or source.random() < 0.7 else 0 for at in range(batch * length)]
            inputs = {"x": random_tensor(source, [batch, length, 16], 1), "padding": Tensor("BOOL", [batch, length], seen)}
            want = self.interpret(spec, file, inputs, "--train")
            got = self._evaluate([program, "grad"], file, inputs, ())
            self.assertEqual(sorted(got), sorted(want))
            most = max(abs(x) for tensor in want.values() for x in tensor.data)
            for name in want:  # some are zero: with one key nothing depends on its score
                largest = max(0.01 * most, *map(abs, want[name].data), 0)
                worst = max(abs(a - b) for a, b in zip(got[name].data, want[name].data))
                self.assertLess(worst, 1e-4 * largest, (name, length))


if __name__ == "__main__":
    unittest.main()
