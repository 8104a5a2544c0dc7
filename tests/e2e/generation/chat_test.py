"""`chat`: what the model reads is the template's text of the conversation, and only its new part is read."""
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import time
import unittest

from tests.e2e.harness import DATA, Case, run

STORIES = DATA / "stories260K"
TEMPLATE = ("{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% elif m.role == 'system' %}"
            "{{ m.content | trim }} {% else %}{{ m.content }} {% endif %}{% endfor %}")


class Chat(Case):
    target = ()

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.program = cls.compile("llama", "--config", STORIES / "config.json", *cls.target)
        cls.model = cls.scratch / "model"
        shutil.copytree(STORIES, cls.model)
        (cls.model / "tokenizer_config.json").write_text(json.dumps({"bos_token": {"content": "<s>"}, "chat_template": TEMPLATE}))

    def talk(self, text, *options, status=0):
        return run(self.program, "chat", "--weights", self.model, *options, stdin=text, status=status)

    def written(self, text, count):
        """What `generate` writes after a text; it puts the beginning-of-text token before it, as the template does."""
        return run(self.program, "generate", "--weights", self.model, "-p", text, "--temp", 0, "-n", count, "--no-echo").out.rstrip("\n")

    def test_turns(self):
        first = self.written("Once upon a time", 12)
        second = self.written(f"Once upon a time{first} Then the dog", 12)
        answer = self.talk("Once upon a time\nThen the dog\n", "--temp", 0, "-n", 12, "-v")
        self.assertEqual(answer.out, f"{first}\n{second}\n")
        read = [int(n) for n in re.findall(r"(\d+) tokens read", answer.err)]
        self.assertEqual(len(read), 2)
        self.assertLess(read[1], 12, "the second turn reads the conversation again")

    def test_reset_system_and_continued_lines(self):
        plain = self.written("Lily had\na cat", 8)
        answer = self.talk("There was\n/reset\nLily had\\\na cat\n/exit\nnot read\n", "--temp", 0, "-n", 8)
        self.assertEqual(answer.out.split("\n", 1)[1], plain + "\n")
        answer = self.written("Be kind. Lily", 8)
        self.assertEqual(self.talk("Lily\n", "--system", " Be kind. ", "--temp", 0, "-n", 8).out, answer + "\n")

    def test_recommended_sampling(self):
        beside = self.scratch / "recommended"
        shutil.copytree(self.model, beside)
        (beside / "generation_config.json").write_text(json.dumps({"do_sample": True, "temperature": 0.7, "top_k": 5}))
        command = (self.program, "chat", "--weights", beside, "-n", 30, "--seed", 3)
        made = run(*command, stdin="Once\n").out
        self.assertEqual(made, run(*command, "--temp", 0.7, "--top-k", 5, stdin="Once\n").out)
        likeliest = run(*command, "--temp", 0, stdin="Once\n").out
        self.assertNotEqual(made, likeliest)
        # Of a model that does not sample: its penalty counts, how it would sample does not.
        (beside / "generation_config.json").write_text(json.dumps({"repetition_penalty": 1.5, "temperature": 0.7, "top_k": 5}))
        made = run(*command, stdin="Once\n").out
        self.assertEqual(made, run(*command, "--temp", 0, "--repeat-penalty", 1.5, stdin="Once\n").out)
        self.assertNotEqual(made, likeliest)

    def test_files_of_templates(self):
        for name, content in (("chat_template.jinja", TEMPLATE), ("chat_template.json", json.dumps({"chat_template": TEMPLATE}))):
            beside = self.scratch / f"{name}-folder"
            shutil.copytree(STORIES, beside)
            (beside / name).write_text(content)
            (beside / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>"}))
            made = run(self.program, "chat", "--weights", beside, "--temp", 0, "-n", 6, stdin="Once\n").out
            self.assertEqual(made, self.written("Once", 6) + "\n")

    def test_embedded(self):
        program = self.compile("llama", "--config", STORIES / "config.json", "--weights", self.model, "--embed-weights", name="embedded")
        self.assertEqual(run(program, "chat", "--temp", 0, "-n", 6, stdin="Once\n").out, self.written("Once", 6) + "\n")

    def test_interrupted_on_a_terminal(self):
        """Ctrl-C ends an answer and keeps the conversation; twice at the prompt it ends the chat."""
        master, slave = pty.openpty()
        child = subprocess.Popen([self.program, "chat", "--weights", self.model, "-n", "100000", "--context", "100000"], stdin=slave, stdout=slave,
                                 stderr=slave, start_new_session=True, preexec_fn=lambda: os.close(master))
        os.close(slave)
        seen = ""

        def until(pattern):
            nonlocal seen
            end = time.monotonic() + 60
            while not re.search(pattern, seen):
                self.assertLess(time.monotonic(), end, f"no {pattern!r} in {seen!r}")
                if select.select([master], [], [], 0.2)[0]:
                    try:
                        seen += os.read(master, 4096).decode(errors="replace")
                    except OSError:  # the other end is closed
                        break
            seen = seen[match.end():] if (match := re.search(pattern, seen)) else seen

        until("> ")
        os.write(master, b"Once upon a time\n")
        until(r"[a-z]+ [a-z]+ [a-z]+ [a-z]+ [a-z]+ [a-z]+")
        child.send_signal(signal.SIGINT)
        until("stopped")
        until("> ")
        child.send_signal(signal.SIGINT)
        until("again")
        until("> ")
        child.send_signal(signal.SIGINT)
        self.assertEqual(child.wait(30), 0)
        os.close(master)

    def test_mistakes(self):
        self.assert_refused(run(self.program, "chat", "--weights", STORIES, stdin="", status=1), "chat template", "generate", "--template")
        bad = self.scratch / "bad.jinja"
        bad.write_text("a\n{% if messages %}b")
        self.assert_refused(self.talk("", "--template", bad, status=1), "line", "endif")
        bad.write_text("{{ raise_exception('roles must alternate') }}")
        self.assert_refused(self.talk("x\n", "--template", bad, status=1), "roles must alternate")
        self.assert_refused(self.talk("Once upon a time there was a dog\n", "--context", 4, status=1), "context is 4", "/reset")
        self.assertIn("there is no", self.talk("/rest\n").err)


if __name__ == "__main__":
    unittest.main()
