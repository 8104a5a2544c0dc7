"""Crashes of `quern`: what replays them is left behind, and shrinks. The crashes are planted by a library that is loaded before the
compiler's (tests/tools/PlantedCrash.cpp), so the compiler itself has no way to crash on request."""
import os
import re
import shlex
import signal
import subprocess
import unittest

from tests.e2e.harness import BUILD, DATA, EXAMPLES, QUERN, Case

PLANTED = BUILD / "tests" / "quern_planted_crash.so"

TEXT = """quern 1
model small {
  config { vocab_size = 4, width = 4, layers = 1 }
  dim V = vocab_size, D = width
  forward(tokens: int[B, T]) -> [B, T, D] {
    dim S = T
    param words: [V, D] @ "words"
    x = words[V = tokens]
    repeat i in layers @ "layers.{i}" {
      h = rms_norm[D](x, 0.00001) @ "norm"
      a = attention[S, D](h, h[T -> S], h[T -> S], mask: index(S) <= index(T))
      x = x + linear[D -> D](a) @ "out"
    }
    return tanh(x)
  }
}
"""


class CrashTest(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.assertTrue(cls, PLANTED.exists(), f"{PLANTED} does not exist; run ./dev build")
        (cls.scratch / "small.quern").write_text(TEXT)
        (cls.scratch / "config.json").write_text('{"vocab_size": 16, "width": 8, "layers": 3}')

    def planted(self, plan, command, **environment):
        environment = dict(os.environ, LD_PRELOAD=str(PLANTED), QUERN_TEST_PLANT=plan, TMPDIR=str(self.scratch), NO_COLOR="1",
                           XDG_CACHE_HOME=str(self.scratch / "cache"), **environment)
        return subprocess.run(command, shell=isinstance(command, str), stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
                              timeout=300, env=environment, cwd=self.scratch)

    def crash(self, plan, *options):
        """A planted crash of a compilation; what it ended with, and what it says of itself by name."""
        command = [str(QUERN), "compile", "small.quern", "--config", "config.json", "-o", str(self.scratch / "program"), *options]
        done = self.planted(plan, command)
        said = dict(re.findall(r"^  (kept|replay|shrink): +(.*)$", done.stderr, re.MULTILINE))
        self.assertEqual(set(said), {"kept", "replay", "shrink"}, done.stderr)
        return done, said

    def test_replays_a_crash_in_a_pass(self):
        for how, number in {"segv": signal.SIGSEGV, "abort": signal.SIGABRT, "stack": signal.SIGSEGV}.items():
            done, said = self.crash(f"quern.softmax {how}")
            self.assertEqual(done.returncode, -number, done.stderr)
            self.assertIn("in the pass 'cse': a fault of the compiler", done.stderr)
            self.assertIn("before-cse.mlir --target native --compile-to cse", said["replay"])
            for file in ("small.quern", "config.json", "before-cse.mlir", "backtrace", "replay.sh"):
                self.assertTrue((self.scratch / said["kept"] / file).stat().st_size, file)
            # The command crashes alike where the fault is, and does its work where it is not.
            again = self.planted(f"quern.softmax {how}", said["replay"])
            self.assertEqual(again.returncode, 128 + number, again.stderr)
            self.assertIn("in the pass 'cse'", again.stderr)
            healthy = subprocess.run(["sh", f"{said['kept']}/replay.sh"], stderr=subprocess.PIPE, encoding="utf-8")
            self.assertEqual((healthy.returncode, healthy.stderr), (0, ""))

    def test_keeps_the_input_as_it_was(self):
        _, said = self.crash("quern.softmax segv", "--set", "layers=2", "--without", "roll-repeats,fuse-norms")
        self.assertIn("--without roll-repeats,fuse-norms", said["replay"])
        module = (self.scratch / said["kept"] / "before-cse.mlir").read_text()
        self.assertEqual(module.count("quern.softmax"), 2)
        self.assertEqual((self.scratch / said["kept"] / "small.quern").read_text(), TEXT)

    def test_a_failing_pass_is_reported_like_a_crash(self):
        done, said = self.crash("quern.softmax fail")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("failed in the pass 'cse'", done.stderr)
        self.assertEqual(self.planted("quern.softmax fail", said["replay"]).returncode, 1)
        self.assertTrue(said["shrink"].endswith("; test $? -ne 0'"), said["shrink"])

    def test_replays_a_crash_of_the_code_generator(self):
        done, said = self.crash("kernel segv", "--jobs", "1")
        self.assertEqual(done.returncode, -signal.SIGSEGV, done.stderr)
        self.assertIn("in the code generator", done.stderr)
        self.assertIn("planned.mlir", said["replay"])
        self.assertEqual(self.planted("kernel segv", said["replay"]).returncode, 128 + signal.SIGSEGV)

    def test_impossible_states_are_faults_too(self):
        done, said = self.crash("kernel throw", "--jobs", "1")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("failed (planted) in the code generator", done.stderr)

    def test_shrinks_the_module(self):
        _, said = self.crash("quern.softmax segv")
        done = self.planted("quern.softmax segv", said["shrink"])
        self.assertEqual(done.returncode, 0, done.stderr)
        reduced = self.scratch / said["kept"] / "before-cse.reduced.mlir"
        text = reduced.read_text()
        self.assertIn("quern.softmax", text)
        for gone in ("quern.repeat", "quern.contract", "quern.param", "quern.tanh"):
            self.assertNotIn(gone, text)
        before = (self.scratch / said["kept"] / "before-cse.mlir").read_text()
        self.assertLess(len(text.splitlines()), len(before.splitlines()) / 3, text)
        again = self.planted("quern.softmax segv", said["replay"].replace("before-cse.mlir", "before-cse.reduced.mlir"))
        self.assertEqual(again.returncode, 128 + signal.SIGSEGV, again.stderr)

    def test_shrinks_the_spec(self):
        _, said = self.crash("quern.softmax segv")
        kept, output = self.scratch / said["kept"], self.scratch / "reduced.quern"
        test = f"{QUERN} compile {{}} --config {kept}/config.json --compile-to cse -o /dev/null; test $? -ge 128"
        done = self.planted("quern.softmax segv", [f"{QUERN}-reduce", f"{kept}/small.quern", "--test", test, "-o", str(output)])
        self.assertEqual(done.returncode, 0, done.stderr)
        text = output.read_text()
        self.assertRegex(text, r"attention|softmax")
        for gone in ("repeat", "rms_norm", "linear", "tanh"):
            self.assertNotIn(gone, text)
        self.assertLess(len(text.splitlines()), len(TEXT.splitlines()) - 3, text)

    def test_can_be_switched_off(self):
        done = self.planted("quern.softmax segv", [str(QUERN), "compile", "small.quern", "--config", "config.json", "-o", "program"],
                            QUERN_CRASH_REPORT="0")
        self.assertEqual((done.returncode, done.stderr), (-signal.SIGSEGV, ""))

    def test_reduce_says_what_is_wrong_with_its_use(self):
        for words, said in {
            (): "input", ("a.txt", "--test", "true"): "a .quern or .mlir file is needed", ("none.quern", "--test", "true"): "cannot open none.quern",
            ("small.quern", "--test", "false"): "the command does not succeed on small.quern itself", ("small.quern",): "test",
        }.items():
            done = subprocess.run([f"{QUERN}-reduce", *words], cwd=self.scratch, stderr=subprocess.PIPE, encoding="utf-8")
            self.assertEqual(done.returncode, 1)
            self.assertIn(said, done.stderr)


if __name__ == "__main__":
    unittest.main()
