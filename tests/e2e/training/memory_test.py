"""Memory: the plan (`quern dump --scratch`: one arena, what is remembered, scratch of kernels) is the program's own, and what it then works in,
within 5%.

Kinds of memory that differ: keys and values, a ring, latents, running sums, chosen experts. Shapes that read much or write much."""
import ctypes
import json
import random
import unittest

from tests.e2e.harness import DATA, EXAMPLES, LESSER_TARGET, QUERN, ROOT, Case, random_tensor, relative_error, run, write_safetensors

PAGE = 4096
SCRATCH = 32 << 10
SPECS = {
    "llama": (EXAMPLES / "llama.quern", ("--config", DATA / "llama" / "config.json")),
    # A ring has room for its window beside the longest call; bench reads once, so this room stays empty here.
    "mistral": (EXAMPLES / "mistral.quern", ("--config", DATA / "mistral" / "config.json")),
    "lesser_target": (EXAMPLES / "mistral.quern", ("--config", DATA / "mistral" / "config.json", "--set", "sliding_window=16",
                                                  "--target", LESSER_TARGET)),
    "mixtral": (EXAMPLES / "mixtral.quern", ("--config", DATA / "mixtral" / "config.json")),
    "linear_attention": (EXAMPLES / "linear_attention.quern", ()),
    "deepseek": (ROOT / "tests" / "frontend" / "specs" / "deepseek_v3.quern", ("--config", DATA / "deepseek-v3" / "config.json")),
}
SHAPES = ((1000, 8, 1), (300, 300, 2), (16, 900, 1))  # prefill, decode, threads


PR_SET_THP_DISABLE = 41  # <linux/prctl.h>; what is started here inherits it


class Planned(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # The system may give a huge page where a few small ones are written, and then the rest of it counts as used, too.
        cls().assertEqual(ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0), 0)

    def plan(self, spec, options, function, threads, sizes):
        """What `quern dump` prints: bytes without scratch, scratch of all threads, and all its numbers."""
        dumped = run(QUERN, "dump", spec, *options, "--scratch", "--json", "--set-size", sizes).out
        statistics = json.loads(dumped)["passes"][0]["statistics"]
        (one,) = [f for f in statistics["functions"] if f["name"] == function]
        scratch = one["scratch_at"]["caller"] + (threads - 1) * one["scratch_at"]["worker"]
        return one["peak_at"], scratch, statistics

    def check(self, spec, options):
        program = self.compile(spec, *options)
        for read, write, threads in SHAPES:
            bench = json.loads(run(program, "bench", "-p", read, "-n", write, "--threads", threads, "--json").out)
            used, cap = bench["memory"], read + write
            plan, reading, statistics = self.plan(spec, options, "forward.last", bench["threads"], f"T={read},cap={cap}")
            names = [f["name"] for f in statistics["functions"]]  # of one token, by itself where absorbed projections make that another function
            step = next(name for name in ("forward.step", "forward.last.few", "forward.last") if name in names)
            _, writing, _ = self.plan(spec, options, step, bench["threads"], f"T=1,past={cap - 1},cap={cap}")
            self.assertEqual(used["planned_scratch_bytes"], max(reading, writing), (read, write))
            # Memory is counted in whole pages: half of one more or less for the arena and each state.
            rounding = PAGE * (1 + len(statistics["states"]))
            buffers = used["used_bytes"] - used["scratch_bytes"]
            self.assertLess(abs(buffers - plan), max(0.05 * plan, rounding), (read, write, used, plan))
            slack = 0.05 * used["planned_bytes"] + SCRATCH
            self.assertLess(used["used_bytes"] - used["planned_bytes"], slack, (read, write, used))
            if threads == 1:  # on a busy machine a thread that helps may never get a task, and never ask for scratch
                self.assertLess(used["planned_bytes"] - used["used_bytes"], slack, (read, write, used))


