"""Bad input: each ends with a message that names what is wrong and exit status 1; nothing crashes, nothing half-written stays."""
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import struct
import subprocess
import unittest

from tests.e2e.harness import DATA, EXAMPLES, QUERN, Case, Tensor, ints, no_file_over, random_tokens, read_safetensors, run, write_safetensors

GPT2 = DATA / "gpt2"
STORIES = DATA / "stories260K"


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

    def test_weights_that_become_shorter(self):
        """While they are mapped: a sentence and exit status 2, of a program and of the compiler; no signal, no fault of the compiler."""
        spec, weights, inputs, columns = self.scratch / "wide.quern", self.scratch / "wide.safetensors", self.scratch / "wide-in.safetensors", 1 << 20
        spec.write_text(f'quern 1\nmodel wide {{\n  dim N = 64, V = {columns}\n'
                        '  forward(x: [B, T, N]) -> [B, T, V] { return linear[N -> V](x, false) @ "head" }\n}\n')
        program = self.compile(spec, name="wide")
        write_safetensors(inputs, {"x": Tensor("F32", [1, 1, 64], [0.5] * 64)})
        header = json.dumps({"head.weight": {"dtype": "F32", "shape": [columns, 64], "data_offsets": [0, 256 * columns]}}).encode()
        header = struct.pack("<Q", len(header)) + header
        for command in ([program, "eval"], [QUERN, "interpret", spec]):
            words = [str(word) for word in (*command, "--weights", weights, "--input", inputs, "--output", "/dev/null")]
            status = 0
            for _ in range(20):  # on a busy machine it may have read them before it is stopped
                with open(weights, "wb") as file:
                    file.write(header)
                    file.truncate(len(header) + 256 * columns)  # zeros that no disk holds
                process = subprocess.Popen(words, stderr=subprocess.PIPE, encoding="utf-8")
                maps = pathlib.Path(f"/proc/{process.pid}/maps")
                while process.poll() is None and str(weights) not in maps.read_text():
                    pass
                process.send_signal(signal.SIGSTOP)
                os.truncate(weights, 100_000)
                process.send_signal(signal.SIGCONT)
                error = process.communicate()[1]
                status = process.returncode
                if status:
                    break
            self.assertEqual((status, error), (2, f"error: {weights} became shorter while it was in use, or cannot be read\n"))

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
        """Positions that the program computes from data: the line of the spec is reported, no foreign memory is read."""
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
        spec = pathlib.Path(__file__).with_name("ten_mistakes.quern")
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
        self.assert_refused(run(self.program, "train", status=1), "quern compile --train")
        self.assert_refused(run(self.program, "generate", "--weights", self.scratch / "nowhere", "-p", "Once", status=1), "cannot open", "nowhere")
        dump = (QUERN, "dump", EXAMPLES / "gpt2.quern", "--config", self.config)
        self.assert_refused(run(*dump, "--after", "planned", "--stats", "--set-size", "Q=3", status=1), "no such length", "B, T, cap, past")
        self.assert_refused(run(*dump, "--diff", "rolled", "raised", "--json", status=1), "without --json")
        broken = self.scratch / "broken.json"
        broken.write_text('{"n_layer": ')
        finished = run(QUERN, "check", EXAMPLES / "gpt2.quern", "--config", broken, "--set", "widht=3", status=1)
        self.assertEqual(finished.err.count(" error "), 1, finished.err)
        self.assert_refused(finished, "broken.json:1:", "not JSON")
        self.assert_refused(self.try_generate("--tokens", "1", "--temperatur", 1), "temperatur")

    # ---- disks

    def test_full_disk(self):
        output = self.scratch / "full.safetensors"
        self.assert_refused(self.try_eval(output=output, preexec_fn=no_file_over(4096), inputs={"tokens": random_tokens(3, 4, 40, 128)}), "full.safetensors")
        self.assertFalse(output.exists(), "a part of the output stays")
        program = self.scratch / "full"
        finished = run(QUERN, "compile", EXAMPLES / "gpt2.quern", "--config", self.config, "-o", program, status=1, preexec_fn=no_file_over(4096))
        self.assert_refused(finished, "cannot write")
        self.assertFalse(program.exists(), "a part of the program stays")
        empty = self.scratch / "empty"  # with nothing in the cache Halide writes objects, and ends the process where it cannot
        finished = run(QUERN, "compile", EXAMPLES / "gpt2.quern", "--config", self.config, "-o", program, status=1, preexec_fn=no_file_over(4096), cache=empty)
        self.assert_refused(finished, "kernels were written to", "TMPDIR")

    def test_two_compilers_of_one_program(self):
        program = self.scratch / "both"
        command = [str(word) for word in (QUERN, "compile", EXAMPLES / "gpt2.quern", "--config", self.config, "-o", program, "--quiet")]
        for process in [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(3)]:
            self.assertEqual((process.wait(), process.stderr.read()), (0, b""))
            process.stderr.close()
        run(program, "info")

    def test_little_memory(self):
        """Whatever the limit, an end with a sentence: exit status 2, no signal."""
        ended = set()
        for megabytes in (400, 500, 600, 800, 1200):
            limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
            finished = run(QUERN, "compile", EXAMPLES / "gpt2.quern", "--config", self.config, "--jobs", 1, "--cache-dir", self.scratch / f"cache-{min(megabytes, 600)}",
                           "-o", self.scratch / "small", status=None, preexec_fn=limit)
            if finished.status == 127 or "shared librar" in finished.err:
                continue  # the dynamic linker had no room
            ended.add(finished.status)
            self.assertIn(finished.status, (0, 2), str(finished))
            if finished.status == 2:
                self.assertIn("memory", finished.err)
        self.assertTrue(ended)

    def test_threads_that_cannot_be_started(self):
        """Where no stack has room, one thread does the work, and the compiler says so."""
        limit = lambda: (resource.setrlimit(resource.RLIMIT_STACK, (3 << 30, resource.RLIM_INFINITY)), resource.setrlimit(resource.RLIMIT_AS, (5 << 29, 5 << 29)))
        program = self.scratch / "alone"
        finished = run(QUERN, "compile", EXAMPLES / "gpt2.quern", "--config", self.config, "-o", program, "-j", 4, preexec_fn=limit)
        self.assertIn("warning: the system refused 3 more threads", finished.err)
        finished = run(program, "generate", "--weights", self.weights, "--tokens", "1,2", "-n", 2, "--threads", 3, preexec_fn=limit)
        self.assertIn("warning: the system starts only 1 of 3 threads", finished.err)

    # ---- dumps that were edited

    def test_edited_dumps(self):
        """What a person writes into a dump is refused where it is, before code is made of it."""
        planned = run(QUERN, "dump", EXAMPLES / "gpt2.quern", "--config", self.config, "--after", "planned").out
        first = re.search(r"#quern.place<arena \d+>", planned)[0]
        edits = {
            "no such slot": (first, "#quern.place<arena 99>", "the arena of the function has"),
            "no such output": (first, "#quern.place<output 7>", "the function has 1 such place"),
            "no rows": (first, "#quern.place<rows>", "no quern.remember takes the result"),
            "no loop around": (first, "#quern.place<part 3>", "the loop around it has 0 such places"),
            "a slot that is too small": (re.search(r'quern.arena = \[\["[^]]*\]', planned)[0], 'quern.arena = [["4"]', "the slot does not hold"),
            "no places": (re.search(r"quern.places = \[[^]]*\]", planned)[0], "", "its results have no memory"),
            "no copies": (re.search(r"quern.copy_out = \[[^]]*\], ", planned)[0], "", "its results have no memory"),
            "no arena": (re.search(r"quern.arena = .*?\]\], ", planned)[0], "", "has no plan of memory"),
            "no such state": ("in @forward.state0", "in @forward.state9", "there is no quern.state @forward.state9"),
            "no such kernel": (re.search(r"launch @\w+", planned)[0], "launch @other", "there is no quern.kernel @other"),
            "another kernel": (re.search(r"launch @\w+", planned)[0], "launch " + re.findall(r"launch (@attention\w+)", planned)[0], "launch_c"),
            "an operation of another phase": (re.search(r"%\d+ = quern.launch .*", planned)[0], "%9 = quern.exp %arg0", "error"),
        }
        path = self.scratch / "edited.mlir"
        for name, (old, new, message) in edits.items():
            with self.subTest(name):
                self.assertIn(old, planned)
                path.write_text(planned.replace(old, new, 1))
                finished = run(QUERN, "compile", path, "-o", self.scratch / "never", status=1)
                self.assert_refused(finished, message, "edited.mlir")
                self.assertNotIn("fault of the compiler", finished.err)
        path.write_text("module attributes {a = " + "[" * 100_000 + "]" * 100_000 + "} {}")
        self.assert_refused(run(QUERN, "dump", path, "--after", "planned", status=1), "edited.mlir:1", "levels of brackets")

    # ---- files that are none, or lead the reader astray

    def test_pipes_and_endless_devices(self):
        pipe = self.scratch / "pipe"
        os.mkfifo(pipe)
        self.assert_refused(self.try_eval(pipe), "pipe", "no regular file")
        self.assert_refused(run(QUERN, "check", "/dev/zero", status=1), "/dev/zero", "longer than")
        self.assert_refused(run(QUERN, "check", EXAMPLES / "gpt2.quern", "--config", "/dev/zero", status=1), "/dev/zero", "longer than")
        dump, folder = self.scratch / "zero.mlir", self.scratch / "endless"
        dump.symlink_to("/dev/zero")
        folder.mkdir()
        (folder / "model.safetensors").symlink_to(self.weights)
        (folder / "generation_config.json").symlink_to("/dev/zero")
        for words in ((QUERN, "dump", dump), (QUERN, "tokenizer", "train", "/dev/zero", "-o", self.scratch / "never.json"), (QUERN, "tensors", dump.with_suffix(".json")),
                      (self.program, "generate", "--weights", folder, "--tokens", "1", "-n", 1)):
            dump.with_suffix(".json").unlink(missing_ok=True)
            dump.with_suffix(".json").symlink_to("/dev/zero")
            self.assert_refused(run(*words, status=1), "longer than 16.8 MB")

    def test_deep_json(self):
        """Every reader has a limit of depth."""
        deep = self.scratch / "deep.json"
        deep.write_text('{"x": ' + "[" * 200_000 + "]" * 200_000 + "}")
        source = self.scratch / "in.safetensors"
        write_safetensors(source, {"tokens": ints([[3, 4, 5]])})
        beside = lambda name: ("--weights", self.beside(name, deep.read_text()))
        adapter = self.beside("adapter_config.json", deep.read_text())
        (adapter / "adapter_model.safetensors").touch()
        spec = (EXAMPLES / "gpt2.quern", "--config", self.config)
        for words in ((QUERN, "tensors", deep), (QUERN, "check", spec[0], "--config", deep), (QUERN, "dump", *spec, "--html", "/dev/null", "--profile", deep),
                      (QUERN, "interpret", *spec, "--weights", deep, "--input", source, "--print"), (QUERN, "interpret", *spec, "--weights", GPT2, "--input", deep, "--print"),
                      (QUERN, "run", beside("config.json")[1]), (QUERN, "init", "--from", beside("config.json")[1]), (QUERN, "quantize", beside("config.json")[1], "-o", deep.parent / "never"),
                      (self.program, "generate", *beside("generation_config.json"), "--tokens", "1"), (self.program, "generate", *beside("tokenizer.json"), "-p", "a"),
                      (self.program, "generate", *beside("model.safetensors.index.json"), "--tokens", "1"), (self.program, "chat", *beside("tokenizer_config.json")),
                      (self.program, "generate", "--weights", self.weights, "--adapter", adapter, "--tokens", "1")):
            self.assert_refused(run(*words, status=1), ".json", "levels of nesting")

    def beside(self, name, text):
        """A checkpoint's folder with one file of such a text."""
        folder = self.scratch / f"beside-{name}"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(GPT2, folder, ignore=lambda *_: [name, "expected.safetensors"])
        if name == "model.safetensors.index.json":
            (folder / "model.safetensors").unlink()
        shutil.copy(STORIES / "tokenizer.json", folder)
        (folder / name).write_text(text)
        return folder

    def test_names_reach_no_terminal(self):
        path = self.scratch / "names.safetensors"
        write_safetensors(path, {"a\x1b[31m": Tensor("F32", [1], [0])})
        shown = run(QUERN, "tensors", path).out
        self.assertNotIn("\x1b", shown)
        self.assertIn("a\\x1b[31m", shown)
        config = self.scratch / "names.json"
        config.write_text(json.dumps(json.loads((STORIES / "config.json").read_text()) | {"hidden_act": "\x1b[31m"}))
        for refused in (self.try_eval(path), run(QUERN, "check", EXAMPLES / "llama.quern", "--config", config, status=1),
                        run(QUERN, "interpret", EXAMPLES / "gpt2.quern", "--config", self.config, "--weights", self.weights, "--input", path, "--print", status=1)):
            self.assertNotIn("\x1b", refused.err)
            self.assertIn("\\x1b[31m", refused.err)

    def test_index_with_a_key_twice(self):
        folder = self.scratch / "twice"
        folder.mkdir()
        for name in ("a", "b"):
            write_safetensors(folder / f"{name}.safetensors", {"x": Tensor("F32", [1], [0])})
        (folder / "model.safetensors.index.json").write_text('{"weight_map": {"x": "a.safetensors", "x": "b.safetensors"}}')
        self.assert_refused(self.try_eval(folder), "'x' twice")
        for text, message in (('{"weight_map": {"x": 3}}', "names for 'x' the shard ''"), ("[]", "has no object 'weight_map'"), ("{}", "has no object 'weight_map'")):
            (folder / "model.safetensors.index.json").write_text(text)
            self.assert_refused(self.try_eval(folder), message)

    def test_training_needs_a_loss(self):
        finished = run(QUERN, "compile", EXAMPLES / "sentence.quern", "--train", "-o", self.scratch / "never", status=1)
        self.assert_refused(finished, "loss")
        self.assertNotIn("fault of the compiler", finished.err)
        spec = self.write_spec("rows", 'quern 1\nmodel rows {\n  dim D = 4\n  loss(x: [B, T, D]) -> [B, T] { param w: [D] @ "w"\n    return sum[D](x * w) }\n}\n')
        for words in (("compile", spec, "--train", "-o", self.scratch / "never"), ("gradcheck", spec), ("dump", spec, "--train", "--after", "planned")):
            finished = run(QUERN, *words, status=1)
            self.assert_refused(finished, "rows.quern:4:", "each position of [B, T]; take its mean or sum")
            self.assertNotIn("func.func", finished.err)

    def test_full_disk_behind_stdout(self):
        for words in (("--help",), ("dump", EXAMPLES / "gpt2.quern", "--config", self.config), ("compile", "--help"), ("--version",)):
            with open("/dev/full", "w") as full:
                finished = run(QUERN, *words, status=1, stdout=full)
                self.assertIn("cannot write to standard output", finished.err, words)
        with open("/dev/full", "w") as full:
            finished = run(f"{QUERN}-reduce", "--help", status=1, stdout=full)
            self.assertIn("cannot write to standard output", finished.err)
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
