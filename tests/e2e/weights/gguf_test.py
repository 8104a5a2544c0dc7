"""GGUF files as checkpoints: the golden models again, as llama.cpp's converter writes them (tests/data/generate/make_gguf.py).

The llama with a vocabulary is a golden file of the package gguf, which transformers' reader agrees with."""
import json
import unittest

from tests.e2e.weights.gguf_file import Reader, write_gguf, write_parts
from tests.e2e.harness import DATA, QUERN, Case, Tensor, read_safetensors, relative_error, run

FILES = DATA / "gguf"
FIXTURE = DATA / "formats" / "llama-gguf"
COMPILED = 5e-5
INTERPRETED = 1e-9
ROUNDED = 5e-6  # where the file has -exp(x), 1 + x or a frequency's divisor in float32
# What is not in the file.
SETTINGS = {"gemma3-text": ["--set", "sliding_window_pattern=3", "--set", "query_pre_attn_scalar=20"]}
CODED = "-q8_0"


def golden(name):
    """The inputs, and what transformers computes."""
    own = FILES / f"{name}.safetensors"
    stored = read_safetensors(own if own.exists() else DATA / name / "expected.safetensors")
    names = {"input_ids": "tokens", "decoder_input_ids": "target"}
    return {names[n]: stored[n] for n in names if n in stored}, stored["logits_f64"]


class Files(Case):
    def spec_of(self, path):
        """The spec that its values choose."""
        spec = self.scratch / f"{path.stem}.quern"
        spec.unlink(missing_ok=True)
        run(QUERN, "init", "--from", path, "-o", spec)
        return spec


class Architectures(Files):
    """Names, order of rows and config, by the interpreter."""

    def test_all(self):
        paths = sorted(path for path in FILES.glob("*.gguf") if not path.stem.endswith(CODED) and not path.stem.startswith("sentence-"))
        self.assertGreater(len(paths), 60)
        for path in paths:
            with self.subTest(path.stem):
                inputs, logits = golden(path.stem)
                got = self.interpret(self.spec_of(path), path, inputs, "--config", path, *SETTINGS.get(path.stem, []))["logits"]
                rounded = {"-exp": "ssm_a", "norms": "norm.weight", "divisors": "rope_"}.values()
                bound = ROUNDED if any(part in name for name in Reader(path).tensors for part in rounded) else INTERPRETED
                self.assertLess(relative_error(got, logits), bound)


class Coded(Files):
    """Blocks of codes move in whole rows."""

    def check(self, name):
        path, decoded = FILES / f"{name}{CODED}.gguf", self.scratch / f"{name}.gguf"
        file = Reader(path)
        self.assertIn("Q8_0", {kind for kind, *_ in file.tensors.values()})
        write_gguf(decoded, *file.contents())
        spec, (inputs, _) = self.spec_of(path), golden(path.stem)
        want = self.interpret(spec, decoded, inputs, "--config", decoded)["logits"]
        self.assertLess(relative_error(self.interpret(spec, path, inputs, "--config", path)["logits"], want), INTERPRETED)
        program = self.compile(spec, "--weights", path, "--precision", "stored", name=name)
        self.assertLess(relative_error(self.evaluate(program, path, inputs)["logits"], want), COMPILED)


class Codes(Coded):
    def test_in_pairs_and_stacked(self):
        self.check("mixtral")

    def test_in_turns_and_transposed(self):
        self.check("gpt-oss")

    def test_keys_of_latents(self):
        self.check("deepseek")


class MoreCodes(Coded):
    def test_all(self):
        for name in ("phi3", "gpt2", "falcon", "granitemoe", "qwen3-next", "qwen3-5"):
            with self.subTest(name):
                self.check(name)


WHOLE = FILES / "llama.gguf"


