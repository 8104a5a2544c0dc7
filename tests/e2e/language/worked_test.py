"""The worked examples of examples/manual as its README runs them: each number that they print beside plain Python (by_hand.py)."""
import json
import math
import re
import unittest

from tests.e2e.language import by_hand
from tests.e2e.harness import BUILD, EXAMPLES, QUERN, Case, read_safetensors, run

MANUAL = EXAMPLES / "manual"


def numbers(name):
    return json.loads((MANUAL / name).read_text())


def flat(value):
    return [x for v in value for x in flat(v)] if isinstance(value, list) else [value]


def printed(text):
    """Tensors of `--print` and `quern tensors` by name: the flat numbers."""
    found, name = {}, None
    for line in text.splitlines():
        heading = re.match(r"(\S+): (?:\w+) \[(.*)\]$", line)
        if heading:
            name = heading[1]
            found[name] = []
        elif name and re.match(r"    ", line):
            found[name] += [float(word) for word in line.split()]
    return found


class Worked(Case):
    def near(self, got, want, tolerance, what=""):
        got, want = flat(got), flat(want)
        self.assertEqual(len(got), len(want), what)
        for x, y in zip(got, want):
            self.assertLess(abs(x - y), tolerance * max(1.0, abs(y)), f"{what}: {x} is not {y}")

    def show(self, name, weights, inputs, *options):
        """What `quern interpret --print` shows."""
        return printed(run(QUERN, "interpret", MANUAL / f"{name}.quern", "--weights", MANUAL / weights, "--input", MANUAL / inputs, "--print", *options).out)

    def packed(self, name):
        """A JSON file of numbers as safetensors, for programs."""
        out = self.scratch / name.replace(".json", ".safetensors")
        run(QUERN, "tensors", MANUAL / name, "-o", out)
        return out

    def losses(self, folder):
        lines = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
        return [line["loss"] for line in lines if "loss" in line]


