"""`quern doctor`: good specs pass every check; each kind of mistake, planted in a spec that is otherwise right, is found at its line."""
import json
import unittest

from tests.e2e.harness import DATA, EXAMPLES, QUERN, Case, Tensor, read_safetensors, run, write_safetensors

# A small decoder, right as it is.
TEXT = """quern 1
model small {
  config { words = 12, width = 16, heads = 2, blocks = 1 }
  dim V = words, D = width, H = heads, K = D / H

  forward(tokens: int[B, T]) -> [B, T, V] {
    dim S = T
    x = embedding[V -> D](tokens, 0.5) @ "embed" + sinusoid[D](index(T))
    repeat i in blocks @ "block.{i}" {
      h = layer_norm[D](x) @ "norm"
      q, k, v = linear[D -> (H, K)](h, init: 0.2) @ "q", linear[D -> (H, K)](h, init: 0.2) @ "k", linear[D -> (H, K)](h, init: 0.2) @ "v"
      score = sum[K](q * k[T -> S]) / sqrt(K)
      weight = softmax[S](where(index(S) <= index(T), score, -inf))
      a = sum[S](weight * v[T -> S])
      x = x + linear[(H, K) -> D](a, init: 0.2) @ "o"
      x = x + affine[D -> D](relu(affine[D -> D](x, 0.2) @ "in"), 0.2) @ "out"
    }
    return linear[D -> V](layer_norm[D](x) @ "last", init: 0.1) @ "head"
  }
}
"""
SEES_PADDING = """quern 1
model tagger {
  config { words = 12, width = 8 }
  dim V = words, D = width
  forward(tokens: int[B, T], mask: bool[B, T] = true) -> [B, T, V] {
    dim S = T
    x = embedding[V -> D](tokens, 0.5) @ "embed" + sinusoid[D](index(T))
    score = sum[D](x * x[T -> S])
    whole = sum[S](softmax[S](score) * x[T -> S])
    return linear[D -> V](x + where(mask, whole, 0)) @ "head"
  }
  loss(tokens: int[B, T], labels: int[B, T], mask: bool[B, T] = true) -> [] { return cross_entropy[V](forward(tokens, mask), labels) }
}
"""


