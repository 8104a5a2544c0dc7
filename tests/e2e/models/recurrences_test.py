"""Recurrences: compiled scans of many forms against the interpreter, in whole and in steps, whatever the number of threads; what they keep does not grow."""
import json
import pathlib
import random
import re
import unittest

from tests.e2e.harness import DATA, EXAMPLES, QUERN, Case, exactly, random_tensor, random_tokens, read_safetensors, relative_error, run, write_safetensors

SPEC = pathlib.Path(__file__).with_name("recurrences.quern")


class Scans(Case):
    """The program of recurrences.quern, with weights at random."""
    target = "native"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        dump = run(QUERN, "dump", SPEC, "--after", "resolved").out
        source, tensors = random.Random(5), {}
        for name, dims in re.findall(r'quern\.param \[\["([^"]+)"\]\].*?real\[([^\]]*)\]', dump):
            tensors[name] = random_tensor(source, [int(size) for size in re.findall(r"= (\d+)", dims)])
        cls.weights = cls.scratch / "weights.safetensors"
        write_safetensors(cls.weights, tensors)
        cls.program = cls.compile(SPEC, *exactly(cls.target))


class Recurrences(Scans):
    def test_compiled_as_interpreted(self):
        for seed, (rows, length) in enumerate([(1, 1), (2, 2), (1, 33), (3, 150)]):
            inputs = {"tokens": random_tokens(seed, rows, length, 40)}
            want = self.interpret(SPEC, self.weights, inputs)["logits"]
            self.assertLess(relative_error(self.evaluate(self.program, self.weights, inputs)["logits"], want), 5e-5, (rows, length))

    def test_from_the_end(self):
        program = self.compile(SPEC, "--set", "looks_ahead=true", *exactly(self.target), name="ahead")
        inputs = {"tokens": random_tokens(3, 2, 19, 40)}
        want = self.interpret(SPEC, self.weights, inputs, "--set", "looks_ahead=true")["logits"]
        self.assertLess(relative_error(self.evaluate(program, self.weights, inputs)["logits"], want), 5e-5)
        self.assert_refused(run(program, "generate", "--weights", self.weights, "--tokens", "1,2", "-n", 2, status=1), "from end", "recurrences.quern")

    def test_what_no_loop_is_made_of(self):
        """A limit, said at the line of the scan; not a fault of the compiler."""
        spec = self.scratch / "choice.quern"
        spec.write_text("""quern 1
model choice {
  dim D = 8
  forward(tokens: int[B, T]) -> [B, T] {
    param w: [D] @ "w"
    h: [B, D] = 0
    scan T {
      h = 0.5 * h + w * tokens
      y = argmax[D](h)
    }
    return y
  }
}
""")
        refused = self.compile(spec, status=1)
        self.assert_refused(refused, "choice.quern", ":7:5", "argmax", "within a recurrence")
        self.assertNotIn("fault of the compiler", refused.err)

    def test_states_larger_than_a_stack(self):
        spec = self.scratch / "large.quern"
        spec.write_text("""quern 1
model large {
  config { size = 1600 }
  dim N = size
  forward(tokens: int[B, T]) -> [B, T] {
    dim M = N
    param w: [N] @ "w"
    h: [B, N, M] = 0
    scan T {
      h = 0.5 * h + (tokens + mean[M](h)) * w * w
      y = mean[M](mean[N](h * w * w))
    }
    return y
  }
}
""")
        weights = self.scratch / "large.safetensors"
        write_safetensors(weights, {"w": random_tensor(random.Random(1), [1600])})
        inputs = {"tokens": random_tokens(1, 2, 3, 40)}
        want = self.interpret(spec, weights, inputs)["logits"]
        self.assertLess(relative_error(self.evaluate(self.compile(spec, name="large"), weights, inputs)["logits"], want), 5e-5)

    def test_threads_change_nothing(self):
        inputs = {"tokens": random_tokens(4, 2, 200, 40)}
        one, two = (self.evaluate(self.program, self.weights, inputs, "--threads", n)["logits"] for n in (1, 2))
        self.assertEqual(list(one.data), list(two.data))

    def test_steps_as_the_whole(self):
        prompt = list(random_tokens(6, 1, 40, 40).data)
        cached = self.generate(self.program, self.weights, prompt, 24)
        self.assertEqual(cached, self.generate(self.program, self.weights, prompt, 24, "--no-cache"))

    def test_what_is_kept_does_not_grow(self):
        for spec, folder in (("mamba", "mamba"), ("recurrent_gemma", "recurrent-gemma")):
            dump = run(QUERN, "dump", EXAMPLES / f"{spec}.quern", "--config", DATA / folder / "config.json", "--after", "incremental").out
            states = re.findall(r'quern\.state @\S+ of "forward" : (.*)', dump)
            self.assertTrue(states)
            for state in states:  # a ring of a few rows, or no rows at all
                self.assertNotRegex(state, r'\bcap\b(?! = "room\(\d+\)")', spec)

    def test_what_is_in_memory_does_not_grow(self):
        program = self.compile("mamba", "--config", DATA / "mamba" / "config.json", name="mamba")
        kept = [json.loads(run(program, "bench", "-p", length, "-n", 2, "--chunk", 64, "--json").out)["memory"]["kept_bytes"] for length in (64, 4096)]
        self.assertEqual(*kept)