class OneHead(Worked):
    """Examples 1 to 4: one spec, one head."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.program = cls.compile(MANUAL / "one_head.quern", "--train", name="one_head")
        cls.p, cls.ab, cls.patterns = numbers("one_head.json"), numbers("ab_to_c.json"), numbers("patterns.json")

    def test_forward(self):
        shown = self.show("one_head", "one_head.json", "ab.json", "--function", "probabilities", "--values")
        x = [self.p["E"][w] for w in (0, 1)]
        q, k = by_hand.times(x, self.p["W_Q"]), by_hand.times(x, self.p["W_K"])
        v, weight = by_hand.times(x, self.p["W_V"]), by_hand.weights(q, k)
        for name, want in {"x": x, "q": q, "k": k, "v": v, "weight": weight, "context": by_hand.times(weight, v),
                           "probabilities": [by_hand.softmax(s) for s in by_hand.one_head(self.p, [0, 1])]}.items():
            self.near(shown[name], want, 1e-8, name)

    def train(self, data, *options):
        folder = self.scratch / "run"
        run("rm", "-rf", folder)
        run(self.program, "train", "--data", self.packed(data), "--weights", self.packed("one_head.json"), "--output", folder, "--optimizer", "sgd",
            "--schedule", "constant", "--clip", 0, "--valid-split", 0, "--sample-every", 0, "--quiet", *options)
        return folder

    def trained(self, folder, step):
        tensors = read_safetensors(folder / f"checkpoint-{step}" / "model.safetensors")
        return {name: tensor.rows() for name, tensor in tensors.items()}

    def test_one_step_of_the_last_matrix(self):
        after = self.trained(self.train("ab_to_c.json", "--steps", 1, "--batch", 1, "--rate", 0.5, "--train-only", "W_O"), 1)
        gradient = by_hand.one_head_gradient(self.p, self.ab["tokens"], self.ab["labels"])
        want = by_hand.stepped(self.p, {"W_O": gradient["W_O"]}, 0.5)
        for name in self.p:
            self.near(after[name], want[name], 1e-6, name)
        before = by_hand.loss(by_hand.one_head, self.p, self.ab["tokens"], self.ab["labels"])
        self.assertLess(by_hand.loss(by_hand.one_head, want, self.ab["tokens"], self.ab["labels"]), before)

    def test_full_backward(self):
        want = by_hand.one_head_gradient(self.p, self.ab["tokens"], self.ab["labels"])
        by_slope = by_hand.slopes(lambda p: by_hand.loss(by_hand.one_head, p, self.ab["tokens"], self.ab["labels"]), self.p, list(want))
        shown = self.show("one_head", "one_head.json", "ab_to_c.json", "--train")
        out = self.scratch / "gradient.safetensors"
        run(self.program, "grad", "--weights", self.packed("one_head.json"), "--input", self.packed("ab_to_c.json"), "--output", out)
        compiled = printed(run(QUERN, "tensors", out).out)
        for name, gradient in want.items():
            self.near(by_slope[name], gradient, 1e-9, "the nine steps, " + name)
            self.near(shown["grad." + name], gradient, 1e-8, "interpreted " + name)
            self.near(compiled["grad." + name], gradient, 1e-6, "compiled " + name)
        self.near(shown["loss"], [by_hand.loss(by_hand.one_head, self.p, self.ab["tokens"], self.ab["labels"])], 1e-8)

    def test_three_patterns(self):
        steps, rate = 300, 1.0
        folder = self.train("patterns.json", "--steps", steps, "--batch", 3, "--rate", rate, "--train-only", "W_*")
        got, p, tokens, labels = self.losses(folder), self.p, self.patterns["tokens"], self.patterns["labels"]
        self.assertEqual(len(got), steps)
        for step in range(100):  # rounding to 32 bits grows with the steps
            self.near([got[step]], [by_hand.loss(by_hand.one_head, p, tokens, labels)], 2e-5, f"step {step}")
            p = by_hand.stepped(p, by_hand.one_head_gradient(p, tokens, labels), rate)
        self.assertLess(got[-1], 0.05)
        learnt = self.trained(folder, steps)
        for words, row in zip(tokens, labels):
            chances = by_hand.softmax(by_hand.one_head(learnt, words)[-1])
            self.assertEqual(chances.index(max(chances)), row[-1], words)


class Deeper(Worked):
    """Examples 5 and 6."""

    def compare(self, name, model, *options):
        p, data = numbers(f"{name}.json"), numbers("patterns.json")
        shown = self.show(name, f"{name}.json", "patterns.json", "--train", *options)
        value = lambda q: by_hand.loss(model, q, data["tokens"], data["labels"])
        self.near(shown["loss"], [value(p)], 1e-8)
        want = by_hand.slopes(value, p)
        for name in want:
            self.near(shown["grad." + name], want[name], 1e-8, name)

    def test_feed_forward(self):
        self.compare("feed_forward", by_hand.feed_forward)
        self.compare("feed_forward", lambda p, words: by_hand.feed_forward(p, words, False), "--set", "residual=false")

    def test_two_blocks(self):
        self.compare("two_blocks", by_hand.two_blocks)

    def test_two_blocks_end_to_end(self):
        program = self.compile(MANUAL / "two_blocks.quern", "--train", name="two_blocks")
        folder = self.scratch / "two_blocks_run"
        run(program, "train", "--data", self.packed("patterns.json"), "--weights", self.packed("two_blocks.json"), "--output", folder, "--optimizer", "adam",
            "--rate", 0.02, "--schedule", "constant", "--batch", 3, "--steps", 200, "--valid-split", 0, "--sample-every", 0, "--quiet")
        data = numbers("patterns.json")
        losses = self.losses(folder)
        self.near([losses[0]], [by_hand.loss(by_hand.two_blocks, numbers("two_blocks.json"), data["tokens"], data["labels"])], 1e-6)
        self.assertLess(losses[-1], 0.02)
        learnt = {}
        for name, tensor in read_safetensors(folder / "checkpoint-200" / "model.safetensors").items():
            learnt[name] = tensor.rows() if len(tensor.shape) == 2 else list(tensor.data)
        for words, row in zip(data["tokens"], data["labels"]):
            chances = by_hand.softmax(by_hand.two_blocks(learnt, words)[-1])
            self.assertGreater(chances[row[-1]], 0.95, words)


class Variants(Worked):
    """Heads, local, blockwise, relative, linear, experts."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.program = cls.compile(MANUAL / "variants.quern", name="variants")
        cls.p = numbers("variants.json")
        cls.words = numbers("six_words.json")["tokens"][0]
        cls.x = [cls.p["X"][w] for w in cls.words]
        cls.q, cls.k, cls.v = (by_hand.times(cls.x, cls.p[name]) for name in ("W_Q", "W_K", "W_V"))

    def check(self, function, want):
        options = ("--function", function)
        shown = self.show("variants", "variants.json", "six_words.json", "--values", *options)
        self.near(shown[function], want, 1e-8, function)
        out = self.scratch / "out.safetensors"
        run(self.program, "eval", "--weights", self.packed("variants.json"), "--input", self.packed("six_words.json"), "--output", out, *options)
        self.near(printed(run(QUERN, "tensors", out).out)[function], want, 1e-6, "compiled " + function)
        return shown

    def test_two_heads(self):
        halves = [[row[2 * h:2 * h + 2] for row in self.x] for h in (0, 1)]
        parts = [by_hand.times(by_hand.weights(half, half), half) for half in halves]
        self.check("two_heads", [a + b for a, b in zip(*parts)])

    def test_local(self):
        weight = by_hand.weights(self.q, self.k, lambda t, s: t - 2 < s <= t)
        self.near(self.check("local", by_hand.times(weight, self.v))["weight"], weight, 1e-8)

    def test_blockwise(self):
        weight = by_hand.weights(self.q, self.k, lambda t, s: s <= t and (s // 3 == t // 3 or s % 3 == 2))
        self.near(self.check("blockwise", by_hand.times(weight, self.v))["weight"], weight, 1e-8)

    def test_relative(self):
        weight = by_hand.weights(self.q, self.k, bias=lambda t, s: self.p["relative"][max(min(s - t, 2), -2) + 2])
        self.near(self.check("relative", by_hand.times(weight, self.v))["weight"], weight, 1e-8)

    def test_linear(self):
        positive = lambda a: [[x + 1 if x > 0 else math.exp(x) for x in row] for row in a]
        rows = []
        for t, query in enumerate(positive(self.q)):  # the quadratic form of the same: weights first
            raw = [sum(a * b for a, b in zip(query, key)) for key in positive(self.k)[:t + 1]]
            rows.append([sum(w / sum(raw) * value[j] for w, value in zip(raw, self.v)) for j in range(2)])
        self.check("linear_time", rows)

    def test_mixture(self):
        rows = []
        for x in self.x:
            gates = by_hand.softmax(by_hand.times([x], self.p["W_G"])[0])
            best = sorted(range(3), key=lambda e: -gates[e])[:2]
            share = sum(gates[e] for e in best)
            outs = {e: by_hand.times([x], self.p[f"expert.{e}"])[0] for e in best}
            rows.append([sum(gates[e] / share * outs[e][j] for e in best) for j in range(2)])
        self.check("mixture", rows)


class Learning(Worked):
    """Specs that are trained on toy data: the encoder beside the decoder, the mini Transformer, a translation."""

    def data(self, task):
        text = self.scratch / f"{task}.json"
        run("/usr/bin/env", "python3", MANUAL / "data.py", task, text)
        out = self.scratch / f"{task}.safetensors"
        run(QUERN, "tensors", text, "-o", out)
        return out, json.loads(text.read_text())

    def test_encoder_sees_what_the_decoder_must_not(self):
        data, rows = self.data("reversal")
        last = {}
        for name in ("encoder", "decoder"):
            program = self.compile(MANUAL / f"{name}.quern", "--train", name=name)
            run(program, "train", "--data", data, "--output", self.scratch / f"{name}_run", "--batch", 64, "--steps", 250, "--rate", 5e-3, "--valid-split", 0,
                "--decay", 0, "--sample-every", 0, "--quiet")
            last[name] = self.losses(self.scratch / f"{name}_run")[-1]
        # Half of a reversed text is ahead: there a decoder can but guess, at log 10 each.
        self.assertLess(last["encoder"], 0.1)
        self.assertGreater(last["decoder"], 0.5 * math.log(10) * 0.9)

    def test_mini_transformer(self):
        data, _ = self.data("random")
        program = self.compile(MANUAL / "mini_transformer.quern", "--train", name="mini")
        run(program, "train", "--data", data, "--output", self.scratch / "mini_run", "--optimizer", "adam", "--rate", 3e-4, "--schedule", "constant",
            "--beta2", 0.999, "--clip", 0, "--steps", 20, "--valid-split", 0, "--sample-every", 0, "--quiet")
        losses = self.losses(self.scratch / "mini_run")
        self.assertEqual(len(losses), 20)
        for value in losses:  # labels at random: nothing to learn, so it stays near an even guess
            self.assertLess(abs(value - math.log(5000)), 0.2)

    def test_translation(self):
        folder = self.scratch / "translation"
        run("/usr/bin/env", "python3", MANUAL / "data.py", "translation", folder)
        data = folder / "train.safetensors"
        run(QUERN, "tensors", folder / "train.json", "-o", data)
        program = self.compile("translate", "--train", "--config", folder / "config.json", name="translate")
        run(program, "train", "--data", data, "--output", folder / "run", "--batch", 27, "--steps", 300, "--rate", 2e-3, "--valid-split", 0, "--decay", 0,
            "--sample-every", 0, "--tokenizer", folder / "tokenizer.json", "--quiet")
        wrong = []
        for line in (folder / "held_out.txt").read_text(encoding="utf-8").splitlines():
            english, french = line.split("\t")
            said = run(program, "generate", "--weights", folder / "run" / "checkpoint-300", "-p", english, "-n", 12, "--json").out
            answer = json.loads(said)
            # It ends by itself: fewer tokens than asked for, the last the end of the sentence.
            self.assertLess(len(answer["tokens"]), 12, said)
            if " ".join(answer["text"].split()) != french:
                wrong.append((english, french, answer["text"]))
        self.assertLessEqual(len(wrong), 1, wrong)


if __name__ == "__main__":
    unittest.main()