class Doctor(Case):
    def doctor(self, text, *options, status=1):
        path = self.write_spec("small", text)
        return run(QUERN, "doctor", path, *options, status=status)

    def planted(self, old, new, check, *words, options=()):
        """TEXT with a mistake: `check` says WRONG at the line of the mistake."""
        self.assertIn(old, TEXT)
        text = TEXT.replace(old, new)
        finished = self.doctor(text, *options)
        wrong = [part for part in finished.out.split("\nWRONG ") if part.lstrip("WRONG ").startswith(check)]
        self.assertTrue(wrong, str(finished))
        for word in words:
            self.assertTrue(any(word in part for part in wrong), f"{word!r} is not said\n{finished}")
        if new:
            line = next(i for i, row in enumerate(text.splitlines(), 1) if new.splitlines()[0] in row)
            return line, "".join(wrong), finished
        return None, "".join(wrong), finished

    def test_good_spec(self):
        finished = self.doctor(TEXT, status=0)
        self.assertNotIn("WRONG", finished.out)
        for check in ("spec", "shapes", "finite", "attention rows", "masking", "first loss", "gradients", "reached", "overfits"):
            self.assertRegex(finished.out, rf"(?m)^ok +{check} ")
        self.assertRegex(finished.out, r"weight: real \[B = 2, T = 8, H = 2, S = 8\] +line 13")

    def test_good_examples(self):
        for spec, folder in (("gpt2", "gpt2"), ("bert", "bert"), ("bart", "m2m100"), ("mixtral", "mixtral")):
            with self.subTest(spec):
                finished = run(QUERN, "doctor", EXAMPLES / f"{spec}.quern", "--config", DATA / folder / "config.json")
                self.assertNotIn("WRONG", finished.out)
        for name in ("two_blocks", "encoder", "decoder"):
            run(QUERN, "doctor", EXAMPLES / "manual" / f"{name}.quern")
        for name in ("one_head", "feed_forward"):
            run(QUERN, "doctor", EXAMPLES / "manual" / f"{name}.quern", "--input", EXAMPLES / "manual" / "ab_to_c.json")

    def test_pages_for_paper(self):
        """Too small for the made-up batch: that is reported, and is no fault."""
        for name in ("article", "attention", "feed_forward", "one_head", "variants"):
            finished = run(QUERN, "doctor", EXAMPLES / "manual" / f"{name}.quern")
            self.assertNotIn("WRONG", finished.out)
            self.assertRegex(finished.out, r"(?m)^- +overfits +not known: \d+ parameters are few for 16 labels")

    def test_wrong_spec(self):
        finished = self.doctor(TEXT.replace("(H, K) -> D](a", "(H, V) -> D](a"))
        self.assertIn("small.quern:15", finished.err)

    def test_sees_later_words(self):
        line, wrong, _ = self.planted("softmax[S](where(index(S) <= index(T), score, -inf))", "softmax[S](score)", "masking", "sees the text from position", "fix: ")
        self.assertIn(f"small.quern:{line}:", wrong)

    def test_mask_reversed(self):
        line, wrong, _ = self.planted("index(S) <= index(T)", "index(S) >= index(T)", "masking")
        self.assertIn(f"small.quern:{line}:", wrong)

    def test_row_that_sees_nothing(self):
        line, wrong, _ = self.planted("index(S) <= index(T)", "index(S) < index(T)", "attention rows", "see nothing", "index(S) <= index(T), not <")
        self.assertIn(f"small.quern:{line}:", wrong)

    def test_softmax_over_queries(self):
        self.planted("weight = softmax[S]", "weight = softmax[T]", "attention rows", "not 1", "write softmax[S]")

    def test_masked_after_the_softmax(self):
        self.planted("softmax[S](where(index(S) <= index(T), score, -inf))", "where(index(S) <= index(T), softmax[S](score), 0)", "attention rows", "not 1",
                     "mask the scores with -inf before the softmax")

    def test_not_a_number(self):
        line, wrong, finished = self.planted("h = layer_norm[D](x) @ \"norm\"", "h = layer_norm[D](x) @ \"norm\" + log(x) * 0", "finite", "NaN")
        self.assertIn(f"small.quern:{line}:", wrong)
        self.assertIn("'log'", wrong)

    def test_wild_beginning(self):
        self.planted("init: 0.1) @ \"head\"", "init: 40) @ \"head\"", "first loss", "even guess", "'head.weight' ~ normal(40)")

    def test_parameter_without_gradient(self):
        line, wrong, _ = self.planted("    return linear[D", "    param gate: [D] @ \"gate\"\n    x = x * where(gate > 100, 0, 1)\n    return linear[D", "reached", "'gate' never gets a gradient")
        self.assertIn(f"small.quern:{line}:", wrong)

    def test_gradient_that_is_no_slope(self):
        # Rounding passes no gradient, but the loss moves with what is rounded this finely.
        self.planted("    return linear[D", "    x = x + round(x * 1000000000) / 1000000000\n    return linear[D", "gradients", "is not the slope of the loss", "round")

    def test_cannot_learn_by_heart(self):
        self.planted("linear[D -> V](layer_norm[D](x) @ \"last\", init: 0.1)", "0.001 * linear[D -> V](layer_norm[D](x) @ \"last\", init: 0.1)", "overfits", "cannot be memorised")

    def test_padding(self):
        finished = self.doctor(SEES_PADDING)
        self.assertRegex(finished.out, r"WRONG +padding +\S*small.quern:\d+:\d+: wrong: @forward takes `mask`")
        fixed = SEES_PADDING.replace("softmax[S](score)", "softmax[S](where(mask[T -> S], score, -inf))")
        self.assertIn("what `mask` hides changes nothing else", self.doctor(fixed, status=None).out)

    def test_no_loss(self):
        finished = run(QUERN, "doctor", EXAMPLES / "manual" / "attention.quern", status=None)
        self.assertIn("attention rows", finished.out)

    def test_weights(self):
        config, weights = DATA / "gpt2" / "config.json", DATA / "gpt2" / "model.safetensors"
        words = ("doctor", EXAMPLES / "gpt2.quern", "--config", config)
        self.assertNotIn("WRONG", run(QUERN, *words, "--weights", weights).out)
        tensors = read_safetensors(weights)
        name = next(n for n in tensors if n.endswith("ln_1.weight"))
        for broken, word in ((Tensor("F32", [3], [1.0] * 3), "of this shape"), (Tensor("F32", tensors[name].shape, [float("nan")] * len(tensors[name].data)), "NaN")):
            write_safetensors(self.scratch / "broken.safetensors", {**tensors, name: broken})
            finished = run(QUERN, *words, "--weights", self.scratch / "broken.safetensors", status=1)
            self.assertRegex(finished.out, r"(?m)^WRONG +weights")
            self.assertIn(word, finished.out)
            self.assertIn(name, finished.out)

    def test_quiet(self):
        self.assertEqual(self.doctor(TEXT, "--quiet", status=0).out, "")

    def test_refusals(self):
        self.assert_refused(run(QUERN, "doctor", EXAMPLES / "gpt2.quern", status=1), "too many for the interpreter", "--set")
        self.assert_refused(self.doctor(TEXT, "--length", 1), "--length")
        (self.scratch / "in.json").write_text(json.dumps({"words": [[1]]}))
        self.assert_refused(self.doctor(TEXT, "--input", self.scratch / "in.json"), "no function takes an input 'words'")


