"""`quern quantize`: what it writes is read back with the bits that --quantize gives, whatever the model; broken folders are refused; formats are chosen for a
size or a loss."""
import json
import random
import re
import shutil
import unittest

from tests.e2e.harness import DATA, EXAMPLES, QUERN, Case, ints, random_tokens, read_safetensors, relative_error, run, write_safetensors

STORIES = DATA / "stories260K"


def read_header(path):
    """The header of a safetensors file."""
    raw = path.read_bytes()
    return json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])


class Quantized(Case):
    @classmethod
    def quantize(cls, *words, name="quantized", status=0, **options):
        """The folder, or with another status what was said."""
        finished = run(QUERN, "quantize", *words, "-o", cls.scratch / name, status=status, **options)
        return cls.scratch / name if status == 0 else finished

    def packed(self, program, weights, name):
        """Every bit that the program's kernels read."""
        run(program, "pack", "--weights", weights, "-o", self.scratch / name)
        return (self.scratch / name / "model.safetensors").read_bytes()

    def check(self, fixture, spec, quantize):
        folder = DATA / fixture
        config = folder / "config.json"
        program = self.compile(spec, "--config", config, "--quantize", quantize, name="words")
        written = self.quantize(EXAMPLES / f"{spec}.quern", "--config", config, "--weights", folder / "model.safetensors", "--quantize", quantize)
        self.assertEqual(self.packed(program, folder / "model.safetensors", "a"), self.packed(program, written, "b"), f"{fixture} in {quantize}")
        # The folder says its formats itself.
        again = self.compile(spec, "--weights", written, name="folder")
        self.assertEqual(self.packed(program, written, "b"), self.packed(again, written, "c"))
        published, stored = read_header(folder / "model.safetensors"), read_header(written / "model.safetensors")
        for name in stored:
            self.assertIn(re.sub(r"(\.scales|\.shape|_scale)$", "", name), published)
        return program, again, written

    def check_published_order(self, quantize):
        program, again, written = self.check("gpt2", "gpt2", quantize)
        tokens = {"tokens": random_tokens(1, 2, 9, 100)}
        self.assertEqual(self.evaluate(program, DATA / "gpt2" / "model.safetensors", tokens)["logits"].data, self.evaluate(again, written, tokens)["logits"].data)


