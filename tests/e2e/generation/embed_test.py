"""A compiled model inside a program in C: `--emit lib`, quern.h and examples/embed say what PROGRAM generate says."""
import unittest

from tests.e2e.harness import DATA, EXAMPLES, QUERN, Case, compile_c, run

STORIES = DATA / "stories260K"
SPEC = EXAMPLES / "llama.quern"
PROMPTS = ["Once upon a time", "The big dog", "Lily and"]


class Embed(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        config = ("--config", STORIES / "config.json")
        cls.program = cls.compile("llama", *config)
        cls.library = cls.scratch / "libstories.a"
        run(QUERN, "compile", SPEC, *config, "--emit", "lib", "-o", cls.library)
        cls.embedding = cls.scratch / "stories"
        compile_c(EXAMPLES / "embed" / "embed.c", cls.library, cls.embedding)

    def generate(self, prompts, count):
        return run(self.program, "generate", "--weights", STORIES, "-n", count, *[w for p in prompts for w in ("-p", p)]).out

    def test_one_text(self):
        self.assertEqual(run(self.embedding, STORIES, 60, PROMPTS[0]).out, self.generate(PROMPTS[:1], 60))

    def test_several_texts(self):
        self.assertEqual(run(self.embedding, STORIES, 60, *PROMPTS).out, self.generate(PROMPTS, 60))

    def test_a_full_context(self):
        """To the last of 512 positions, each text alone and together."""
        self.assertEqual(run(self.embedding, STORIES, 600, *PROMPTS[:2]).out, self.generate(PROMPTS[:2], 600))

    def test_only_the_header_can_be_seen(self):
        names = {line.split()[-1] for line in run("nm", "--defined-only", "--extern-only", self.library).out.splitlines() if " T " in line or " D " in line or " W " in line}
        header = (self.scratch / "quern.h").read_text()
        self.assertGreater(len(names), 10)
        for name in names:
            self.assertIn(f"{name}(", header)

    def test_failures(self):
        self.assert_refused(run(self.embedding, self.scratch / "nowhere", 5, "x", status=1), "nowhere")
        self.assert_refused(run(self.embedding, DATA / "gpt2", 5, "x", status=1), "Q042")
        self.assert_refused(run(QUERN, "compile", SPEC, "--emit", "lib", "-o", self.scratch / "none" / "lib.a", "--config",
                                STORIES / "config.json", status=None), "there is no folder")


if __name__ == "__main__":
    unittest.main()
