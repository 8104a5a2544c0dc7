"""`quern bisect` as a user calls it. (Faults in passes and kernels are planted in tests/tools/BisectTest.cpp.)"""
import array
import json
import unittest

from tests.e2e.harness import DATA, EXAMPLES, QUERN, Case, ints, read_safetensors, run, write_safetensors

LLAMA = DATA / "llama"
SPEC = (EXAMPLES / "llama.quern", "--config", LLAMA / "config.json")


class BisectTest(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.input = cls.scratch / "x.safetensors"
        write_safetensors(cls.input, {"tokens": ints([[1, 5, 9, 2], [7, 3, 8, 4]])})

    def bisect(self, *words, status=0, weights=LLAMA / "model.safetensors"):
        return run(QUERN, "bisect", *words, "--weights", weights, "--input", self.input, status=status)

    def altered(self, name, value):
        tensors = read_safetensors(LLAMA / "model.safetensors")
        numbers = array.array("f", tensors[name].data)
        numbers[3] = value
        tensors[name].data = numbers
        write_safetensors(self.scratch / "altered.safetensors", tensors)
        return self.scratch / "altered.safetensors"

    def test_nothing_differs(self):
        self.assertIn("nothing differs: every pass within 1e-09", self.bisect(*SPEC).out)
        self.assertEqual(json.loads(self.bisect(*SPEC, "--json", "--without", "raise-attention,cse").out)["stage"], "none")

    def test_fewer_bits(self):
        done = self.bisect(*SPEC, "--quantize", "w8a8").out
        self.assertIn("the pass 'narrow-storage' rounds, as the program's options ask: by ", done)
        self.assertIn("nothing differs: every pass within 1e-09, every kernel and the program within 3e-02", done)
        self.assertIn("the program within 1e-04", self.bisect(*SPEC, "--precision", "bf16").out)

    def test_a_module_instead_of_a_spec(self):
        run(QUERN, "compile", *SPEC, "--compile-to", "rolled", "--locations", "-o", self.scratch / "rolled.mlir")
        self.assertIn("nothing differs", self.bisect(self.scratch / "rolled.mlir").out)

    def test_names_a_weight(self):
        weights = self.altered("model.layers.1.mlp.up_proj.weight", 3)
        done = self.bisect(*SPEC, "--reference-weights", LLAMA / "model.safetensors", "--json", weights=weights, status=1)
        found = json.loads(done.out)
        self.assertEqual((found["stage"], found["name"], found["layer"]),
                         ("weights", "model.layers.1.mlp.up_proj.weight", "model.layers.1"))
        self.assertRegex(found["place"], r"^llama\.quern:\d+:\d+")

    def test_the_spec_against_other_results(self):
        got = self.interpret("llama", LLAMA / "model.safetensors", read_safetensors(self.input), "--config", LLAMA / "config.json")
        write_safetensors(self.scratch / "right.safetensors", got)
        self.assertIn("nothing differs", self.bisect(*SPEC, "--expected", self.scratch / "right.safetensors").out)
        weights = self.altered("model.norm.weight", 9)
        done = self.bisect(*SPEC, "--expected", self.scratch / "right.safetensors", weights=weights, status=1)
        self.assertIn("the fault is in the spec, its config or the weights, not in the compiler", done.out)

    def test_says_what_is_wrong_with_its_use(self):
        for words, said in {
            (*SPEC, "--without", "raise-attentoin"): "did you mean 'raise-attention'?",
            (*SPEC, "--without", "outline-kernels"): "cannot be left out: machine code is made of kernels",
            (*SPEC, "--function", "backward"): "backward",
            (*SPEC, "--expected", self.scratch / "none"): "none",
            (*SPEC, "--reference-weights", "nowhere"): "quern bisect: cannot open nowhere: No such file",
            (*SPEC, "--tolerance", "small"): "tolerance",
        }.items():
            self.assert_refused(self.bisect(*words, status=1), said)
        self.assert_refused(run(QUERN, "bisect", *SPEC, status=1), "--input", "usage: quern bisect")


if __name__ == "__main__":
    unittest.main()