class Tensors(Case):
    """`quern tensors` and numbers written by hand."""

    def test_there_and_back(self):
        text, packed = self.scratch / "a.json", self.scratch / "a.safetensors"
        text.write_text('{"real": [[1.5, 2], [-3, "inf"]], "whole": [1, 2, 3], "truth": [true, false], "one": 4.5}')
        run(QUERN, "tensors", text, "-o", packed)
        tensors = read_safetensors(packed)
        self.assertEqual({n: (t.dtype, t.shape) for n, t in tensors.items()},
                         {"real": ("F32", [2, 2]), "whole": ("I64", [3]), "truth": ("BOOL", [2]), "one": ("F32", [])})
        self.assertEqual(list(tensors["real"].data), [1.5, 2, -3, float("inf")])
        shown = run(QUERN, "tensors", packed).out
        self.assertIn("real: F32 [2, 2]\n    1.5    2\n     -3  inf\n", shown)
        self.assertEqual(run(QUERN, "tensors", packed, "--shapes", "--only", "w*").out, "whole: I64 [3]\n")

    def test_bad_numbers(self):
        for text, word in (('{"a": [[1, 2], [3]]}', "rows of 2 and of 1"), ('{"a": [1, [2]]}', "different depths"), ('{"a": ["x"]}', "no number"),
                           ('{"a": [true, 2]}', "mixes truth and numbers"), ("[1]", "JSON object"), ("{", "line 1, column 2")):
            path = self.scratch / "bad.json"
            path.write_text(text)
            self.assert_refused(run(QUERN, "tensors", path, status=1), word, "bad.json")
        self.assert_refused(run(QUERN, "tensors", status=1), "no file")
        good = self.scratch / "good.json"
        good.write_text('{"a": [1.0]}')
        self.assert_refused(run(QUERN, "tensors", good, "--only", "b", status=1), "no tensor")
        self.assert_refused(run(QUERN, "tensors", good, good, "-o", self.scratch / "x", status=1), "two of the files")

    def test_interpret_needs_somewhere_to_go(self):
        page = EXAMPLES / "manual" / "attention.quern"
        self.assert_refused(run(QUERN, "interpret", page, status=1), "--output", "--print")
        self.assert_refused(run(QUERN, "interpret", page, "--values", "--output", "x", status=1), "--values belongs to --print")


if __name__ == "__main__":
    unittest.main()