class Chunks(Case):
    """Golden models whose memories and delta rules run by chunks of 16 positions, where there are 32 or more, as an edited dump says."""

    def check(self, spec, folder):
        config, weights = DATA / folder / "config.json", DATA / folder / "model.safetensors"
        dump = run(QUERN, "dump", EXAMPLES / f"{spec}.quern", "--config", config, "--after", "scheduled").out
        self.assertIn('"scan: scan(chunk = 0)"', dump)
        edited = self.scratch / f"{folder}.mlir"
        edited.write_text(dump.replace("chunk = 0", "chunk = 16"))
        program = self.compile(edited, name=folder)
        expected = read_safetensors(DATA / folder / "expected.safetensors")
        logits = self.evaluate(program, weights, {"tokens": expected["input_ids"]})["logits"]
        self.assertLess(relative_error(logits, expected["logits"]), 5e-5)
        for row, want in zip(expected["input_ids"].rows(), expected["generated"].rows()):
            self.assertEqual(self.generate(program, weights, row[:5], len(want)), want)
        for seed, (rows, length) in enumerate([(1, 32), (2, 53), (3, 101)]):
            inputs = {"tokens": random_tokens(seed, rows, length, 48)}
            want = self.interpret(spec, weights, inputs, "--config", config)["logits"]
            one, two = (self.evaluate(program, weights, inputs, "--threads", n)["logits"] for n in (1, 2))
            self.assertLess(relative_error(one, want), 5e-5, (rows, length))
            self.assertEqual(list(one.data), list(two.data))
        # Rows of different lengths together: a row's text begins in the middle of a chunk.
        prompts = [",".join(map(str, random_tokens(seed, 1, length, 48).data)) for seed, length in ((4, 70), (5, 33), (6, 5))]
        options = ("--weights", weights, "-n", 12, "--json", "--context", 128)
        together = run(program, "generate", *options, *[word for prompt in prompts for word in ("--tokens", prompt)])
        for prompt, line in zip(prompts, together.out.splitlines(), strict=True):
            for more in ((), ("--no-cache",)):
                self.assertEqual(json.loads(line)["tokens"], json.loads(run(program, "generate", *options, "--tokens", prompt, *more).out)["tokens"])

    def test_mamba2(self):
        self.check("mamba2", "mamba2")

    def test_qwen3_next(self):
        self.check("qwen3_next", "qwen3-next")


if __name__ == "__main__":
    unittest.main()
