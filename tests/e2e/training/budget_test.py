"""`--memory` on forty layers: from all that pays down to the least possible, where layers are cut into segments that run again,
each program plans what it was given and its gradient is the one of the program without a budget."""
import random
import re
import unittest

from tests.e2e.harness import EXAMPLES, QUERN, Case, ints, random_tensor, relative_error, run, write_safetensors

WIDTH, WORDS, LAYERS, BATCH, LENGTH = 16, 40, 40, 2, 512
CONFIG = {"vocab_size": WORDS, "n_positions": LENGTH, "n_embd": WIDTH, "n_layer": LAYERS, "n_head": 2, "n_inner": 4 * WIDTH}


def weights(source):
    shapes = {"wte.weight": [WORDS, WIDTH], "wpe.weight": [LENGTH, WIDTH], "ln_f.weight": [WIDTH], "ln_f.bias": [WIDTH]}
    for i in range(LAYERS):
        for name, wide in (("attn.c_attn", [WIDTH, 3 * WIDTH]), ("attn.c_proj", [WIDTH, WIDTH]), ("mlp.c_fc", [WIDTH, 4 * WIDTH]),
                           ("mlp.c_proj", [4 * WIDTH, WIDTH])):
            shapes |= {f"h.{i}.{name}.weight": wide, f"h.{i}.{name}.bias": wide[1:]}
        shapes |= {f"h.{i}.ln_{k}.{part}": [WIDTH] for k in (1, 2) for part in ("weight", "bias")}
    return {"transformer." + name: random_tensor(source, shape) for name, shape in shapes.items()}


class Budgets(Case):
    def options(self, *more):
        sets = [word for name, value in CONFIG.items() for word in ("--set", f"{name}={value}")]
        return ("--train", *sets, *more)

    def within(self, budget):
        return self.options("--batch", BATCH, "--length", LENGTH, "--memory", budget)

    def gradient(self, name, options):
        said = run(QUERN, "compile", EXAMPLES / "gpt2.quern", *options, "-o", self.scratch / name).err
        planned = re.search(r"works in ([0-9.]+) MiB", said)
        return float(planned[1]) if planned else None, said, self._evaluate([self.scratch / name, "grad"], self.file, self.inputs, ())

    def test_every_budget(self):
        source = random.Random(3)
        self.file = self.scratch / "weights.safetensors"
        write_safetensors(self.file, weights(source))
        row = lambda: [source.randrange(WORDS) for _ in range(LENGTH)]
        self.inputs = {"tokens": ints([row() for _ in range(BATCH)]), "labels": ints([row() for _ in range(BATCH)])}
        refused = run(QUERN, "compile", EXAMPLES / "gpt2.quern", *self.within("1K"), "-o", "never", status=1)
        least = float(re.search(r"needs at least ([0-9.]+) MiB", refused.err)[1])
        _, _, want = self.gradient("free", self.options())
        ample, _, _ = self.gradient("ample", self.within("1G"))
        self.assertLess(least, 0.6 * ample)
        plans = []
        for step, budget in enumerate((0.7 * ample, (ample + least) / 2 * 0.75, least + 0.1)):
            plan, said, got = self.gradient(f"budget{step}", self.within(f"{max(budget, least + 0.1):.1f}M"))
            plans.append(plan)
            self.assertLessEqual(plan, max(budget, least + 0.1) + 0.05)
            self.assertEqual(sorted(got), sorted(want))
            for name in want:
                self.assertLess(relative_error(got[name], want[name]), 1e-4, f"{name} within {budget}M")
        self.assertIn("segments", said)  # the least is reached by them alone
        self.assertEqual(plans, sorted(plans, reverse=True))


if __name__ == "__main__":
    unittest.main()