class Memory(Planned):
    def test_training(self):
        """Of the gradient alone: what generation remembers needs no room there. Memory comes in pages of up to 2 MiB, so it is large."""
        options = ("--config", DATA / "gpt2" / "config.json", "--train")
        program = self.compile(EXAMPLES / "gpt2.quern", *options)
        bench = json.loads(run(program, "bench", "--train", "--batch", 200, "-p", 40, "--json").out)
        plan, scratch, statistics = self.plan(EXAMPLES / "gpt2.quern", options, "loss.grad", bench["threads"], "B=200,T=40")
        (gradient,) = [f for f in statistics["functions"] if f["name"] == "loss.grad"]
        self.assertEqual(bench["limit_gflops"], max(bench["limit_before"], bench["limit_after"]))
        self.assertEqual(plan, gradient["arena_at"] + gradient["kept_at"])
        self.assertEqual(bench["planned_scratch_bytes"], scratch)
        self.assertEqual(bench["planned_bytes"], plan + scratch)
        self.assertLess(abs(bench["used_bytes"] - bench["planned_bytes"]), 0.05 * bench["planned_bytes"], (bench, gradient))

    def test_vocabulary(self):
        """A vocabulary whose weights and logits are most of it, read in chunks of tokens."""
        config = self.scratch / "wide.json"
        config.write_text(json.dumps({"n_embd": 48, "n_layer": 1, "n_head": 4, "vocab_size": 20000}))
        options = ("--config", config, "--train")
        program = self.compile(EXAMPLES / "gpt2.quern", *options)
        for tokens in (100, 1000):
            bench = json.loads(run(program, "bench", "--train", "--batch", 1, "-p", tokens, "--json").out)
            self.assertLess(abs(bench["used_bytes"] - bench["planned_bytes"]), 0.05 * bench["planned_bytes"], (tokens, bench))

    def test_mistakes(self):
        for options, words in ((("--scratch",), "--set-size"), (("--scratch", "--after", "fused", "--set-size", "T=8"), "--after planned")):
            refused = run(QUERN, "dump", EXAMPLES / "linear_attention.quern", *options, status=1)
            self.assertIn(words, refused.err)


class Bounds(Case):
    """What a kernel asks for follows from its operands, whatever indices and lengths come to: compiled as interpreted, and within a bound."""

    FAR = """quern 1
model far {
  dim D = 16, H = 2, K = 8, C = 8, U = 32
  forward(x: [B, T, D]) -> [B, T, D] {
    dim S = T
    param table: [U, D] @ "table"
    q, k, v = linear[D -> (H, K)](x) @ "q", linear[D -> (H, K)](x) @ "k", linear[D -> (H, C)](x) @ "v"
    far = linear[D -> (H, K)](table) @ "far"
    near = sum[K](q * far)[U = min(max(index(T) - index(S) + 16, 0), U - 1)]
    a = sum[S](softmax[S](sum[K](q * k[T -> S]) + near) * v[T -> S])
    return linear[(H, C) -> D](a) @ "o"
  }
}
"""
    SHARED = """quern 1
model shared {
  dim H = 4, N = 16
  forward(x: [B, T, H], b: [B, T, H, N], c: [B, T, H, N], dt: [B, T, H]) -> [B, T, H] {
    dim S = T
    total = cumsum[T](dt)
    fade = where(index(S) <= index(T), exp(total - total[T -> S]), 0)
    return sum[S, N](fade * (c * b[T -> S]) * x[T -> S])
  }
}
"""

    def check(self, text, shapes, weights, length, most):
        source = random.Random(3)
        spec, file = self.scratch / "spec.quern", self.scratch / "weights.safetensors"
        spec.write_text(text)
        write_safetensors(file, {name: random_tensor(source, shape) for name, shape in weights.items()})
        for target in ("native", LESSER_TARGET):
            dumped = run(QUERN, "dump", spec, "--target", target, "--scratch", "--json", "--set-size", f"B=1,T={length}").out
            (function,) = json.loads(dumped)["passes"][0]["statistics"]["functions"]
            self.assertLess(function["scratch_at"]["caller"] if "scratch_at" in function else 0, most, target)
            program = self.compile(spec, "--target", target, name=target)
            inputs = {name: random_tensor(source, [1, length, *shape], 0.5) for name, shape in shapes.items()}
            want, got = self.interpret(spec, file, inputs), self.evaluate(program, file, inputs)
            self.assertEqual(sorted(got), sorted(want))
            for name in want:
                self.assertLess(relative_error(got[name], want[name]), 1e-5, (target, name))

    def test_a_gather_by_two_times(self):
        names = {"table": [32, 16]} | {f"{name}.weight": [16, 16] for name in ("q", "k", "v", "far", "o")}
        self.check(self.FAR, {"x": [16]}, names, 33, 1 << 20)

    def test_dimensions_that_are_shared(self):
        self.check(self.SHARED, {"x": [4], "b": [4, 16], "c": [4, 16], "dt": [4]}, {}, 70, 2 * 4 * 70 * 70 * 4 * 16)


class MoreMemory(Planned):
    """`More`: in the tier `nightly`."""


for name, (spec, options) in SPECS.items():
    setattr(MoreMemory if name == "mistral" else Memory, f"test_{name}", lambda self, spec=spec, options=options: self.check(spec, options))

if __name__ == "__main__":
    unittest.main()
