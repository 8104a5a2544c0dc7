"""Gradients: the interpreter's against PyTorch's for every golden model, and against differences for every spec.

What is compared, and how near it has to be, is in tests/data/README.md."""
import json
import re
import unittest

from tests.e2e.harness import DATA, EXAMPLES, QUERN, Case, ints, read_safetensors, run, write_safetensors
from tests.e2e.models.models_test import ENCODERS, IMAGES, INPUTS, PAIRS, SPECS, SPEECH

LOSS = 1e-5


class Golden(Case):
    """Loss and every stored gradient, each within its tensor's tolerance of `meta.json`."""

    def read(self, fixture):
        folder = DATA / fixture
        expected = read_safetensors(folder / "expected.safetensors")
        inputs = {name: expected[there] for name, there in INPUTS.items() if there in expected}
        if fixture in ENCODERS + PAIRS + IMAGES + SPEECH:
            inputs["labels"] = expected["labels"]
        elif fixture == "phi3-longrope":  # its factors depend on the length: all 17 tokens, the last without a label
            inputs["labels"] = ints([row[1:] + [-100] for row in expected["input_ids"].rows()])
        return folder, expected, inputs

    def compare(self, folder, expected, got, noise):
        meta = json.loads((folder / "meta.json").read_text())
        tolerance = meta["suggested_grad_tolerance_relative_to_tensor_max"]
        self.assertLess(abs(got["loss"].data[0] - expected["loss"].data[0]), LOSS)
        wanted = [name for name in expected if name.startswith("grad.")]
        self.assertTrue(wanted)
        for name in wanted:
            self.assertEqual(got[name].shape, expected[name].shape, name)
            if name[len("grad."):] in meta["zero_gradients"]:  # PyTorch's is noise
                self.assertLess(max(abs(x) for x in got[name].data), noise, name)
                continue
            largest = max(abs(x) for x in expected[name].data)
            worst = max(abs(a - b) for a, b in zip(got[name].data, expected[name].data))
            self.assertLess(worst, tolerance * largest, name)

    def same(self, program, other, weights, inputs, tolerance):
        """The program's gradients: to the bit on any number of threads, and near those of `other`, relative to each tensor's largest."""
        want = self._evaluate([other, "grad"], weights, inputs, ())
        one, two, three = (self._evaluate([program, "grad"], weights, inputs, ("--threads", n)) for n in (1, 2, 3))
        self.assertEqual(sorted(one), sorted(want))
        for name in want:
            self.assertEqual(one[name].data, two[name].data, name)
            self.assertEqual(one[name].data, three[name].data, name)
            largest = max(abs(x) for x in want[name].data)
            self.assertLess(max(abs(a - b) for a, b in zip(one[name].data, want[name].data)), tolerance * largest, name)
        return one


class Interpreted(Golden):
    def check(self, fixture):
        folder, expected, inputs = self.read(fixture)
        got = self.interpret(SPECS[fixture], folder / "model.safetensors", inputs, "--train", "--config", folder / "config.json")
        self.compare(folder, expected, got, noise=1e-12)


class Compiled(Golden):
    def check(self, fixture):
        folder, expected, inputs = self.read(fixture)
        program = self.compile(SPECS[fixture], "--train", "--config", folder / "config.json", name=f"{fixture}-train")
        got = self._evaluate([program, "grad"], folder / "model.safetensors", inputs, ())
        self.compare(folder, expected, got, noise=1e-6)


class Experts(Golden):
    """Experts: the same bits on any number of threads, and the numbers that come out where all experts are computed."""

    def test_mixtral(self):
        folder, expected, inputs = self.read("mixtral")
        options = ("--train", "--config", folder / "config.json")
        chosen = self.compile("mixtral", *options, name="mixtral-chosen")
        every = self.compile("mixtral", *options, "--without", "sink-loss-gathers", name="mixtral-all")
        got = self.same(chosen, every, folder / "model.safetensors", inputs, tolerance=1e-5)
        # What utilisation counts: of the experts' matrices the share that a token uses.
        config = json.loads((folder / "config.json").read_text())
        share = config["num_experts_per_tok"] / config["num_local_experts"]
        sizes = {name: len(tensor.data) for name, tensor in got.items() if name.startswith("grad.")}
        experts = sum(size for name, size in sizes.items() if ".experts." in name)
        bench = json.loads(run(chosen, "bench", "--train", "--batch", 1, "-p", 8, "--json").out)
        self.assertEqual(bench["parameters"], sum(sizes.values()))
        self.assertEqual(bench["active_parameters"], sum(sizes.values()) - (1 - share) * experts)
        self.assertGreater(experts, 0)