class RoundTrip(Quantized):
    """Matrices stored either way, joined weights, experts, tables, encoders; rows that are no multiple of 32."""

    def test_published_order(self):
        for quantize in ("int8", "int8_g128", "int4", "bf16"):
            self.check_published_order(quantize)

    def test_joined_weights(self):
        self.check("llama", "llama", "int4,*k_proj*=int8")

    def test_experts(self):
        self.check("mixtral", "mixtral", "int4")

    def test_super_blocks(self):
        """Along either dimension; a table that a pattern names."""
        self.check("gpt2", "gpt2", "q4_k,*c_proj*=q5_k,*wte*=q6_k")

    def test_floats(self):
        """Along either dimension; a table that a pattern names."""
        self.check("gpt2", "gpt2", "f8_e4m3,*c_proj*=f8_e5m2,*wte*=f8_e4m3")

    def test_tables(self):
        """Rows are looked up in codes, those of the tied head, which then are in memory once."""
        config, weights, formats = DATA / "gpt2" / "config.json", DATA / "gpt2" / "model.safetensors", "int4,*wte*=int8"
        program, again, written = self.check("gpt2", "gpt2", formats)
        (name, table), = ((name, entry) for name, entry in read_header(weights).items() if "wte" in name)
        self.assertEqual(read_header(written / "model.safetensors")[name]["dtype"], "I8")
        inputs = {"tokens": random_tokens(1, 2, 9, 100)}
        got = self.evaluate(program, weights, inputs)["logits"]
        want = self.interpret("gpt2", weights, inputs, "--config", config, "--quantize", formats, "--after", "narrow-storage")["logits"]
        self.assertLess(relative_error(got, want), 1e-5)
        usual = self.compile("gpt2", "--config", config, "--quantize", "int4", name="usual")  # which looks up in f32 beside the head's int8
        sizes = [len(self.packed(one, weights, "size")) for one in (program, usual)]
        self.assertAlmostEqual(sizes[1] - sizes[0], 4 * table["shape"][0] * table["shape"][1], delta=1024)

    def test_encoder(self):
        self.check("bert", "bert", "int8")

    def test_pairs(self):
        self.check("t5", "t5", "int4")

    def test_other_programs_compute_with_the_same_numbers(self):
        config = DATA / "llama" / "config.json"
        written = self.quantize(EXAMPLES / "llama.quern", "--config", config, "--weights", DATA / "llama" / "model.safetensors", "--quantize", "int4")
        plain, coded = self.compile("llama", "--config", config, name="plain"), self.compile("llama", "--weights", written, name="coded")
        tokens = {"tokens": random_tokens(1, 2, 9, 100)}
        got, want = (self.evaluate(program, written, tokens)["logits"] for program in (plain, coded))
        self.assertLess(relative_error(got, want), 1e-5)
        exact = self.evaluate(plain, DATA / "llama" / "model.safetensors", tokens)["logits"]
        self.assertGreater(relative_error(got, exact), 1e-3)

    def test_gguf(self):
        """Blocks of a GGUF file are moved; its config and vocabulary become files."""
        source = DATA / "formats" / "llama-gguf" / "model-q8_0.gguf"
        written = self.quantize(source, "--quantize", "int8")
        program = self.scratch / "program"
        run(QUERN, "compile", source, "--quantize", "int8", "-o", program)
        self.assertEqual(self.packed(program, source, "a"), self.packed(program, written, "b"))
        said = run(QUERN, "run", written, "-p", "a", "-n", "4", "--temp", "0").out
        self.assertEqual(said, run(QUERN, "run", source, "--quantize", "int8", "-p", "a", "-n", "4", "--temp", "0").out)

    def test_quantised_again(self):
        """A quantised folder is a checkpoint: in the same formats nothing changes, and it may take its own place."""
        written = self.quantize(STORIES, "--quantize", "int8")
        first = (written / "model.safetensors").read_bytes()
        self.quantize(written, "--quantize", "int8")
        self.assertEqual((written / "model.safetensors").read_bytes(), first)
        self.assertEqual([p.name for p in self.scratch.iterdir() if ".quern-" in p.name], [])


class MoreRoundTrip(Quantized):
    """`More`: in the tier `nightly`."""

    def test_rows_in_codes_beside_f32(self):
        self.check_published_order("w4a8,*c_proj*=f32")

    def test_super_blocks(self):
        """Joined, and experts, too."""
        self.check("gpt2", "gpt2", "q6_k,*c_proj*=q5_k")
        self.check("llama", "llama", "q4_k,*k_proj*=q5_k,*embed_tokens*=q6_k")
        self.check("llama", "llama", "q8_k")
        self.check("mixtral", "mixtral", "q4_k")

    def test_floats_of_experts(self):
        self.check("mixtral", "mixtral", "f8_e4m3")


