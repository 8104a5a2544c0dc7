"""`quern run` and `quern compile` with a checkpoint instead of a spec: the spec is found by config.json, the rest beside it.

The goldens are those of models_test.py, reached from a folder, and from a Hugging Face cache as huggingface_hub lays it out."""
import json
import os
import shutil
import unittest

from tests.e2e.harness import DATA, EXAMPLES, MINILM, QUERN, ROOT, Case, read_safetensors, relative_error, run, write_safetensors
from tests.e2e.weights.gguf_file import sentence_encoder, write_gguf
from tests.e2e.models.models_test import COMPILED, CONTRASTS, ENCODERS, IMAGES, INPUTS, PAIRS, SPECS, SPEECH, ZOO

STORIES = DATA / "stories260K"
TABLE = json.loads((EXAMPLES / "architectures.json").read_text())


class Checkpoints(Case):
    def quern_run(self, model, *words, status=0, **variables):
        """`quern run`, with variables of the environment."""
        old = {name: os.environ.get(name) for name in variables}
        os.environ.update({name: str(value) for name, value in variables.items()})
        try:
            return run(QUERN, "run", model, *words, status=status)
        finally:
            for name, value in old.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})

    def folder(self, name, fixture="llama", **changes):
        """A copy of a fixture's checkpoint, with another config."""
        folder = self.scratch / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        config = json.loads((DATA / fixture / "config.json").read_text()) | changes
        (folder / "config.json").write_text(json.dumps(config))
        shutil.copy(DATA / fixture / "model.safetensors", folder)
        return folder

    def greedy(self, model, fixture, *words, **variables):
        """The new tokens of a fixture's first prompt, and those that are wanted."""
        expected = read_safetensors(DATA / fixture / "expected.safetensors")
        prompt, want = expected["input_ids"].rows()[0], expected["generated"].rows()[0]
        prompt = [t for t, real in zip(prompt, expected["attention_mask"].rows()[0]) if real] if fixture in PAIRS else prompt[:5]
        done = self.quern_run(model, *words, "--tokens", ",".join(map(str, prompt)), "-n", len(want), "--temp", 0, "--json", **variables)
        return json.loads(done.out.strip().splitlines()[-1])["tokens"], want

    def check_golden(self, fixture):
        """A fixture's folder, whatever it is: decoders, pairs and speech generate, encoders and images give their logits."""
        expected = read_safetensors(DATA / fixture / "expected.safetensors")
        source, result = self.scratch / "in.safetensors", self.scratch / "out.safetensors"
        if fixture in SPEECH:
            write_safetensors(source, {"features": expected["input_features"]})
            done = self.quern_run(DATA / fixture, "--input", source, "-n", 16, "--temp", 0, "--eos", "ignore", "--json")
            self.assertEqual([json.loads(line)["tokens"] for line in done.out.splitlines()], expected["generated"].rows())
        elif fixture not in ENCODERS + IMAGES:
            got, want = self.greedy(DATA / fixture, fixture)
            self.assertEqual(got, want)
        else:
            write_safetensors(source, {name: expected[there] for name, there in INPUTS.items() if there in expected})
            self.quern_run(DATA / fixture, "--input", source, "--output", result)
            keep = list(expected["attention_mask"].data) if "attention_mask" in expected else None
            self.assertLess(relative_error(read_safetensors(result)["logits"], expected["logits"], keep), COMPILED)


