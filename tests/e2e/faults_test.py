"""Bad input: each ends with a message that names what is wrong and exit status 1; nothing crashes, nothing half-written stays."""
import json
import resource
import signal
import unittest

from harness import DATA, EXAMPLES, QUERN, ROOT, Case, Tensor, ints, random_tokens, read_safetensors, run, write_safetensors

GPT2 = DATA / "gpt2"
STORIES = DATA / "stories260K"


def small_disk():
    """In a child: no file may grow beyond 4 KB, as on a disk that is nearly full (EFBIG instead of ENOSPC; both come from write)."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


class Faults(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.config, cls.weights = GPT2 / "config.json", GPT2 / "model.safetensors"
        cls.program = cls.compile("gpt2", "--config", cls.config)

    def try_eval(self, weights=None, inputs=None, output=None, **options):
        source = self.scratch / "in.safetensors"
        write_safetensors(source, inputs or {"tokens": ints([[3, 4, 5]])})
        return run(self.program, "eval", "--weights", weights or self.weights, "--input", source, "--output",
                   output or self.scratch / "out.safetensors", status=1, **options)

    def try_generate(self, *options, **more):
        return run(self.program, "generate", "--weights", self.weights, *options, status=1, **more)

    # ---- weights

    def damaged(self, change):
        """The model's weights after `change(dictionary of tensors)`."""
        tensors = read_safetensors(self.weights)
        change(tensors)
        path = self.scratch / "damaged.safetensors"
        write_safetensors(path, tensors)
        return path

    def test_truncated_weights(self):
        whole = self.weights.read_bytes()
        path = self.scratch / "short.safetensors"
        for size in (0, 4, 8, 100, 2000, len(whole) // 2, len(whole) - 1):
            path.write_bytes(whole[:size])
            self.assert_refused(self.try_eval(path), "short.safetensors")

    def test_all_misfits_at_once(self):
        def change(tensors):
            del tensors["transformer.h.0.attn.c_attn.bias"]
            del tensors["transformer.wpe.weight"]
            tensors["transformer.h.1.mlp.c_fc.weight"].shape.reverse()
            tensors["stranger"] = Tensor("F32", [2], [0, 0])

        names = ("transformer.h.0.attn.c_attn.bias", "transformer.wpe.weight", "transformer.h.1.mlp.c_fc.weight", "stranger")
        path = self.damaged(change)
        self.assert_refused(self.try_eval(path), *names)
        source = self.scratch / "in.safetensors"
        finished = run(QUERN, "interpret", EXAMPLES / "gpt2.quern", "--config", self.config, "--weights", path, "--input", source,
                       "--output", self.scratch / "out.safetensors", status=1)
        self.assert_refused(finished, *names[:3])  # the interpreter reads what it needs and passes over strangers

    def test_no_weights(self):
        self.assert_refused(self.try_eval(self.scratch / "nowhere.safetensors"), "nowhere.safetensors")

    # ---- inputs

    def test_unknown_tokens(self):
        self.assert_refused(self.try_generate("--tokens", "1,9999", "-n", 2), "9999", "127")
        self.assert_refused(self.try_generate("--tokens", "1,-3", "-n", 2), "-3")
        self.assert_refused(self.try_generate("--tokens", "1,x", "-n", 2), "x")
        self.assert_refused(self.try_eval(inputs={"tokens": ints([[1, 9999]])}), "9999", "tokens")

    def test_prompt_longer_than_the_context(self):
        long = random_tokens(1, 1, 60, 128)
        self.assert_refused(self.try_generate("--tokens", ",".join(map(str, long.data)), "-n", 2), "60", "48")
        self.assert_refused(self.try_eval(inputs={"tokens": long}), "60", "48")

    def test_wrong_inputs(self):
        self.assert_refused(self.try_eval(inputs={"words": ints([[1, 2]])}), "words", "tokens")
        self.assert_refused(self.try_eval(inputs={"tokens": ints([[1, 2]]), "extra": ints([[1]])}), "extra", "tokens")
        self.assert_refused(self.try_eval(inputs={"tokens": Tensor("I64", [3], [1, 2, 3])}), "tokens")
        self.assert_refused(self.try_eval(inputs={"tokens": Tensor("F32", [1, 2], [1.5, 2])}), "tokens")

    def test_position_outside_a_table(self):
        """Positions that the program computes from data: the place in the spec is told, no foreign memory is read."""
        spec = self.scratch / "picks.quern"
        spec.write_text("""quern 1
model picks {
  config { size = 5 }
  dim N = size, D = 3
  forward(tokens: int[B, T]) -> [B, T, D] {
    param table: [N, D] @ "table"
    return table[N = tokens * 2 - 1]
  }
}
""")
        program, weights = self.compile(spec, name="picks"), self.scratch / "picks.safetensors"
        write_safetensors(weights, {"table": Tensor("F32", [5, 3], list(range(15)))})
        inside = self.evaluate(program, weights, {"tokens": ints([[1, 2]])})["logits"]
        self.assertEqual(list(inside.data), [3, 4, 5, 9, 10, 11])
        for tokens in ([1, 3], [0, 1]):
            source = self.scratch / "in.safetensors"
            write_safetensors(source, {"tokens": ints([tokens])})
            finished = run(program, "eval", "--weights", weights, "--input", source, "--output", self.scratch / "outside.safetensors", status=1)
            self.assert_refused(finished, "picks.quern:7:", "along N")

    def test_text_without_a_tokenizer(self):
        self.assert_refused(self.try_generate("-p", "Once", "-n", 2), "tokenizer")

    # ---- specs and configs

    def test_ten_mistakes_in_one_report(self):
        spec = ROOT / "tests" / "e2e" / "ten_mistakes.quern"
        finished = run(QUERN, "check", spec, status=1)
        for number, line in enumerate(spec.read_text().splitlines(), 1):
            place = f"ten_mistakes.quern:{number}:"
            if "# MISTAKE" in line:
                self.assertIn(place, finished.err, line)
        self.assertEqual(finished.err.count(" error"), 10, str(finished))
        self.assert_refused(run(QUERN, "compile", spec, "-o", self.scratch / "never", status=1), "ten_mistakes.quern")
        self.assertFalse((self.scratch / "never").exists())

    def refused_config(self, spec, fixture, **changes):
        config = json.loads((DATA / fixture / "config.json").read_text()) | changes
        path = self.scratch / "config.json"
        path.write_text(json.dumps(config))
        return self.compile(spec, "--config", path, name="never", status=1)

    def test_refused_configs(self):
        self.assert_refused(self.refused_config("bert", "bert", position_embedding_type="relative_key"), "position_embedding_type", "relative_key")
        self.assert_refused(self.refused_config("llama", "llama", hidden_act="snake"), "snake")
        self.assert_refused(self.refused_config("llama", "llama", num_attention_heads=5), "num_attention_heads")
        self.assert_refused(self.refused_config("llama", "llama", hidden_size="wide"), "hidden_size")
        broken = self.scratch / "broken.json"
        broken.write_text('{"hidden_size": 64,')
        self.assert_refused(self.compile("llama", "--config", broken, name="never", status=1), "broken.json")

    def test_missing_files_and_slips(self):
        self.assert_refused(run(QUERN, "compile", self.scratch / "none.quern", status=1), "none.quern")
        self.assert_refused(run(QUERN, "compile", EXAMPLES / "gpt2.quern", "--config", self.scratch / "none.json", status=1), "none.json")
        self.assert_refused(run(QUERN, "compile", EXAMPLES / "gpt2.quern", "--set", "widht=3", status=1), "widht")
        self.assert_refused(run(QUERN, "comple", EXAMPLES / "gpt2.quern", status=1), "comple")
        self.assert_refused(run(self.program, "generat", status=1), "generat")
        self.assert_refused(self.try_generate("--tokens", "1", "--temperatur", 1), "temperatur")

    # ---- disks

    def test_full_disk(self):
        output = self.scratch / "full.safetensors"
        self.assert_refused(self.try_eval(output=output, preexec_fn=small_disk, inputs={"tokens": random_tokens(3, 4, 40, 128)}), "full.safetensors")
        self.assertFalse(output.exists(), "a part of the output stays")
        program = self.scratch / "full"
        finished = run(QUERN, "compile", EXAMPLES / "gpt2.quern", "--config", self.config, "-o", program, status=1, preexec_fn=small_disk)
        self.assert_refused(finished, "cannot write")
        self.assertFalse(program.exists(), "a part of the program stays")

    def test_full_disk_behind_stdout(self):
        with open("/dev/full", "w") as full:
            finished = self.try_generate("--tokens", "1,2,3", "-n", 4, "--temp", 0, "--json", stdout=full)
            self.assertNotEqual(finished.err.strip(), "")

    def test_unwritable_output(self):
        self.assert_refused(self.try_eval(output=self.scratch / "no" / "such" / "folder.safetensors"), "folder.safetensors")

    # ---- tokenizers

    def test_damaged_tokenizer(self):
        program = self.compile("llama", "--config", STORIES / "config.json", name="story")
        path = self.scratch / "tokenizer.json"
        text = (STORIES / "tokenizer.json").read_text()
        for damaged in ("", "{}", text[: len(text) // 2], text.replace('"vocab"', '"vocap"')):
            path.write_text(damaged)
            finished = run(program, "generate", "--weights", STORIES / "model.safetensors", "--tokenizer", path, "-p", "Once", "-n", 2, status=1)
            self.assert_refused(finished, "tokenizer.json")


if __name__ == "__main__":
    unittest.main()
