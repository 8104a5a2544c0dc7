"""The golden models: compiled programs and the interpreter against PyTorch's numbers, generation against its continuations.

One class a fixture (`python3 models_test.py gpt2`). What is compared, and how near it has to be, is in tests/data/README.md."""
import json
import random
import unittest

from harness import DATA, Case, Tensor, ints, random_tensor, random_tokens, read_safetensors, relative_error, write_safetensors

SPECS = {
    "gpt2": "gpt2", "llama": "llama", "llama3-rope-scaling": "llama", "qwen2": "qwen2", "mistral": "mistral", "phi3": "phi3",
    "phi3-longrope": "phi3", "bloom": "bloom", "opt": "opt", "opt-postln-proj": "opt", "bert": "bert", "distilbert": "distilbert",
    "t5": "t5", "m2m100": "m2m100", "mixtral": "mixtral", "gemma": "gemma", "gemma3-text": "gemma3", "gptj": "gptj",
    "gpt-bigcode": "gpt_bigcode", "cohere": "cohere", "stablelm": "stablelm", "smollm3": "smollm3", "starcoder2": "starcoder2", "mpt": "mpt",
    "gpt-neox": "gpt_neox", "mamba": "mamba", "qwen3-next": "qwen3_next", "recurrent-gemma": "recurrent_gemma",
    "vit": "vit", "whisper": "whisper",
}
INPUTS = {"tokens": "input_ids", "mask": "attention_mask", "segments": "token_type_ids", "target": "decoder_input_ids", "features": "input_features", "pixels": "pixel_values"}
ENCODERS, PAIRS, IMAGES, SPEECH = ("bert", "distilbert"), ("t5", "m2m100"), ("vit",), ("whisper",)
COMPILED = 5e-5
CODES = 1e-5  # of programs whose weights are codes, from the interpreter with the same codes


class Model(Case):
    fixture = None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder, cls.spec = DATA / cls.fixture, SPECS[cls.fixture]
        cls.config, cls.weights = cls.folder / "config.json", cls.folder / "model.safetensors"
        cls.expected = read_safetensors(cls.folder / "expected.safetensors")
        cls.inputs = {name: cls.expected[there] for name, there in INPUTS.items() if there in cls.expected}
        cls.keep = list(cls.inputs["mask"].data) if cls.fixture in ENCODERS else None
        cls.program = cls.compile(cls.spec, "--config", cls.config)

    def test_logits(self):
        got = self.evaluate(self.program, self.weights, self.inputs)["logits"]
        self.assertLess(relative_error(got, self.expected["logits"], self.keep), COMPILED)

    def test_logits_with_the_older_config(self):
        program = self.compile(self.spec, "--config", self.folder / "config.v4.json", name="older")
        got = self.evaluate(program, self.weights, self.inputs)["logits"]
        self.assertLess(relative_error(got, self.expected["logits"], self.keep), COMPILED)

    def test_interpreter(self):
        for name in ("config.json", "config.v4.json"):
            got = self.interpret(self.spec, self.weights, self.inputs, "--config", self.folder / name)["logits"]
            limit = 1e-7 if self.fixture == "bloom" else 1e-9
            self.assertLess(relative_error(got, self.expected["logits_f64"], self.keep), limit, name)

    def test_weights_in_codes(self):
        """The program computes what the interpreter does with the same codes; how far that is from PyTorch's numbers is bounded."""
        for kind, most in {"int8": 2e-1, "int4": 1.5}.items():
            options = ("--config", self.config, "--quantize", kind)
            program = self.compile(self.spec, *options, name=kind)
            got = self.evaluate(program, self.weights, self.inputs)["logits"]
            want = self.interpret(self.spec, self.weights, self.inputs, *options, "--after", "narrow-storage")["logits"]
            self.assertLess(relative_error(got, want, self.keep), CODES, kind)
            apart = relative_error(want, self.expected["logits"], self.keep)
            self.assertLess(apart, most, kind)
            self.assertGreater(apart, 1e-4, kind)  # else nothing was rounded

    def test_other_batches_and_lengths(self):
        """The same program takes any batch and length; the interpreter says what it should give."""
        vocabulary = self.expected["logits"].shape[-1]
        for seed, (rows, length) in enumerate([(1, 1), (3, 29)]):
            inputs = {name: random_tensor(random.Random(seed), [rows, *self.expected[there].shape[1:]])
                      for name, there in INPUTS.items() if name in ("features", "pixels") and there in self.expected}
            if not inputs:
                inputs["tokens"] = random_tokens(seed, rows, length, vocabulary)
            if self.fixture in PAIRS + SPEECH:
                inputs["target"] = random_tokens(seed + 9, rows, length // 2 + 1, vocabulary)
            if self.fixture in ENCODERS and rows > 1:
                real = [length, length - 4, 2]
                inputs["mask"] = ints([[int(t < n) for t in range(length)] for n in real])
            keep = list(inputs["mask"].data) if "mask" in inputs else None
            want = self.interpret(self.spec, self.weights, inputs, "--config", self.config)["logits"]
            got = self.evaluate(self.program, self.weights, inputs)["logits"]
            self.assertLess(relative_error(got, want, keep), COMPILED, f"batch {rows}, length {length}")


class Generator(Model):
    """Adds to a model that writes: greedy continuations, token for token."""

    def prompts(self):
        """Decoders: five tokens. Encoder-decoders: the row without its padding, which means the same as the mask. Speech: none, and its row of features."""
        if self.fixture in SPEECH:
            return [None] * len(self.expected["generated"].rows())
        tokens = self.expected["input_ids"].rows()
        if self.fixture not in PAIRS:
            return [row[:5] for row in tokens]
        masks = self.expected["attention_mask"].rows()
        return [[t for t, real in zip(row, mask) if real] for row, mask in zip(tokens, masks)]

    def check_generation(self, *options):
        for row, (prompt, want) in enumerate(zip(self.prompts(), self.expected["generated"].rows())):
            given = ()
            if prompt is None:
                features = self.expected["input_features"].row(row)
                write_safetensors(self.scratch / "given.safetensors", {"input_features": Tensor("F32", [1, *features.shape], features.data)})
                given = ("--input", self.scratch / "given.safetensors", "--eos", "ignore")
            self.assertEqual(self.generate(self.program, self.weights, prompt, len(want), *given, *options), want)

    def test_generate_through_the_cache(self):
        self.check_generation()

    def test_generate_by_recomputing(self):
        self.check_generation("--no-cache")


class Weights(Case):
    """The same llama from bfloat16 and from two files with an index."""

    def check(self, name, weights):
        folder = DATA / "formats" / name
        expected = read_safetensors(folder / "expected.safetensors")
        program = self.compile("llama", "--config", folder / "config.json")
        got = self.evaluate(program, folder / weights, {"tokens": expected["input_ids"]})["logits"]
        self.assertLess(relative_error(got, expected["logits"]), COMPILED)

    def test_bfloat16(self):
        self.check("llama-bf16", "model.safetensors")

    def test_sharded_folder(self):
        self.check("llama-sharded", "")

    def test_sharded_index(self):
        self.check("llama-sharded", "model.safetensors.index.json")


for fixture in SPECS:
    base = Model if fixture in ENCODERS + IMAGES else Generator
    globals()[fixture] = type(fixture, (base,), {"fixture": fixture, "__module__": __name__})
del Model, Generator, base  # unittest would run the bases, which have no fixture

if __name__ == "__main__":
    unittest.main()
