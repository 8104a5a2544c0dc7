"""Sentence encoders: the vectors that transformers and the pooling of sentence-transformers give (tests/data/generate/make_sentences.py)."""
import json
import math
import shutil
import unittest

from tests.e2e.harness import DATA, EXAMPLES, QUERN, Case, Tensor, read_safetensors, relative_error, run, write_safetensors

MODELS = DATA / "sentences"
POOLING = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token", "last": "pooling_mode_lasttoken"}
DECODERS = ("llama", "mistral", "qwen2", "qwen3")
COMPILED = 5e-5
INTERPRETED = 1e-9
ROUNDED = 1e-6  # norms that a GGUF file has plus one, in f32


SPECS = {"labse": "sentence", "distiluse": "sentence", "gte": "sentence", "jina-v3": "sentence", "embedding-gemma": "sentence_gemma", "eurobert": "sentence_decoder", "sentence-t5": "sentence_t5", "mt5": "sentence_t5",
         "umt5": "sentence_t5"}  # folders of sentence-transformers, with modules.json
GGUF_SETTINGS = {"embedding-gemma": ["--set", "sliding_window_pattern=3", "--set", "query_pre_attn_scalar=12"]}  # what such files do not say


def spec_of(name):
    return SPECS[name] if name in SPECS else "sentence_decoder" if name in DECODERS else "sentence_modernbert" if name == "modernbert" else "sentence"


def golden(name):
    expected = read_safetensors(MODELS / name / "expected.safetensors")
    return {"tokens": expected["input_ids"], "mask": expected["attention_mask"]}, expected


def settings_of(folder):
    """What modules.json and the files beside it say, for the command line."""
    pooled = json.loads((folder / "1_Pooling" / "config.json").read_text())
    kinds = {m["path"]: m["type"].split(".")[-1] for m in json.loads((folder / "modules.json").read_text())}
    dense = []
    for path, kind in kinds.items():
        if kind == "Dense":
            config = json.loads((folder / path / "config.json").read_text())
            activation = {"Tanh": "tanh", "Identity": "linear"}[config["activation_function"].split(".")[-1]]
            dense.append({"path": path, "out_features": config["out_features"], "bias": config["bias"], "activation": activation})
    (pooling,) = [way for way, mode in POOLING.items() if pooled[mode]]
    return [word for setting in (f"pooling={pooling}", f"dense={json.dumps(dense)}", f"unit={json.dumps('Normalize' in kinds.values())}") for word in ("--set", setting)]