class Biases(Golden):
    """What T5 learns by distance: the same bits on any number of threads, and the numbers that come out where scores are stored."""

    def test_t5(self):
        options = ("--train", "--config", DATA / "t5" / "config.json")
        program = self.compile("t5", *options, name="t5-train")
        stored = self.compile("t5", *options, "--without", "tabulate-distances", name="t5-stored")
        for batch, source, target in ((2, 7, 5), (1, 300, 70), (2, 33, 290)):
            rows = lambda length, step: ints([[2 + (7 * b + step * t + t * t // 3) % 97 for t in range(length)] for b in range(batch)])
            inputs = {"tokens": rows(source, 5), "target": rows(target, 3), "labels": rows(target, 11)}
            self.same(program, stored, DATA / "t5" / "model.safetensors", inputs, tolerance=1e-4)


class Memory(Golden):
    """`--memory`: the tightest budget there is gives the same gradients, and one below it is refused with that number."""

    def options(self, budget):
        return ("--train", "--config", DATA / "gpt2" / "config.json", "--batch", "2", "--length", "16", "--memory", budget)

    def test_least(self):
        refused = run(QUERN, "compile", EXAMPLES / "gpt2.quern", *self.options("1K"), "-o", "never", status=1)
        least = float(re.search(r"needs at least ([0-9.]+) MiB", refused.err)[1])
        folder, expected, inputs = self.read("gpt2")
        program = self.compile("gpt2", *self.options(f"{least + 0.1:.1f}M"), name="gpt2-least")
        got = self._evaluate([program, "grad"], folder / "model.safetensors", inputs, ())
        self.compare(folder, expected, got, noise=1e-6)

    def test_mistakes(self):
        for options, words in ((("--memory", "much", "--length", "8"), "a size such as 512M"), (("--memory", "1G"), "needs --length")):
            refused = run(QUERN, "compile", EXAMPLES / "gpt2.quern", "--train", *options, "-o", "never", status=1)
            self.assertIn(words, refused.err)


class Differences(Case):
    """`quern gradcheck` on every spec, with a small config."""

    def check(self, spec, *options):
        run(QUERN, "gradcheck", EXAMPLES / f"{spec}.quern", "--quiet", "--directions", "1", *options)

    def test_adapters(self):
        """They alone are checked, and all of them, beside matrices stored either way; the base may be a checkpoint's."""
        for fixture, matrices in (("llama", ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")), ("gpt2", ("c_attn", "c_proj", "c_fc"))):
            folder = DATA / fixture
            options = ("--config", folder / "config.json", "--weights", folder / "model.safetensors", "--lora", "2", "--directions", "1")
            *tensors, verdict = run(QUERN, "gradcheck", EXAMPLES / f"{fixture}.quern", *options).out.strip().splitlines()
            self.assertIn("gradients agree", verdict)
            for half in "AB":
                for matrix in matrices:
                    self.assertTrue(any(line.endswith(f"{matrix}.lora_{half}.weight") for line in tensors), f"{matrix} {half}")
            self.assertEqual([line for line in tensors if "lora_" not in line], [])


def golden(fixture):
    return lambda self: self.check(fixture)


def differences(spec, options):
    return lambda self: self.check(spec, *options)


for fixture, spec in SPECS.items():
    for case in (Interpreted, Compiled):
        setattr(case, "test_" + fixture.replace("-", "_"), golden(fixture))
    setattr(Differences, "test_" + fixture.replace("-", "_"), differences(spec, ("--config", DATA / fixture / "config.json")))

SMALL = {"width": 16, "vocab": 20, "heads": 2, "layers": 2}
for spec, more in {"linear_attention": {}, "sparse": {}, "translate": {"inner": 24}}.items():
    settings = [word for name, value in {**SMALL, **more}.items() for word in ("--set", f"{name}={value}")]
    setattr(Differences, "test_" + spec, differences(spec, settings))


class Refusals(Case):
    def test_a_label_that_is_no_word(self):
        folder = DATA / "gpt2"
        program = self.compile("gpt2", "--train", "--config", folder / "config.json")
        write_safetensors(self.scratch / "in.safetensors", {"tokens": ints([[1, 2, 3]]), "labels": ints([[2, 3, 128]])})
        refused = run(program, "grad", "--weights", folder / "model.safetensors", "--input", self.scratch / "in.safetensors", "--output",
                      self.scratch / "out.safetensors", status=1)
        self.assertIn("a position along V is outside of its size", refused.err)

    def test_a_model_without_a_loss(self):
        refused = run(QUERN, "gradcheck", EXAMPLES / "sentence.quern", status=1)
        self.assertIn("a gradient is that of a loss", refused.err)


if __name__ == "__main__":
    unittest.main()
