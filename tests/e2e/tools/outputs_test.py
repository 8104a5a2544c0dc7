"""Every command that writes: through devices, pipes and links as a shell's own redirection would, whole or not at all, and nothing beside it."""
import os
import shutil
import stat
import threading
import unittest

from tests.e2e.harness import DATA, EXAMPLES, QUERN, SCALED, Case, ints, no_file_over, run, write_safetensors

GPT2 = DATA / "gpt2"
STORIES = DATA / "stories260K"
WORDS = """quern 1
model words {
  dim V = 256, D = 16
  forward(tokens: int[B, T]) -> [B, T, V] { return linear[D -> V](embedding[V -> D](tokens) @ "words", false) @ "head" }
}
"""


class Outputs(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.spec, cls.plain = cls.write_spec("words", WORDS), cls.write_spec("scaled", SCALED)  # few plans make a bundle of the latter
        cls.program = cls.compile(cls.spec, "--train", name="program")
        cls.gpt2 = cls.compile("gpt2", "--config", GPT2 / "config.json", name="gpt2")
        cls.inputs, cls.weights = cls.scratch / "inputs.safetensors", cls.scratch / "weights.safetensors"
        write_safetensors(cls.inputs, {"tokens": ints([[3, 4, 5]])})
        run(cls.program, "train", "--data", cls.text("text"), "--tokenizer", "bytes", "--output", cls.scratch / "run", "--steps", 1, "--batch", 1,
            "--length", 8, "--sample-every", 0, "--quiet")
        cls.checkpoint = cls.scratch / "run" / "checkpoint-1"
        shutil.copy(cls.checkpoint / "model.safetensors", cls.weights)
        cls.bundle, cls.database = cls.scratch / "bundle", cls.scratch / "plans.sqlite"
        run(QUERN, "tune", cls.plain, "--bundle", cls.bundle, "--database", cls.database)

    @classmethod
    def text(cls, name):
        path = cls.scratch / name
        path.write_text("to be or not to be, that is the question\n" * 50)
        return path

    def writers(self):
        """By name: the command that writes to a path. What it writes is the same each time, but where figures or its name are in it (in TIMED)."""
        gpt2 = (EXAMPLES / "gpt2.quern", "--config", GPT2 / "config.json")
        given = ("--weights", self.weights, "--input", self.inputs)
        short = ("generate", "--weights", self.weights, "--tokens", "1,2", "-n", 2)
        return {
            "compile": lambda out: (QUERN, "compile", *gpt2, "-o", out),
            "compile --embed-weights": lambda out: (QUERN, "compile", *gpt2, "--weights", GPT2, "--embed-weights", "-o", out),
            "compile --compile-to": lambda out: (QUERN, "compile", *gpt2, "--compile-to", "rolled", "-o", out),
            "compile --emit lib": lambda out: (QUERN, "compile", self.spec, "--emit", "lib", "-o", out),
            "dump --html": lambda out: (QUERN, "dump", self.spec, "--html", out, "--machine", "100,10"),
            "interpret": lambda out: (QUERN, "interpret", self.spec, *given, "--output", out),
            "tensors": lambda out: (QUERN, "tensors", self.inputs, "-o", out),
            "init": lambda out: (QUERN, "init", "--from", GPT2, "-o", out),
            "tokenizer": lambda out: (QUERN, "tokenizer", "train", self.text("text"), "--vocabulary", 270, "-o", out),
            "quantize --report": lambda out: (QUERN, "quantize", self.spec, "--weights", self.checkpoint, "-o", self.scratch / "reported", "--report", out,
                                              "--text", self.text("text"), "--tokens", 64, "--rounds", 1),
            "tune --html": lambda out: (QUERN, "tune", self.spec, "--budget", 0, "-p", 8, "-n", 2, "--database", self.database, "--html", out),
            "tune --export": lambda out: (QUERN, "tune", "--database", self.database, "--export", out),
            "tune --bundle": lambda out: (QUERN, "tune", self.plain, "--bundle", out, "--database", self.database),
            "bundle": lambda out: (self.bundle, "tune", "--budget", 0, "--output", out),
            "reduce": lambda out: (f"{QUERN}-reduce", self.spec, "--test", "true", "-o", out),
            "eval": lambda out: (self.program, "eval", *given, "--output", out),
            "grad": lambda out: (self.program, "grad", *given, "--output", out),
            "--profile": lambda out: (self.program, *short, "--profile", out),
            "--trace": lambda out: (self.program, *short, "--trace", out),
        }

    TIMED = ("dump --html", "quantize --report", "tune --html", "tune --export", "bundle", "--profile", "--trace")

    def folder(self, name):
        folder = self.scratch / name
        folder.mkdir()
        return folder

    def test_devices_and_links(self):
        folder = self.folder("links")
        for name, words in self.writers().items():
            with self.subTest(name):
                device, link, target = folder / f"{name}-null", folder / f"{name}-link", folder / f"{name}-target"
                device.symlink_to("/dev/null")
                link.symlink_to(target.name)
                run(*words(device))
                run(*words(link))
                self.assertTrue(stat.S_ISCHR(os.stat("/dev/null").st_mode))
                self.assertTrue(device.is_symlink() and link.is_symlink())
                self.assertGreater(target.stat().st_size, 0)
        self.assertEqual([path.name for path in folder.iterdir() if path.name.startswith(".")], [])
        self.assertTrue(os.access(folder / "compile-target", os.X_OK))
        run(folder / "compile-target", "info")
        self.assertFalse(os.path.exists("/dev/quern.h"), "the header of a library that went to a device")

    def test_pipes(self):
        folder = self.folder("pipes")
        for name, words in self.writers().items():
            with self.subTest(name):
                pipe, file, got = folder / f"{name}-pipe", folder / f"{name}-file", []
                os.mkfifo(pipe)
                reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
                reader.start()
                try:
                    run(*words(pipe))
                finally:
                    os.close(os.open(pipe, os.O_RDWR | os.O_NONBLOCK))  # whoever still waits for a writer ends
                    reader.join()
                self.assertTrue(stat.S_ISFIFO(pipe.stat().st_mode))
                run(*words(file))
                if name in self.TIMED:
                    self.assertGreater(len(got[0]), 0)
                else:
                    self.assertEqual(got[0], file.read_bytes())

    def test_no_room(self):
        """On a full device and on a full disk: a sentence that names the output, exit status 1, and what was there before."""
        folder = self.folder("full")
        for name, words in self.writers().items():
            with self.subTest(name):
                device, file = folder / f"{name}-device", folder / f"{name}-file"
                device.symlink_to("/dev/full")
                self.assert_refused(run(*words(device), status=1), "cannot write", device.name, "No space left")
                self.assertTrue(device.is_symlink())
                file.write_text("before")
                finished = run(*words(file), status=1, preexec_fn=no_file_over(64))
                self.assert_refused(finished, "disk I/O error" if name.startswith("tune") else "there already" if name == "init" else "cannot write")
                self.assertEqual(file.read_text(), "before")
        self.assertEqual([path.name for path in folder.iterdir() if path.name.startswith(".")], [])

    def test_formatting_in_place(self):
        untidy, link = self.scratch / "untidy.quern", self.scratch / "untidy-link.quern"
        text = "quern 1\nmodel m {\n  forward(x: [B, T]) -> [B, T] {\n return x+1 }\n}\n"
        link.symlink_to(untidy.name)
        untidy.write_text(text)
        self.assert_refused(run(QUERN, "fmt", link, status=1, preexec_fn=no_file_over(64)), "cannot write", link.name)
        self.assertEqual(untidy.read_text(), text)
        run(QUERN, "fmt", link)
        self.assertTrue(link.is_symlink())
        self.assertIn("return x + 1", untidy.read_text())

    def test_folders(self):
        """What is written as a folder: through a link into the folder that it names, and to no device."""
        steps = ("--tokenizer", "bytes", "--steps", 1, "--batch", 1, "--length", 8, "--sample-every", 0, "--quiet")
        writers = {
            "emit": (lambda out: (QUERN, "compile", self.spec, "--emit", "obj", "-o", out), "host.o"),
            "pack": (lambda out: (self.program, "pack", "--weights", self.weights, "-o", out), "model.safetensors"),
            "train": (lambda out: (self.program, "train", "--data", self.text("text"), "--output", out, *steps), "checkpoint-1"),
            "quantize": (lambda out: (QUERN, "quantize", STORIES, "-o", out), "model.safetensors"),
        }
        for name, (words, made) in writers.items():
            with self.subTest(name):
                link, target = self.scratch / f"{name}-link", self.scratch / f"{name}-folder"
                target.mkdir()
                link.symlink_to(target.name)
                run(*words(link))
                self.assertTrue(link.is_symlink())
                self.assertTrue((target / made).exists())
                device = self.scratch / f"{name}-null"
                device.symlink_to("/dev/null")
                self.assert_refused(run(*words(device), status=1), device.name)
                self.assertTrue(stat.S_ISCHR(os.stat("/dev/null").st_mode))
                self.assertTrue(device.is_symlink())


if __name__ == "__main__":
    unittest.main()