class Run(Checkpoints):
    # ---- from a folder

    def test_one_golden_model_of_each_kind(self):
        for fixture in ("llama", "bert", "t5", "mamba", "vit", "whisper"):
            with self.subTest(fixture):
                self.check_golden(fixture)

    def test_every_architecture_of_the_zoo_is_found(self):
        for fixture, spec in ZOO.items():
            done = run(QUERN, "compile", DATA / fixture, "--compile-to", "resolved", "-o", self.scratch / "resolved.mlir")
            self.assertIn(f" {spec}.quern", done.err, fixture)

    def test_text_and_ways_to_write_the_words(self):
        want = (STORIES / "greedy.txt").read_text()[:60]
        words = ["-p", "Once upon a time", "--temp", "0", "-n", "40"]
        for command in ([STORIES, *words], [STORIES, "generate", *words], [STORIES, "--", *words], [STORIES, "-q", "--", "generate", *words],
                        [STORIES / "config.json", "-j", "2", *words], [STORIES / "model.safetensors", *words]):
            done = self.quern_run(*command)
            self.assertTrue(done.out.startswith(want), done)
        self.assertIn("LlamaForCausalLM", self.quern_run(STORIES, *words).err)
        self.assertIn("parameters", self.quern_run(STORIES, "info").out)

    def test_embeds_with_an_encoder(self):
        golden = json.loads((DATA / "minilm.json").read_text())
        done = self.quern_run(MINILM, "--json", *golden["sentences"][:2])
        for result, want in zip(json.loads(done.out)["results"], golden["embedding_first8"]):
            for x, y in zip(result["embedding"], want):
                self.assertAlmostEqual(x, y, 4)
        self.assertEqual(len(json.loads(done.out)["results"]), 2)

    # ---- weights that are packed once

    def packs(self, cache):
        """What is packed in a cache: the file of each."""
        return sorted((cache / "packed").glob("*/model.safetensors"))

    def test_weights_are_packed_once(self):
        """The second run maps what the first one packed; a checkpoint that changes is packed anew, and a broken pack, which is named."""
        cache, model = self.own_cache("packs"), self.folder("packing")
        weights = model / "model.safetensors"
        words = ["--cache-dir", cache]
        first, want = self.greedy(model, "llama", *words)
        self.assertEqual(first, want)
        [packed] = self.packs(cache)
        old, state = weights.read_bytes(), weights.stat()
        # Other numbers with the size and the time of before: whoever reads the checkpoint notices.
        header = 8 + int.from_bytes(old[:8], "little")
        weights.write_bytes(old[:header] + bytes(len(old) - header))
        os.utime(weights, ns=(state.st_atime_ns, state.st_mtime_ns))
        again = packed.stat()
        self.assertEqual(self.greedy(model, "llama", *words)[0], want)
        self.assertEqual((packed.stat().st_ino, packed.stat().st_mtime_ns), (again.st_ino, again.st_mtime_ns))
        self.assertNotEqual(self.greedy(model, "llama", *words, "--no-pack")[0], want)
        os.utime(weights)
        self.assertNotEqual(self.greedy(model, "llama", *words)[0], want)
        weights.write_bytes(old)
        self.assertEqual(self.greedy(model, "llama", *words)[0], want)
        [packed] = self.packs(cache)  # what was packed of the others is gone
        content = bytearray(packed.read_bytes())
        content[len(content) // 2] ^= 255
        packed.write_bytes(content)
        done = self.quern_run(model, *words, "--tokens", "1,2,3", "-n", 2)
        self.assertIn(str(packed), done.err)
        self.assertEqual(self.greedy(model, "llama", *words)[0], want)
        os.utime(packed)  # the content is what was written
        done = self.quern_run(model, *words, "--tokens", "1,2,3", "-n", 2)
        self.assertNotIn(str(packed), done.err)
        packed.write_bytes(content[:1000])
        self.assertEqual(self.greedy(model, "llama", *words)[0], want)

    def test_the_same_words_start_the_same_program(self):
        """The second time the compiler is not asked; after a change it is. Shown by a start of `quern` that has no compiler beside it."""
        start, model = self.scratch / "start", self.folder("remembered")
        shutil.copy(QUERN, start)
        cache = self.own_cache("remembering")
        words = ["run", model, "--cache-dir", cache, "--tokens", "1,2,3", "-n", 4, "--temp", 0, "--json"]
        self.assert_refused(run(start, *words, status=2), "start-compiler")
        first = run(QUERN, *words)
        again = run(start, *words)
        tokens = lambda done: json.loads(done.out.strip().splitlines()[-1])["tokens"]
        self.assertEqual(tokens(again), tokens(first))
        self.assertIn("LlamaForCausalLM", again.err)
        run(start, *words, "-q", status=2)
        for change in (lambda: os.utime(model / "model.safetensors"), lambda: (model / "generation_config.json").write_text("{}"),
                       lambda: (model / "generation_config.json").unlink()):
            change()
            run(start, *words, status=2)
            run(QUERN, *words)
            self.assertEqual(tokens(run(start, *words)), tokens(first))
        [packed] = self.packs(cache)
        packed.unlink()
        run(start, *words, status=2)

    def test_packed_weights_are_bounded(self):
        cache, words = self.own_cache("bounded"), ["--tokens", "1,2,3", "-n", 2]
        for name, limit, most in (("one", 16384, 1), ("two", 16384, 2), ("three", 2, 1)):
            self.quern_run(self.folder(name, "stories260K"), "--cache-dir", cache, *words, QUERN_PACKED_SIZE=limit)
            packed = self.packs(cache)
            self.assertEqual(len(packed), most, "each is about 1 MB")
            self.assertLessEqual(sum(file.stat().st_size for file in packed), limit << 20)
        none = self.own_cache("none")
        self.quern_run(self.folder("four", "gpt2"), "--cache-dir", none, *words, QUERN_PACKED_SIZE=0)
        self.assertEqual(self.packs(none), [])
        self.assert_refused(self.quern_run(self.folder("one", "gpt2"), *words, status=1, QUERN_PACKED_SIZE="much"), "QUERN_PACKED_SIZE")

    def test_shards(self):
        folder = DATA / "formats" / "llama-sharded"
        expected = read_safetensors(folder / "expected.safetensors")
        source, result = self.scratch / "in.safetensors", self.scratch / "out.safetensors"
        write_safetensors(source, {"tokens": expected["input_ids"]})
        self.quern_run(folder, "eval", "--input", source, "--output", result)
        self.assertLess(relative_error(read_safetensors(result)["logits"], expected["logits"]), COMPILED)

    def test_weights_stay_as_they_are_stored(self):
        """bf16 and GGUF's codes are no more bytes in the program than in the checkpoint, and no other numbers."""
        source, result = self.scratch / "in.safetensors", self.scratch / "out.safetensors"
        for checkpoint, word in ((DATA / "formats" / "llama-bf16", "bf16"), (DATA / "formats" / "llama-gguf" / "model-q8_0.gguf", "int8")):
            expected = read_safetensors(DATA / "formats" / "llama-bf16" / "expected.safetensors")
            write_safetensors(source, {"tokens": expected["input_ids"]})
            logits = {}
            for precision in ([], ["--precision", "f32"]):
                self.quern_run(checkpoint, *precision, "eval", "--input", source, "--output", result)
                logits[len(precision)] = read_safetensors(result)["logits"]
            self.assertLess(relative_error(logits[0], logits[2]), 1e-5)
            sizes = {}
            for precision in ("stored", "f32"):
                program, packed = self.scratch / precision, self.scratch / "packed"
                run(QUERN, "compile", checkpoint, "--precision", precision, "-q", "-o", program)
                shutil.rmtree(packed, ignore_errors=True)
                run(program, "pack", "--weights", checkpoint, "-o", packed)
                sizes[precision] = sum(file.stat().st_size for file in packed.glob("*.safetensors"))
            self.assertLess(sizes["stored"], 0.75 * sizes["f32"])
            run(QUERN, "compile", checkpoint, "--precision", "stored", "--compile-to", "raised", "-o", self.scratch / "raised.mlir")
            self.assertIn(f"tensor<{word}[", (self.scratch / "raised.mlir").read_text())
        for words, why in ((["--train"], "--train"), (["--quantize", "int8"], "--quantize")):
            self.assert_refused(run(QUERN, "compile", DATA / "formats" / "llama-bf16", "--precision", "stored", *words, "-o", program, status=1), "stored", why)
        self.assert_refused(run(QUERN, "compile", EXAMPLES / "gpt2.quern", "--precision", "stored", "-o", program, status=1), "stored", "--weights")
        self.assert_refused(run(QUERN, "dump", EXAMPLES / "gpt2.quern", "--precision", "stored", status=1), "stored", "quern compile")

    def test_compile(self):
        program = self.scratch / "story"
        (self.scratch / "model.gguf").write_bytes(b"GGUF")  # beside it is another model, which it does not look at
        run(QUERN, "compile", STORIES, "--embed-weights", "-o", program)
        text = run(program, "generate", "-p", "Once upon a time", "--temp", 0, "-n", 40).out
        self.assertTrue(text.startswith((STORIES / "greedy.txt").read_text()[:60]), text)

    # ---- GGUF files

    def test_gguf(self):
        """The file chooses the spec as the config.json of the same model does; a folder with one such file is that file."""
        folder = self.scratch / "gguf"
        folder.mkdir(exist_ok=True)
        for path in sorted((DATA / "gguf").glob("*.gguf")):
            with self.subTest(path.stem):
                shutil.copy(path, folder / "model-f32.gguf")
                done = run(QUERN, "compile", folder, "--compile-to", "resolved", "-o", self.scratch / "resolved.mlir")
                self.assertIn(".quern", done.err)
                self.assertNotIn("warning", done.err)
        shutil.copy(DATA / "gguf" / "llama.gguf", folder / "model-f32.gguf")
        got, want = self.greedy(folder / "model-f32.gguf", "llama")
        self.assertEqual(got, want)
        (folder / "model-q8_0.gguf").write_bytes(b"GGUF")
        self.assert_refused(self.quern_run(folder, status=1), "2 GGUF files", "model-f32.gguf", "model-q8_0.gguf")

    def test_gguf_with_its_vocabulary(self):
        text = self.quern_run(DATA / "formats" / "llama-gguf" / "model-q8_0.gguf", "-p", "The compiler", "-n", 8, "--temp", 0).out
        self.assertTrue(text.startswith("The compiler"), text)

    # ---- the cache of programs

    def test_compiles_once(self):
        folder, cache = self.folder("once"), self.own_cache("own")
        first = self.quern_run(folder, "--cache-dir", cache, "info")
        self.assertIn("compiling llama.quern", first.err)
        made = {path.name: path.stat().st_ino for path in (cache / "programs").iterdir()}
        second = self.quern_run(folder, "--cache-dir", cache, "info")
        self.assertNotIn("compiling", second.err)
        self.assertEqual(first.out, second.out)
        self.assertEqual(made, {path.name: path.stat().st_ino for path in (cache / "programs").iterdir()})  # a program made anew is another file
        programs = [path for path in (cache / "programs").iterdir() if not path.name.endswith(".xxh128")]
        self.assertEqual(len(programs), 1)
        self.assertIn("compiling", self.quern_run(self.folder("once", rms_norm_eps=3e-4), "--cache-dir", cache, "info").err)
        self.assertIn("compiling", self.quern_run(folder, "--cache-dir", cache, "--set", "rms_norm_eps=1e-2", "info").err)
        damaged = bytearray(programs[0].read_bytes())
        damaged[len(damaged) // 2] ^= 1
        programs[0].write_bytes(damaged)
        self.folder("once")  # the first config again
        self.assertIn("compiling", self.quern_run(folder, "--cache-dir", cache, "info").err)
        self.assertNotIn("compiling", self.quern_run(folder, "--cache-dir", cache, "info").err)

    # ---- the Hugging Face cache

    def hub(self, name="hub"):
        """A cache with one model, as huggingface_hub makes it: snapshots of links to blobs, a file for each branch."""
        hub = self.scratch / name
        shutil.rmtree(hub, ignore_errors=True)
        model, commit = hub / "models--quern--tiny-gpt2", "0123456789abcdef0123456789abcdef01234567"
        (model / "snapshots" / commit).mkdir(parents=True)
        (model / "blobs").mkdir()
        (model / "refs").mkdir()
        (model / "refs" / "main").write_text(commit)
        for number, file in enumerate(("config.json", "model.safetensors")):
            shutil.copy(DATA / "gpt2" / file, model / "blobs" / str(number))
            (model / "snapshots" / commit / file).symlink_to(f"../../blobs/{number}")
        return hub, model, commit

    def test_models_of_the_hub(self):
        hub, model, commit = self.hub()
        home = self.scratch / "home"
        home.mkdir(exist_ok=True)
        (home / "hub").unlink(missing_ok=True)
        (home / "hub").symlink_to(hub)
        for variables in ({"HF_HUB_CACHE": hub}, {"HF_HOME": home}):
            for name in ("quern/tiny-gpt2", "quern/tiny-gpt2@main", f"quern/tiny-gpt2@{commit}"):
                got, want = self.greedy(name, "gpt2", **variables)
                self.assertEqual(got, want)

        def refused(name, *words):
            self.assert_refused(self.quern_run(name, "-n", 1, status=1, HF_HUB_CACHE=hub), *words)

        refused("quern/tiny-gpt3", "quern/tiny-gpt3", "did you mean 'quern/tiny-gpt2'", "hf download quern/tiny-gpt3")
        refused("gpt2-xl", "gpt2-xl", "hf download gpt2-xl")
        refused("quern/tiny-gpt2@v2", "no revision 'v2'", "main", commit)
        (model / "blobs" / "1").unlink()
        refused("quern/tiny-gpt2", "link model.safetensors leads nowhere", "hf download")

    # ---- what does not fit

    def test_refusals(self):
        def refused(folder, *words):
            for command in ("run", "compile"):
                self.assert_refused(run(QUERN, command, folder, *(["-o", self.scratch / "never"] if command == "compile" else []), status=1), *words)
            self.assertFalse((self.scratch / "never").exists())

        refused(self.folder("unknown", model_type="qwen2_zoo", architectures=["Qwen2ZooForCausalLM"]),
                "unknown", "'qwen2_zoo'", "qwen2", "quern list", "docs/porting.md")
        refused(self.folder("head", architectures=["LlamaForSequenceClassification"]), "LlamaForSequenceClassification", "LlamaForCausalLM", "quern init")
        refused(self.folder("quantised", quantization_config={"quant_method": "bitsandbytes", "bits": 4}), "quantised", "bitsandbytes")
        folder = self.folder("none")
        (folder / "config.json").unlink()
        refused(folder, "none", "config.json")
        folder = self.folder("pickle")
        (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
        refused(folder, "pytorch_model.bin", "safetensors")
        (folder / "pytorch_model.bin").rename(folder / "model.safetensors")
        (folder / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 12\n")
        self.assert_refused(self.quern_run(folder, status=1), "model.safetensors", "git lfs pull")
        self.assert_refused(self.quern_run(folder, "--spec", EXAMPLES / "llama.quern", status=1), "given twice", "--weights FOLDER")
        folder = self.folder("other")
        (folder / "model.safetensors").rename(folder / "weights.safetensors")
        refused(folder, "weights.safetensors", "--weights")
        refused(folder / "weights.safetensors", "--config")
        folder = self.folder("shards")
        (folder / "model.safetensors").unlink()
        index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
        (folder / "model-2.safetensors").write_bytes(b"x")
        refused(folder, "1 of 2 files", "model-1.safetensors")
        (folder / "model.safetensors.index.json").write_text('{"weight_map": 3}')
        refused(folder, "no index")
        (folder / "config.json").write_text("{")
        refused(folder, "config.json", "line 1")
        pooled = self.folder("pooled", "bert", architectures=["BertModel"])
        (pooled / "1_Pooling").mkdir()
        (pooled / "1_Pooling" / "config.json").write_text('{"pooling_mode_max_tokens": true, "pooling_mode_mean_tokens": false}')
        refused(pooled, "pooling_mode_max_tokens", "pooling_mode_mean_tokens", "sentence.quern")
        cut = self.scratch / "cut.gguf"
        cut.write_bytes(b"GGUF")
        refused(cut, "cut.gguf", "cut short")
        write_gguf(cut, "bert", {"bert.pooling_type": 4}, {})
        refused(cut, "cut.gguf", "pooling_type is 4")
        write_gguf(cut, "klingon", {"klingon.block_count": 1}, {})
        refused(cut, "cut.gguf", "'klingon'", "quern list")
        self.assert_refused(self.quern_run(STORIES, "--emit", "obj", status=1), "--emit")

    def test_what_is_missing_is_named(self):
        for words, named in ((("run",), "MODEL is missing"), (("compile",), "MODEL is missing"), (("check",), "SPEC is missing"), (("init",), "--from is missing"),
                             (("quantize", "-o", "x"), "CHECKPOINT is missing"), (("list", "llama"), "usage: quern list")):
            self.assert_refused(run(QUERN, *words, status=1), named)
        nothing, alone = self.scratch / "nothing", self.scratch / "alone"
        nothing.mkdir()
        alone.mkdir()  # no model of another test beside it
        program = self.compile("llama", "--config", STORIES / "config.json").rename(alone / "program")
        self.assert_refused(run(program, "generate", "-p", "Once", status=1), "give --weights")
        self.assert_refused(run(program, "generate", "-p", "Once", "--weights", nothing, status=1), "neither model.safetensors nor")
        self.assert_refused(run(program, "generate", "-p", "Once", "--weights", DATA / "llama", status=1), "--tokenizer")

    def test_a_spec_is_written_for_what_run_takes(self):
        for model in (STORIES, STORIES / "config.json", STORIES / "model.safetensors"):
            self.assertEqual(run(QUERN, "init", "--from", model, "-o", "-").out, (EXAMPLES / "llama.quern").read_text())
        hub, _, _ = self.hub()
        os.environ["HF_HUB_CACHE"] = str(hub)
        self.addCleanup(os.environ.pop, "HF_HUB_CACHE")
        self.assertIn("model gpt2", run(QUERN, "init", "--from", "quern/tiny-gpt2", "-o", "-").out)

    # ---- sentence encoders

    def vectors(self, model, inputs):
        """What `quern run MODEL eval` gives for tokens and a mask."""
        source, result = self.scratch / "in.safetensors", self.scratch / "out.safetensors"
        write_safetensors(source, inputs)
        self.quern_run(model, "eval", "--input", source, "--output", result)
        (vectors,) = read_safetensors(result).values()
        return vectors.rows()

    def test_pooling_is_what_the_checkpoint_says(self):
        """The mean of the words or the first of them, from 1_Pooling/config.json and from a GGUF file."""
        for fixture, cls in (("bert", "BertModel"), ("nomic-bert", "NomicBertModel")):
            self.check_pooling(fixture, cls)

    def check_pooling(self, fixture, cls):
        expected, weights = read_safetensors(DATA / fixture / "expected.safetensors"), read_safetensors(DATA / fixture / "model.safetensors")
        config = json.loads((DATA / fixture / "config.json").read_text())
        hidden = expected[f"hidden.{config['num_hidden_layers']}"]
        masks = expected["attention_mask"].rows()
        inputs = {"tokens": expected["input_ids"], "mask": expected["attention_mask"], "segments": expected["token_type_ids"]}
        folder = self.folder("pooling", fixture, architectures=[cls])
        write_safetensors(folder / "model.safetensors", {name: tensor for name, tensor in weights.items() if not name.startswith("cls.")})
        (folder / "1_Pooling").mkdir()
        for number, kind in ((1, "mean_tokens"), (2, "cls_token")):
            (folder / "1_Pooling" / "config.json").write_text(json.dumps({f"pooling_mode_{kind}": True, "word_embedding_dimension": config["hidden_size"]}))
            path = self.scratch / f"{fixture}-{kind}.gguf"
            write_gguf(path, *sentence_encoder(config, weights, [], number))
            for model in (folder, path):
                for row, got in enumerate(self.vectors(model, inputs)):
                    words = [w for w, real in zip(hidden.row(row).rows(), masks[row]) if real]
                    want = words[0] if number == 2 else [sum(column) / len(words) for column in zip(*words)]
                    length = sum(x * x for x in want) ** 0.5
                    for x, y in zip(got, want):
                        self.assertAlmostEqual(x, y / length, 5, f"{model}, {kind}")

    def test_a_sentence_encoder_in_gguf(self):
        """MiniLM as one file: its spec, its vocabulary and the command are found in it."""
        texts = [word for sentence in ("A man is eating a piece of bread.", "naïve café — résumé") for word in ("-p", sentence)]
        path = self.scratch / "minilm.gguf"
        words = (MINILM / "vocab.txt").read_text().splitlines()
        write_gguf(path, *sentence_encoder(json.loads((MINILM / "config.json").read_text()), read_safetensors(MINILM / "model.safetensors"), words, 1))
        want, got = (json.loads(self.quern_run(model, "--", *words).out)["results"] for model, words in ((MINILM, ("embed", "--json", *texts)), (path, ("--json", *texts))))
        for one, other in zip(got, want):
            self.assertEqual(one["tokens"], other["tokens"])
            self.assertGreater(sum(x * y for x, y in zip(one["embedding"], other["embedding"])), 1 - 1e-5)

    # ---- the table

    def test_list(self):
        text = run(QUERN, "list").out
        for row in TABLE:
            line = next(line for line in text.splitlines() if f" {row['spec']}.quern " in line)
            for word in (*row["model_types"], *row["architectures"], row["kind"], row["command"]):
                self.assertIn(word, line)
        listed = json.loads(run(QUERN, "list", "--json").out)
        self.assertEqual(listed, [{k: v for k, v in row.items() if k != "settings"} for row in TABLE])

    def test_what_the_table_says_is_so(self):
        """The kinds are those of the golden tests, and every checkpoint class has a golden model behind it."""
        tested = {}
        for fixture, spec in (SPECS | ZOO).items():
            tested.setdefault(spec, set()).update(json.loads((DATA / fixture / "config.json").read_text())["architectures"])
            row = next(row for row in TABLE if row["spec"] == spec)
            kinds = {"masked language model": ENCODERS, "encoder-decoder": PAIRS, "image classifier": IMAGES, "speech to text": SPEECH, "text and image encoder": CONTRASTS}
            kind = next((kind for kind, members in kinds.items() if fixture in members), "decoder")
            self.assertEqual("image classifier" if row["kind"] == "image encoder" else row["kind"], kind, spec)
        sentences = {json.loads((folder / "config.json").read_text())["architectures"][0] for folder in (DATA / "sentences").iterdir()} | {"NomicBertModel"}
        for row in TABLE:  # sentences_test.py
            if row["kind"] == "sentence encoder":
                tested[row["spec"]] = sentences & set(row["architectures"])
        self.assertEqual({row["spec"]: set(row["architectures"]) for row in TABLE if row["architectures"]}, tested)
        self.assertEqual({path.stem for path in EXAMPLES.glob("*.quern")}, {row["spec"] for row in TABLE})
        page = (ROOT / "docs" / "zoo.md").read_text()
        for name in set().union(*tested.values()) - sentences:
            self.assertIn(f" {name} ", page, "tests/e2e/models/zoo.py makes docs/zoo.md")


class EveryModel(Checkpoints):
    def test_golden_models(self):
        for fixture in SPECS:
            with self.subTest(fixture):
                self.check_golden(fixture)


if __name__ == "__main__":
    unittest.main()
