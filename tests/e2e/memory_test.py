"""Memory: the plan (`quern dump --stats`: one arena and what is remembered; the program: scratch of its kernels, too) is what a program then
works in, within 5%.

Kinds of memory that differ: keys and values, a ring, latents, running sums, chosen experts. Shapes that read much or write much."""
import json
import unittest

from harness import DATA, EXAMPLES, QUERN, ROOT, Case, run

PAGE = 4096
SCRATCH = 32 << 10
PAGES = {
    "llama": (EXAMPLES / "llama.quern", ("--config", DATA / "llama" / "config.json")),
    # A ring has room for its window beside the longest call; bench reads once, so this room stays empty here.
    "mistral": (EXAMPLES / "mistral.quern", ("--config", DATA / "mistral" / "config.json", "--set", "sliding_window=16")),
    "mixtral": (EXAMPLES / "mixtral.quern", ("--config", DATA / "mixtral" / "config.json")),
    "linear_attention": (EXAMPLES / "linear_attention.quern", ()),
    "deepseek": (ROOT / "tests" / "frontend" / "specs" / "deepseek_v3.quern", ()),
}
SHAPES = ((1000, 8), (300, 300), (16, 900))


class Memory(Case):
    def check(self, spec, options):
        program = self.compile(spec, *options)
        for read, write in SHAPES:
            used = json.loads(run(program, "bench", "-p", read, "-n", write, "--json").out)["memory"]
            dumped = run(QUERN, "dump", spec, *options, "--after", "planned", "--stats", "--json",
                         "--set-size", f"T={read},cap={read + write}").out
            statistics = json.loads(dumped)["passes"][0]["statistics"]
            (plan,) = [f["peak_at"] for f in statistics["functions"] if f["name"] == "forward.last"]
            # Memory is counted in whole pages: half of one more or less for the arena and each state.
            slack = PAGE * (1 + len(statistics["states"]))
            buffers = used["used_bytes"] - used["scratch_bytes"]
            self.assertLess(abs(buffers - plan), max(0.05 * plan, slack), (read, write, used, plan))
            # Scratch of kernels is planned by polynomials, which are some KB off for a model as small as these.
            self.assertLess(abs(used["used_bytes"] - used["planned_bytes"]), 0.05 * used["planned_bytes"] + SCRATCH, (read, write, used))


    def test_training(self):
        """Of the gradient alone: what generation remembers needs no room there. Memory comes in pages of up to 2 MiB, so it is large."""
        options = ("--config", DATA / "gpt2" / "config.json", "--train")
        program = self.compile(EXAMPLES / "gpt2.quern", *options)
        bench = json.loads(run(program, "bench", "--train", "--batch", 200, "-p", 40, "--json").out)
        dumped = run(QUERN, "dump", EXAMPLES / "gpt2.quern", *options, "--after", "planned", "--stats", "--json",
                     "--set-size", "B=200,T=40").out
        functions = json.loads(dumped)["passes"][0]["statistics"]["functions"]
        (gradient,) = [f for f in functions if f["name"] == "loss.grad"]
        self.assertEqual(gradient["peak_at"], gradient["arena_at"] + gradient["kept_at"])
        self.assertEqual(bench["planned_bytes"] - bench["planned_scratch_bytes"], gradient["peak_at"])
        self.assertLess(abs(bench["used_bytes"] - bench["planned_bytes"]), 0.05 * bench["planned_bytes"], (bench, gradient))


for name, (spec, options) in PAGES.items():
    setattr(Memory, f"test_{name}", lambda self, spec=spec, options=options: self.check(spec, options))

if __name__ == "__main__":
    unittest.main()
