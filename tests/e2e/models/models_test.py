"""The golden models: compiled programs and the interpreter against PyTorch's numbers, generation against its continuations.

One class a fixture (`python3 -m tests.e2e.models.models_test gpt2`). What is compared, and how near it has to be, is in tests/data/README.md.

SPECS are the models that other tests go through as well: gradients, devices, GGUF files, `quern run`. Among them is every part of the language and
of the compiler, each in several forms. ZOO (tests/data/zoo.json) are the other architectures, made of the same parts: what can be wrong there is the spec. So one program
and one run of the interpreter a model do, each with another of the two configs; and where the text beyond a window is forgotten or a state is
carried, greedy continuations are computed again without the cache. A model that shows something new for the compiler belongs to SPECS."""
import json
import random
import re
import unittest

from tests.e2e.harness import DATA, EXAMPLES, QUERN, Case, Tensor, ints, random_tensor, random_tokens, read_safetensors, relative_error, run, write_safetensors

SPECS = {
    "gpt2": "gpt2", "llama": "llama", "llama3-rope-scaling": "llama", "qwen2": "qwen2", "mistral": "mistral", "phi3": "phi3",
    "phi3-longrope": "phi3", "bloom": "bloom", "opt": "opt", "opt-postln-proj": "opt", "bert": "bert", "distilbert": "distilbert",
    "t5": "t5", "m2m100": "bart", "mixtral": "mixtral", "gemma": "gemma", "gemma3-text": "gemma", "gptj": "gptj",
    "gpt-bigcode": "gpt_bigcode", "cohere": "cohere", "stablelm": "stablelm", "smollm3": "smollm3", "starcoder2": "starcoder2", "mpt": "mpt",
    "gpt-neox": "gpt_neox", "mamba": "mamba", "qwen3-next": "qwen3_next", "recurrent-gemma": "recurrent_gemma",
    "vit": "vit", "whisper": "whisper",
}
KINDS = json.loads((DATA / "zoo.json").read_text())
ZOO = {fixture: spec for models in KINDS.values() for fixture, spec in models.items()}
INPUTS = {"tokens": "input_ids", "mask": "attention_mask", "segments": "token_type_ids", "target": "decoder_input_ids", "features": "input_features", "pixels": "pixel_values"}
ENCODERS, PAIRS, IMAGES, SPEECH = ("bert", "distilbert", *KINDS["encoders"]), ("t5", "m2m100", *KINDS["pairs"]), ("vit", *KINDS["images"]), ("whisper",)
CONTRASTS = (*KINDS["contrasts"],)  # texts with images
COMPILED = 5e-5
ROUNDED = ("bloom", "marian", "pegasus", "roformer")  # PyTorch keeps their slopes and sinusoids in float32, in its float64 run too


class Fixture(Case):
    """A golden model: its files, its inputs, and what PyTorch made of them."""
    fixture = None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder, cls.spec = DATA / cls.fixture, (SPECS | ZOO)[cls.fixture]
        cls.config, cls.weights = cls.folder / "config.json", cls.folder / "model.safetensors"
        cls.expected = read_safetensors(cls.folder / "expected.safetensors")
        cls.inputs = {name: cls.expected[there] for name, there in INPUTS.items() if there in cls.expected}
        cls.keep = list(cls.inputs["mask"].data) if cls.fixture in ENCODERS else None