class Sentences(Case):
    def vectors(self, results):
        (got,) = results.values()
        return got

    def test_all_by_the_interpreter(self):
        for folder in sorted(MODELS.iterdir()):
            inputs, expected = golden(folder.name)
            if folder.name in SPECS:
                for config in ("config.json", "config.v4.json"):
                    with self.subTest(folder.name, config=config):
                        got = self.interpret(spec_of(folder.name), folder, inputs, "--config", folder / config, *settings_of(folder))
                        self.assertLess(relative_error(self.vectors(got), expected["vector"]), INTERPRETED)
                continue
            for pooling in ("mean", "cls", "last") if folder.name in DECODERS else ("mean", "cls"):
                with self.subTest(folder.name, pooling=pooling):
                    got = self.interpret(spec_of(folder.name), folder, inputs, "--config", folder / "config.json", "--set", f"pooling={pooling}")
                    self.assertLess(relative_error(self.vectors(got), expected[pooling]), INTERPRETED)

    def test_gguf_by_the_interpreter(self):
        paths = sorted((DATA / "gguf").glob("sentence-*.gguf"))
        self.assertEqual(len(paths), 7)
        for path in paths:
            name = path.stem.removeprefix("sentence-")
            with self.subTest(name):
                spec = self.scratch / "spec.quern"
                spec.unlink(missing_ok=True)
                run(QUERN, "init", "--from", path, "-o", spec)
                self.assertIn(f"model {spec_of(name)} ", spec.read_text())
                inputs, expected = golden(name)
                got = self.vectors(self.interpret(spec, path, inputs, "--config", path, *GGUF_SETTINGS.get(name, [])))
                self.assertLess(min(relative_error(got, expected[vector]) for vector in (["vector"] if name in SPECS else POOLING)), ROUNDED if name == "embedding-gemma" else INTERPRETED)

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
        newer = self.checkpoint("distilbert", "cls")
        (newer / "1_Pooling" / "config.json").write_text('{"embedding_dimension": 24, "pooling_mode": "cls", "include_prompt": true}')
        run(QUERN, "run", newer, "--cache-dir", cache, "--", "eval", "--input", source, "--output", result)
        self.assertLess(relative_error(self.vectors(read_safetensors(result)), expected["cls"]), COMPILED)
        (newer / "1_Pooling" / "config.json").write_text('{"pooling_mode": "max"}')
        self.assert_refused(run(QUERN, "run", newer, "--", "info", status=1), 'pooling_mode = "max"', "pooling_mode_mean_tokens")
        self.assert_refused(run(QUERN, "run", self.checkpoint("bert", "last"), "--", "info", status=1), "pooling_mode_lasttoken", "pooling_mode_mean_tokens", "sentence.quern")

    def test_modules(self):
        """modules.json decides what follows the pooling; the weights for it are in folders of their own, and go where the model's go."""
        cache, source, result = self.own_cache("modules"), self.scratch / "in.safetensors", self.scratch / "out.safetensors"
        for name in SPECS:
            with self.subTest(name):
                inputs, expected = golden(name)
                write_safetensors(source, inputs)

                def vectors(*words):
                    run(*words, "--input", source, "--output", result)
                    return self.vectors(read_safetensors(result))

                def check(bound, *words):
                    self.assertLess(relative_error(vectors(*words), expected["vector"]), bound, words)

                quern_run = (QUERN, "run", "--cache-dir", cache)
                check(COMPILED, *quern_run, MODELS / name, "--", "eval")
                check(COMPILED, *quern_run, "--no-pack", MODELS / name, "--", "eval")
                if name != "labse":
                    continue
                program = self.scratch / name
                run(QUERN, "compile", MODELS / name, "-q", "--cache-dir", cache, "-o", program)
                check(COMPILED, program, "eval", "--weights", MODELS / name)
                check(COMPILED, program, "eval", "--weights", MODELS / name / "model.safetensors")
                self.assert_refused(run(QUERN, "run", EXAMPLES / "sentence.quern", "--cache-dir", cache, "--config", MODELS / name, "--weights", MODELS / name, "--", "eval", "--input", source,
                                        "--output", result, status=1), "does not use", "2_Dense.linear.weight")
                run(QUERN, "compile", MODELS / name, "-q", "--cache-dir", cache, "--weights", MODELS / name, "--embed", "-o", program)
                check(COMPILED, program, "eval")
                folder = self.scratch / "quantized"
                run(QUERN, "quantize", MODELS / name, "-q", "--quantize", "int8", "-o", folder)
                self.assertFalse((folder / "2_Dense" / "model.safetensors").exists())
                rounded = vectors(*quern_run, "--quantize", "int8", MODELS / name, "--", "eval")
                self.assertGreater(relative_error(rounded, expected["vector"]), COMPILED)
                self.assertLess(relative_error(vectors(*quern_run, folder, "--", "eval"), rounded), COMPILED)

    def test_modules_that_are_refused(self):
        def refused(file, change, *words):
            folder = self.scratch / "refused"
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(MODELS / "labse", folder)
            value = json.loads((folder / file).read_text())
            (folder / file).write_text(json.dumps(change(value) or value))
            self.assert_refused(run(QUERN, "run", folder, "--", "info", status=1), *words)

        refused("modules.json", lambda modules: modules[3].update(type="sentence_transformers.models.LayerNorm"), "LayerNorm", "then any Dense, then Normalize")
        refused("modules.json", lambda modules: modules[1].update(path="pooling"), "'pooling'", "1_Pooling")
        refused("modules.json", lambda modules: modules[:1], "without Pooling")
        refused("modules.json", lambda modules: modules[2].update(path="../2_Dense"), "in no folder beside it")
        refused("modules.json", lambda modules: modules + [dict(modules[2], path="4_Dense")], "Normalize, Dense")
        refused("2_Dense/config.json", lambda config: config.update(activation_function="torch.nn.modules.activation.PReLU"), "PReLU", "Tanh")
        refused("2_Dense/config.json", lambda config: config.pop("out_features") and config, "out_features")
        refused("2_Dense/config.json", lambda config: config.update(module_input_name="token_embeddings"), "module_input_name", "token_embeddings")
        refused("1_Pooling/config.json", lambda config: config.update(include_prompt=False), "include_prompt")
        folder = self.scratch / "pickle"
        shutil.copytree(MODELS / "labse", folder)
        (folder / "2_Dense" / "model.safetensors").rename(folder / "2_Dense" / "pytorch_model.bin")
        self.assert_refused(run(QUERN, "run", folder, "--", "info", status=1), "2_Dense holds pytorch_model.bin")


if __name__ == "__main__":
    unittest.main()