class Folder(Quantized):
    def test_what_goes_along(self):
        written = self.quantize(STORIES, "--quantize", "int4")
        for name in ("tokenizer.json", "tokenizer_config.json"):
            self.assertEqual((written / name).read_bytes(), (STORIES / name).read_bytes())
        config = json.loads((written / "config.json").read_text())
        self.assertEqual(config.pop("quantization_config"), {"quant_method": "quern", "quantize": "int4"})
        self.assertEqual(config, json.loads((STORIES / "config.json").read_text()))
        self.assertLess((written / "model.safetensors").stat().st_size, 0.6 * (STORIES / "model.safetensors").stat().st_size)
        want = run(QUERN, "run", STORIES, "--quantize", "int4", "-p", "Once upon", "-n", "20", "--temp", "0").out
        self.assertEqual(run(QUERN, "run", written, "-p", "Once upon", "-n", "20", "--temp", "0").out, want)

    def test_formats_in_a_file(self):
        """Lines mean what words mean, here and where a program is compiled."""
        lines = self.scratch / "mix.txt"
        lines.write_text("# for stories\nint4\n\n*.down_proj.* = int8   # sensitive\n")
        by_file, by_words = self.quantize(STORIES, "--quantize", lines, name="a"), self.quantize(STORIES, "--quantize", "int4,*.down_proj.*=int8", name="b")
        self.assertEqual((by_file / "model.safetensors").read_bytes(), (by_words / "model.safetensors").read_bytes())
        self.assertEqual((by_file / "config.json").read_text(), (by_words / "config.json").read_text())
        programs = [self.scratch / "file", self.scratch / "words"]
        for program, quantize in zip(programs, (lines, "int4,*.down_proj.*=int8")):
            run(QUERN, "compile", STORIES, "--quantize", quantize, "-o", program)
        self.assertEqual(programs[0].read_bytes(), programs[1].read_bytes())

    def test_refusals(self):
        lines = self.scratch / "wrong.txt"
        for text, place, words in (("int8\nfast\n", 2, "no format"), ("*.x = int9", 1, "int9"), ("*=int8\nint4", 2, "comes first"), ("= int8", 1, "GLOB"),
                                   ("a,b = int8", 1, "comma")):
            lines.write_text(text)
            self.assert_refused(self.quantize(STORIES, "--quantize", lines, status=1), f"wrong.txt:{place}:", words)
        lines.write_text("# nothing\n")
        self.assert_refused(self.quantize(STORIES, "--quantize", lines, status=1), "names no format")
        self.assert_refused(self.quantize(STORIES, "--quantize", "absent.txt", status=1), "absent.txt", "no format")
        self.assert_refused(self.quantize(STORIES, "--size", "1M", status=1), "--text")
        self.assert_refused(self.quantize(STORIES, "--report", "x.html", status=1), "--text")
        self.assert_refused(self.quantize(EXAMPLES / "gpt2.quern", status=1), "--weights")
        self.assert_refused(self.quantize(self.scratch / "nowhere", status=1), "nowhere")
        self.assert_refused(self.quantize(DATA / "bert", "--text", lines, status=1), "next token")
        full = self.scratch / "full"
        full.mkdir()
        (full / "mine.txt").write_text("x")
        self.assert_refused(self.quantize(STORIES, name="full", status=1), "full", "choose another folder")
        self.assertEqual([p.name for p in full.iterdir()], ["mine.txt"])

    def test_a_full_disk_leaves_nothing(self):
        before = sorted(p.name for p in self.scratch.iterdir())
        finished = run("bash", "-c", f"ulimit -f 300; exec '{QUERN}' quantize '{STORIES}' -o '{self.scratch}/cut'", status=1)
        self.assert_refused(finished, "cannot write", f"{self.scratch}/cut/model.safetensors")
        self.assertEqual(sorted(p.name for p in self.scratch.iterdir()), before)

    def test_broken_folders(self):
        """Every damage is an error or other numbers, never a signal."""
        written = self.quantize(STORIES, "--quantize", "int4,*q_proj*=int8", name="whole")
        program = self.scratch / "program"
        run(QUERN, "compile", written, "-o", program)
        broken = self.scratch / "broken"
        shutil.copytree(written, broken)
        whole = (written / "model.safetensors").read_bytes()
        write_safetensors(self.scratch / "in", {"tokens": ints([[1, 2, 3]])})
        source, ended = random.Random(5), []
        header = 8 + int.from_bytes(whole[:8], "little")
        for round in range(60):
            damaged = bytearray(whole)
            if round % 3 == 0:
                del damaged[source.randrange(len(damaged)):]
            else:
                for _ in range(3):
                    damaged[source.randrange(header if round % 3 == 1 else len(damaged))] = source.randrange(256)
            (broken / "model.safetensors").write_bytes(damaged)
            finished = run(program, "eval", "--weights", broken, "--input", self.scratch / "in", "--output", self.scratch / "out", status=None)
            self.assertIn(finished.status, (0, 1), str(finished))
            ended.append(finished.status)
        self.assertGreater(ended.count(1), 30)
        (broken / "model.safetensors").write_bytes(whole)
        for config, words in (({"quantize": 3}, "quantize"), ({"quantize": "int9"}, "int9"), ({}, "quantize")):
            text = json.loads((written / "config.json").read_text())
            text["quantization_config"] = {"quant_method": "quern", **config}
            (broken / "config.json").write_text(json.dumps(text))
            self.assert_refused(run(QUERN, "compile", broken, "-o", program, status=1), "config.json", words)


