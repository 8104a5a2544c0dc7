"""How many kernels a layer takes: what fusion and packing have to leave. Counted by `quern dump --stats`."""
import json
import unittest

from tests.e2e.harness import EXAMPLES, QUERN, Case, run


def loops(spec, function, *options):
    """(iterations, launches) of each loop of a function once kernels are cut out."""
    text = run(QUERN, "dump", EXAMPLES / f"{spec}.quern", "--after", "kernels", "--stats", "--json", *options).out
    functions = json.loads(text)["passes"][-1]["statistics"]["functions"]
    return [(loop["iterations"], loop["launches"]) for f in functions if f["name"] == function for loop in f["loops"]]


class Kernels(Case):
    def test_a_layer_of_gpt2(self):
        # Norm with queries, keys and values; attention; projection; norm with the first linear map; the second.
        for function in ("forward", "forward.last"):
            self.assertEqual(loops("gpt2", function), [(12, 5)])

    def test_a_layer_of_llama(self):
        # As above; rotation goes with queries and keys, gate and up are one.
        for function in ("forward", "forward.last"):
            self.assertEqual(loops("llama", function), [(32, 5)])

    def test_a_layer_of_an_encoder(self):
        # Norms come after the sums here, and are kernels of their own.
        self.assertEqual(loops("sentence", "forward"), [(6, 7)])

    def test_without_fusion(self):
        one = loops("llama", "forward.last")[0][1]
        for rule in ("pack-projections", "fuse-branches", "fuse-prologues", "fuse-epilogues", "raise-attention"):
            self.assertGreater(loops("llama", "forward.last", "--without", rule)[0][1], one, rule)


if __name__ == "__main__":
    unittest.main()