class Parts(Case):
    """A llama in three files."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.contents = Reader(WHOLE).contents()
        cls.parts = write_parts(cls.scratch / "parts", *cls.contents)
        cls.expected = read_safetensors(DATA / "llama" / "expected.safetensors")
        cls.inputs = {"tokens": cls.expected["input_ids"]}

    def test_programs(self):
        """Compiled for the file in one, a program takes any part of it, and their folder."""
        program = self.compile("llama", "--weights", WHOLE)
        want = self.evaluate(program, WHOLE, self.inputs)["logits"]
        self.assertLess(relative_error(want, self.expected["logits"]), COMPILED)
        for weights in (*self.parts, self.parts[0].parent):
            self.assertEqual(self.evaluate(program, weights, self.inputs)["logits"].data, want.data, weights)

    def test_the_compiler(self):
        part = self.parts[1]
        want = self.interpret("llama", part, self.inputs, "--config", part)["logits"]
        self.assertLess(relative_error(want, self.expected["logits"]), COMPILED)
        names = run(QUERN, "tensors", part, "--shapes").out.splitlines()
        self.assertEqual(len(names), len(self.contents[2]))
        for options in ((), ("--train",)):  # of which only the second carries the checkpoint's own files
            program = self.compile("llama", "--weights", part, "--embed-weights", *options, name="carrying")
            self.assertLess(relative_error(self.evaluate(program, None, self.inputs)["logits"], self.expected["logits"]), COMPILED)
        run(QUERN, "quantize", part, "-o", self.scratch / "smaller", "--quantize", "bf16")
        self.assertTrue((self.scratch / "smaller" / "model.safetensors").exists())

    def test_run(self):
        """A change of any part is seen, though weights are packed and the start is remembered."""
        architecture, values, tensors = self.contents
        folder = self.scratch / "changing"
        command = (QUERN, "run", folder, "--cache-dir", self.own_cache("run"), "--", "generate", "--tokens", "1,5,9", "-n", 8, "--temp", 0, "--json")
        parts = write_parts(folder, architecture, values, tensors)
        first = run(*command)
        self.assertIn("packing its weights", first.err)
        self.assertEqual(run(*command).out, first.out)
        last = list(tensors)[2::3]
        changed = {name: Tensor("F32", tensor.shape, [-x for x in tensor.data]) if name in last else tensor for name, tensor in tensors.items()}
        write_parts(folder, architecture, values, changed)
        self.assertNotEqual(run(*command).out, first.out)
        parts[2].unlink()
        self.assert_refused(run(*command, status=1), "model-00003-of-00003.gguf", "part 3 of 3", "not there")


class Golden(Case):
    """A llama with a vocabulary, as the package gguf writes it."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.expected = read_safetensors(FIXTURE / "expected.safetensors")
        cls.program = cls.compile("llama", "--weights", FIXTURE / "model-f16.gguf")

    def test_logits_and_greedy_tokens(self):
        for kind in ("f16", "q8_0"):
            weights = FIXTURE / f"model-{kind}.gguf"
            got = self.evaluate(self.program, weights, {"tokens": self.expected["input_ids"]})["logits"]
            self.assertLess(relative_error(got, self.expected[f"logits.{kind}"]), COMPILED, kind)
            for row, want in zip(self.expected["input_ids"].rows(), self.expected[f"generated.{kind}"].rows()):
                self.assertEqual(self.generate(self.program, weights, row[:5], len(want), "--eos", "ignore"), want, kind)

    def test_text_by_the_file_s_own_vocabulary(self):
        """The prompt's tokens are those of the same vocabulary as tokenizer.json."""
        weights, words = FIXTURE / "model-q8_0.gguf", DATA / "tokenizers" / "llama2-spm" / "tokenizer.json"
        own = run(self.program, "generate", "--weights", weights, "-p", "The compiler", "-n", 12, "--temp", 0, "--json").out
        given = run(self.program, "generate", "--weights", weights, "--tokenizer", words, "-p", "The compiler", "-n", 12, "--temp", 0, "--json").out
        self.assertEqual(json.loads(own)["tokens"], json.loads(given)["tokens"])
        self.assertEqual(json.loads(own)["text"], json.loads(given)["text"])

    def test_embedded(self):
        program = self.compile("llama", "--weights", FIXTURE / "model-q8_0.gguf", "--embed-weights", name="whole")
        self.assertTrue(json.loads(run(program, "info", "--json").out)["carries_tokenizer"])
        beside = run(self.program, "generate", "--weights", FIXTURE / "model-q8_0.gguf", "-p", "The compiler", "-n", 8, "--temp", 0).out
        self.assertEqual(run(program, "generate", "-p", "The compiler", "-n", 8, "--temp", 0).out, beside)

    def test_refusals(self):
        cut = self.scratch / "cut.gguf"
        cut.write_bytes((FIXTURE / "model-f16.gguf").read_bytes()[:-1000])
        self.assert_refused(run(self.program, "generate", "--weights", cut, "-p", "x", status=1), "cut.gguf", "cut short")
        self.assert_refused(self.compile("gpt2", "--weights", cut, status=1), "cut.gguf", "cut short")
        other = self.scratch / "other.gguf"
        write_gguf(other, "klingon", {}, {})
        self.assert_refused(run(self.program, "generate", "--weights", other, "--tokens", "1", status=1), "klingon", "llama")


if __name__ == "__main__":
    unittest.main()
