"""Sentence encoders: the vectors that transformers and the pooling of sentence-transformers give (tests/data/generate/make_sentences.py)."""
import json
import math
import shutil
import unittest

from tests.e2e.harness import DATA, QUERN, Case, Tensor, read_safetensors, relative_error, run, write_safetensors

MODELS = DATA / "sentences"
POOLING = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token", "last": "pooling_mode_lasttoken"}
DECODERS = ("llama", "mistral", "qwen2", "qwen3")
COMPILED = 5e-5
INTERPRETED = 1e-9


def spec_of(name):
    return "sentence_decoder" if name in DECODERS else "sentence_modernbert" if name == "modernbert" else "sentence"


def golden(name):
    expected = read_safetensors(MODELS / name / "expected.safetensors")
    return {"tokens": expected["input_ids"], "mask": expected["attention_mask"]}, expected


class Sentences(Case):
    def vectors(self, results):
        (got,) = results.values()
        return got

    def test_all_by_the_interpreter(self):
        for folder in sorted(MODELS.iterdir()):
            inputs, expected = golden(folder.name)
            for pooling in ("mean", "cls", "last") if folder.name in DECODERS else ("mean", "cls"):
                with self.subTest(folder.name, pooling=pooling):
                    got = self.interpret(spec_of(folder.name), folder, inputs, "--config", folder / "config.json", "--set", f"pooling={pooling}")
                    self.assertLess(relative_error(self.vectors(got), expected[pooling]), INTERPRETED)

    def test_gguf_by_the_interpreter(self):
        paths = sorted((DATA / "gguf").glob("sentence-*.gguf"))
        self.assertEqual(len(paths), 5)
        for path in paths:
            name = path.stem.removeprefix("sentence-")
            with self.subTest(name):
                spec = self.scratch / "spec.quern"
                spec.unlink(missing_ok=True)
                run(QUERN, "init", "--from", path, "-o", spec)
                self.assertIn(f"model {spec_of(name)} ", spec.read_text())
                inputs, expected = golden(name)
                got = self.vectors(self.interpret(spec, path, inputs, "--config", path))
                self.assertLess(min(relative_error(got, expected[pooling]) for pooling in POOLING), INTERPRETED)

    def checkpoint(self, name, pooling, **changes):
        """A folder as sentence-transformers writes it."""
        folder = self.scratch / f"{name}-{pooling}"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(MODELS / name, folder)
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | changes))
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling" / "config.json").write_text(json.dumps({mode: mode == POOLING[pooling] for mode in POOLING.values()} | {"include_prompt": True}))
        return folder

    def test_without_a_mask(self):
        """Only texts of one length are computed together."""
        spec = self.scratch / "bag.quern"
        spec.write_text('quern 1\nmodel bag {\n  config { vocab = 512, width = 8 }\n  dim V = vocab, D = width\n  forward(tokens: int[B, T]) -> [B, D] {\n'
                        '    param words: [V, D] @ "words" ~ normal(1)\n    return mean[T](words[V = tokens])\n  }\n}\n')
        words = Tensor("F32", [512, 8], [math.sin(i) for i in range(512 * 8)])
        weights = self.scratch / "bag.safetensors"
        write_safetensors(weights, {"words": words})
        program = self.compile(spec)
        texts = ["a", "the cat", "a dog", "the sun is up", "b", "the dog is up", "one"]
        results = json.loads(run(program, "embed", "--weights", weights, "--tokenizer", DATA / "stories260K", "--json", *texts).out)["results"]
        self.assertEqual([result["text"] for result in results], texts)
        for result in results:
            rows = [words.data[t * 8 : t * 8 + 8] for t in result["tokens"]]
            for got, column in zip(result["embedding"], zip(*rows)):
                self.assertAlmostEqual(got, sum(column) / len(rows), 5)

    def test_programs_of_folders(self):
        """1_Pooling decides the spec, whatever class the model was made from, and the way of pooling."""
        cache = self.own_cache("run")
        for name, pooling, changes in (("mpnet", "mean", {"architectures": ["MPNetForMaskedLM"]}), ("qwen3", "last", {"architectures": ["Qwen3ForCausalLM"]}),
                                       ("modernbert", "cls", {}), ("distilbert", "cls", {})):
            with self.subTest(name):
                inputs, expected = golden(name)
                source, result = self.scratch / "in.safetensors", self.scratch / "out.safetensors"
                write_safetensors(source, inputs)
                run(QUERN, "run", self.checkpoint(name, pooling, **changes), "--cache-dir", cache, "--", "eval", "--input", source, "--output", result)
                self.assertLess(relative_error(self.vectors(read_safetensors(result)), expected[pooling]), COMPILED)
        self.assert_refused(run(QUERN, "run", self.checkpoint("bert", "last"), "--", "info", status=1), "pooling_mode_lasttoken", "pooling_mode_mean_tokens", "sentence.quern")


if __name__ == "__main__":
    unittest.main()