class Chosen(Quantized):
    """Formats by what a text loses."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.text = cls.scratch / "stories.txt"
        said = run(QUERN, "run", STORIES, "-p", "Once upon a time", "-n", "200", "--temp", "0.7", "--seed", "3").out
        cls.text.write_text(said * 2)
        cls.given = (STORIES, "--text", cls.text, "--tokens", "256", "--length", "128", "--rounds", "1")

    def growth(self, finished):
        return float(re.search(r"^quantised .*?([+-][\d.]+)%", finished.out, re.M).group(1))

    def divergence(self, out):
        return float(re.search(r"^quantised .*%\s+(\S+)", out, re.M).group(1))

    def test_table_and_page(self):
        page = self.scratch / "report.html"
        finished = run(QUERN, "quantize", *self.given, "--quantize", "int4", "-o", self.scratch / "a", "--report", page)
        for words in ("perplexity", "KL divergence", "decode", "relative error", "model.layers.*.mlp.down_proj.weight", "unquantised"):
            self.assertIn(words, finished.out)
        self.assertLess(abs(self.growth(finished)), 30)
        text = page.read_text()
        self.assertEqual(set(re.findall(r"https?://[\w./]+", text)), set())
        self.assertNotIn("How the mix", text)
        layers = json.loads((STORIES / "config.json").read_text())["num_hidden_layers"]
        self.assertEqual(len(re.findall(r"down_proj\.weight: 0\.\d+</title>", text)), layers)
        # Nothing is lost where nothing is rounded.
        exact = run(QUERN, "quantize", *self.given, "--quantize", "f32", "-o", self.scratch / "b").out
        self.assertRegex(exact, r"quantised .*\+0\.000% +0\.00e\+00")

    def test_importance(self):
        """Codes that lose less where the text multiplies by more; the folder alone has them."""
        shakespeare, end = DATA / "tinyshakespeare.txt", self.scratch / "end.txt"
        end.write_text(shakespeare.read_text()[-20_000:])
        given = (EXAMPLES / "gpt2.quern", "--weights", EXAMPLES / "novels" / "model", "--quantize", "int4", "--text", end, "--tokens", "1024", "--length", "128", "--rounds", "1")
        usual = run(QUERN, "quantize", *given, "-o", self.scratch / "usual").out
        weighted = run(QUERN, "quantize", *given, "--importance", shakespeare, "-o", self.scratch / "weighted").out
        self.assertLess(self.divergence(weighted), 0.85 * self.divergence(usual))
        codes = [read_header(self.scratch / name / "model.safetensors") for name in ("usual", "weighted")]
        self.assertEqual(codes[0], codes[1])

    def chosen(self, *goal, name):
        """What was said, the mix, and its bytes."""
        folder = self.scratch / name
        finished = run(QUERN, "quantize", *self.given, *goal, "-o", folder)
        mix = json.loads((folder / "config.json").read_text())["quantization_config"]["quantize"]
        return finished, mix, (folder / "model.safetensors").stat().st_size

    def test_goals(self):
        finished, _, _ = self.chosen("--target-perplexity", "1%", name="loss")
        self.assertLessEqual(self.growth(finished), 1)
        self.assertIn("(chosen)", finished.out)
        self.assert_refused(run(QUERN, "quantize", *self.given, "--size", "50K", "-o", self.scratch / "no", status=1), "cannot be reached", "smallest mix")
        self.assert_refused(run(QUERN, "quantize", *self.given, "--size", "500K", "--target-perplexity", "0%", "-o", self.scratch / "no", status=1), "no mix")
        for words in (("--target-perplexity", "0.5"), ("--target-perplexity", "-1%"), ("--size", "much"), ("--size", "1M", "--quantize", "w16a16")):
            self.assert_refused(run(QUERN, "quantize", *self.given, *words, "-o", self.scratch / "no", status=1), words[-1])
        self.assertFalse((self.scratch / "no").exists())


class MoreGoals(Chosen):
    """`More`: in the tier `nightly`."""

    test_table_and_page = test_importance = test_goals = None

    def test_the_same_again(self):
        (_, *first), (_, *again) = (self.chosen("--target-perplexity", "1%", name=name) for name in ("first", "again"))
        self.assertEqual(first, again)

    def test_room_for_more(self):
        small, large = (self.chosen("--size", size, name=size)[2] for size in ("500K", "100M"))
        self.assertGreater(large, small)
        self.assertLess(small, 520_000)


if __name__ == "__main__":
    unittest.main()