class Golden(Fixture):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.program = cls.compile(cls.spec, "--config", cls.config)

    def check_interpreter(self, config):
        got = self.interpret(self.spec, self.weights, self.inputs, "--config", self.folder / config)["logits"]
        limit = 1e-7 if self.fixture in ROUNDED else 1e-9
        self.assertLess(relative_error(got, self.expected["logits_f64"], self.keep), limit, config)

    def check_batch(self, seed, rows, length):
        """The program and the interpreter on random inputs."""
        vocabulary = json.loads(self.config.read_text())["text_config"]["vocab_size"] if self.fixture in CONTRASTS else self.expected["logits"].shape[-1]
        inputs = {name: random_tensor(random.Random(seed), [rows, *self.expected[there].shape[1:]])
                  for name, there in INPUTS.items() if name in ("features", "pixels") and there in self.expected}
        if not inputs or self.fixture in CONTRASTS:
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

    def test_logits(self):
        results = self.evaluate(self.program, self.weights, self.inputs)
        self.assertLess(relative_error(results["logits"], self.expected["logits_f64"], self.keep), COMPILED)
        for name in results:
            if name not in ("logits", "memory"):
                self.assertLess(relative_error(results[name], self.expected[name]), COMPILED, name)


class Model(Golden):
    def test_logits_with_the_older_config(self):
        program = self.compile(self.spec, "--config", self.folder / "config.v4.json", name="older")
        got = self.evaluate(program, self.weights, self.inputs)["logits"]
        self.assertLess(relative_error(got, self.expected["logits_f64"], self.keep), COMPILED)

    def test_interpreter(self):
        for name in ("config.json", "config.v4.json"):
            self.check_interpreter(name)

    def test_other_batches_and_lengths(self):
        """The same program takes any batch and length; the interpreter says what it should give."""
        for seed, (rows, length) in enumerate([(1, 1), (3, 29)]):
            self.check_batch(seed, rows, length)


class Architecture(Golden):
    """What a model of the zoo is tried with."""

    def test_no_mistakes_or_warnings(self):
        for name in ("config.json", "config.v4.json"):
            done = run(QUERN, "check", EXAMPLES / f"{self.spec}.quern", "--config", self.folder / name)
            self.assertNotIn("warning", done.out + done.err)

    def test_interpreter_with_the_older_config(self):
        self.check_interpreter("config.v4.json")

    def test_another_batch_and_length(self):
        self.check_batch(1, 3, 29)


class Continues:
    """Greedy continuations, token for token."""

    def prompts(self):
        """Decoders: five tokens. Encoder-decoders: the row without its padding, which means the same as the mask. Speech: none, and its row of features."""
        if self.fixture in SPEECH:
            return [None] * len(self.expected["generated"].rows())
        tokens = self.expected["input_ids"].rows()
        if self.fixture not in PAIRS:
            return [row[:5] for row in tokens]
        masks = self.expected["attention_mask"].rows()
        return [[t for t, real in zip(row, mask) if real] for row, mask in zip(tokens, masks)]

    def continuations(self, *options):
        """What is written and what is wanted, row by row."""
        for row, (prompt, want) in enumerate(zip(self.prompts(), self.expected["generated"].rows())):
            given = ()
            if prompt is None:
                features = self.expected["input_features"].row(row)
                write_safetensors(self.scratch / "given.safetensors", {"input_features": Tensor("F32", [1, *features.shape], features.data)})
                given = ("--input", self.scratch / "given.safetensors", "--eos", "ignore")
            yield self.generate(self.program, self.weights, prompt, len(want), *given, *options), want

    def check_generation(self, *options):
        for got, want in self.continuations(*options):
            self.assertEqual(got, want)

    def test_generate_through_the_cache(self):
        self.check_generation()


class Forgets:
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


def parts(fixture):
    """What the class of a fixture is made of."""
    if fixture not in ENCODERS + IMAGES + CONTRASTS:
        yield Continues
        if fixture in SPECS or re.search(r"\bscan |causal_taps|window", (EXAMPLES / f"{ZOO[fixture]}.quern").read_text()):
            yield Forgets
    yield Model if fixture in SPECS else Architecture


for fixture in SPECS | ZOO:
    globals()[fixture] = type(fixture, tuple(parts(fixture)), {"fixture": fixture, "__module__": __name__})
del Golden, Model, Architecture  # unittest would run the bases, which have no fixture

if __name__ == "__main__":
    unittest.main()
