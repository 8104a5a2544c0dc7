"""Inputs that are no text: features and pixels from files, in rows, beside prompts; what does not fit is said."""
import json
import pathlib
import random
import unittest

from tests.e2e.harness import DATA, Case, Tensor, ints, random_tensor, random_tokens, read_safetensors, relative_error, run, write_safetensors

FOLDER = DATA / "whisper"


class Inputs(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.expected = read_safetensors(FOLDER / "expected.safetensors")
        cls.features, cls.want = cls.expected["input_features"], cls.expected["generated"].rows()
        cls.program = cls.compile("whisper", "--config", FOLDER / "config.json")

    def given(self, **tensors):
        path = self.scratch / "given.safetensors"
        write_safetensors(path, tensors)
        return path

    def write(self, *words, status=0):
        return run(self.program, "generate", "--weights", FOLDER, "-n", 16, "--temp", 0, "--json", "--eos", "ignore", *words, status=status)

    def tokens(self, *words):
        return [json.loads(line)["tokens"] for line in self.write(*words).out.splitlines()]

    def row(self, row):
        one = self.features.row(row)
        return Tensor("F32", [1, *one.shape], one.data)

    def test_a_text_for_each_row(self):
        for name in ("input_features", "features"):
            self.assertEqual(self.tokens("--input", self.given(**{name: self.features})), self.want)
        self.assertEqual(self.tokens("--input", self.given(features=self.features), "--no-cache"), self.want)

    def test_prompts_begin_the_text(self):
        begin = [",".join(map(str, row[:5])) for row in self.want]
        both = self.given(features=self.features)
        got = self.tokens("--input", both, "--tokens", begin[0], "--tokens", begin[1], "-n", 11)
        self.assertEqual(got, [row[5:] for row in self.want])
        # One prompt for all rows; one row for all prompts.
        one = self.tokens("--input", both, "--tokens", begin[0], "-n", 11)
        self.assertEqual(one[0], self.want[0][5:])
        self.assertEqual(len(one), 2)
        first = self.given(features=self.row(0))
        self.assertEqual(self.tokens("--input", first, "--tokens", begin[0], "--tokens", begin[0], "-n", 11), [self.want[0][5:]] * 2)

    def test_beams_and_several_results(self):
        both = self.given(features=self.features)
        self.assertEqual(self.tokens("--input", both, "--beams", 1), self.want)
        got = self.tokens("--input", both, "--temp", 0.7, "--results", 2, "--seed", 3, "-n", 4)
        self.assertEqual(len(got), 4)
        alone = self.tokens("--input", self.given(features=self.row(1)), "--temp", 0.7, "--results", 2, "--seed", 3, "-n", 4)
        self.assertEqual(got[2:], alone)

    def test_refusals(self):
        def refused(*words, says):
            self.assert_refused(self.write(*words, status=1), *says)

        refused(says=("encode", "features", "--input"))
        refused("--tokens", "5,6", says=("encode", "features", "--input"))
        refused("--input", self.given(pixel_values=self.features), says=("pixel_values",))
        refused("--input", self.given(features=self.features, target=random_tokens(1, 2, 3, 9)), says=("target", "--tokens"))
        refused("--input", self.given(features=Tensor("F32", [20, 30], self.features.data)), says=("features", "[20, 30]"))
        refused("--input", self.given(features=Tensor("F32", [4, 5, 30], self.features.data)), says=("features",))
        refused("--input", self.given(features=self.features), *["--tokens", "5"] * 3, says=("3 prompts", "2 rows"))
        refused("--input", self.scratch / "nowhere", says=("nowhere",))

    def test_published_names(self):
        out = self.scratch / "out.safetensors"
        given = self.given(input_features=self.features, decoder_input_ids=self.expected["decoder_input_ids"])
        run(self.program, "eval", "--weights", FOLDER, "--input", given, "--output", out)
        self.assertLess(relative_error(read_safetensors(out)["logits"], self.expected["logits"]), 5e-5)

    def test_bench(self):
        got = json.loads(run(self.program, "bench", "-p", 8, "-n", 4, "--json").out)
        self.assertGreater(got["decode"]["tokens_per_s"], 0)
        program = self.compile("vit", "--config", DATA / "vit" / "config.json", name="vit")
        self.assertGreater(json.loads(run(program, "bench", "--json").out)["prefill"]["seconds"], 0)


class Pixels(Case):
    def test_text_about_pictures(self):
        spec, source = pathlib.Path(__file__).parent / "captions.quern", random.Random(7)
        shapes = {"words": [64, 32], "patches": [32, 3, 4, 4], **{f"{part}.weight": [32, 32] for part in "qkvo"}}
        weights = self.scratch / "weights.safetensors"
        write_safetensors(weights, {name: random_tensor(source, shape) for name, shape in shapes.items()})
        pixels, picture = random_tensor(source, [2, 3, 8, 8], 1), self.scratch / "pictures.safetensors"
        write_safetensors(picture, {"pixel_values": pixels})
        program = self.compile(spec)
        done = run(program, "generate", "--weights", weights, "--input", picture, "--start-token", 1, "-n", 12, "--temp", 0, "--json", "--eos", "ignore")
        texts = [json.loads(line)["tokens"] for line in done.out.splitlines()]
        self.assertEqual([len(text) for text in texts], [12, 12])
        self.assertNotEqual(*texts)
        # Each token is the likeliest behind those before it, by the interpreter.
        target = ints([[1, *text[:-1]] for text in texts])
        logits = self.interpret(spec, weights, {"pixels": pixels, "target": target})["logits"]
        for row, text in enumerate(texts):
            self.assertEqual([max(range(64), key=at.__getitem__) for at in logits.row(row).rows()], text)


if __name__ == "__main__":
    unittest.main()
