"""Functions with several results: each by its name from `eval`, the interpreter and `embed`; `logits` is what text is written with."""
import json
import pathlib
import random
import unittest

from tests.e2e.harness import DATA, QUERN, Case, compile_c, ints, random_tensor, random_tokens, relative_error, run, write_safetensors

FOLDER = pathlib.Path(__file__).parent
TOKENIZER = DATA / "stories260K" / "tokenizer.json"
VOCABULARY, WIDTH = 512, 32


def weights_of(path, shapes):
    source = random.Random("results")
    write_safetensors(path, {name: random_tensor(source, shape, 0.3 if len(shape) == 1 else None) for name, shape in shapes.items()})
    return path


class Decoder(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.spec = FOLDER / "results.quern"
        shapes = {"words": [VOCABULARY, WIDTH], "head.weight": [VOCABULARY, WIDTH]}
        for i in range(2):
            shapes |= {f"layer.{i}.norm.weight": [WIDTH], f"layer.{i}.qkv.weight": [3 * WIDTH, WIDTH], f"layer.{i}.out.weight": [WIDTH, WIDTH]}
        cls.weights = weights_of(cls.scratch / "weights.safetensors", shapes)
        cls.program = cls.compile(cls.spec)

    def test_every_result_by_its_name(self):
        for rows, length in ((1, 1), (3, 20)):
            inputs = {"tokens": random_tokens(length, rows, length, VOCABULARY)}
            want, got = self.interpret(self.spec, self.weights, inputs), self.evaluate(self.program, self.weights, inputs)
            self.assertEqual({name: tensor.shape for name, tensor in got.items()},
                             {"hidden": [rows, length, WIDTH], "logits": [rows, length, VOCABULARY], "pooled": [rows, WIDTH], "best": [length, rows]})
            self.assertEqual(list(got["best"].data), list(want["best"].data))
            for name in ("hidden", "logits", "pooled"):
                self.assertLess(relative_error(got[name], want[name]), 5e-5, name)

    def test_a_function_that_calls_it(self):
        inputs = {"tokens": random_tokens(5, 2, 7, VOCABULARY)}
        all_, some = self.evaluate(self.program, self.weights, inputs), self.evaluate(self.program, self.weights, inputs, "--function", "vectors")
        self.assertEqual(set(some), {"first", "middle"})
        self.assertLess(relative_error(some["middle"], all_["pooled"]), 1e-6)
        self.assertEqual([row[0] for row in some["first"].rows()], [row[0] for row in (all_["hidden"].row(b).data for b in range(2))])

    def test_text_is_written_with_the_logits(self):
        prompt = list(random_tokens(3, 1, 6, VOCABULARY).data)
        written = self.generate(self.program, self.weights, prompt, 12)
        self.assertGreater(len(set(written)), 3)
        self.assertEqual(self.generate(self.program, self.weights, prompt, 12, "--no-cache"), written)
        together = run(self.program, "generate", "--weights", self.weights, "-n", 12, "--temp", 0, "--json", "--tokens", "5", "--tokens", ",".join(map(str, prompt)))
        self.assertEqual(json.loads(together.out.splitlines()[1])["tokens"], written)

    def test_the_default_loss_takes_the_logits(self):
        self.assertIn("gradients agree", run(QUERN, "gradcheck", self.spec, "-q").out)
        self.assertIn("no position sees later ones", run(QUERN, "doctor", self.spec).out)

    def test_a_vector_by_its_name(self):
        def vector(*words):
            return json.loads(run(self.program, "embed", "--weights", self.weights, "--tokenizer", TOKENIZER, "--json", "-p", "a big dog", *words).out)["results"][0]

        first = vector()
        self.assertEqual(vector("--result", "pooled"), first)
        both = self.evaluate(self.program, self.weights, {"tokens": ints([first["tokens"]])}, "--function", "vectors")
        for got, want in zip(first["embedding"], both["middle"].data):
            self.assertAlmostEqual(got, want, 6)
        for got, want in zip(vector("--result", "first")["embedding"], both["first"].data):
            self.assertAlmostEqual(got, want, 6)
        refused = run(self.program, "embed", "--weights", self.weights, "--tokenizer", TOKENIZER, "-p", "x", "--result", "firts", status=1)
        self.assert_refused(refused, "'firts'", "did you mean 'first'", "pooled, first, middle")

    def test_info_lists_them(self):
        text = run(self.program, "info").out
        for name in ("hidden", "logits", "pooled", "best"):
            self.assertIn(name, text)


EMBED = r"""
#include "quern.h"
#include <stdio.h>
int main(int argc, char **argv) {
  quern_engine *engine;
  float vector[32];
  size_t count = 32;
  if (argc < 4 || quern_open(argv[1], argv[2], 1, &engine) || quern_embed_result(engine, argv[3], "a big dog", 9, vector, &count))
    return fprintf(stderr, "%s\n", quern_message()), 1;
  for (size_t i = 0; i < count; ++i)
    printf("%.9g\n", vector[i]);
  quern_close(engine);
  return 0;
}
"""


class Library(Case):
    def test_a_vector_by_its_name(self):
        Decoder.setUpClass()
        try:
            run(QUERN, "compile", Decoder.spec, "--emit", "lib", "-o", self.scratch / "libresults.a")
            (self.scratch / "embed.c").write_text(EMBED)
            compile_c(self.scratch / "embed.c", self.scratch / "libresults.a", self.scratch / "embed")
            for name in ("pooled", "first"):
                words = ("--weights", Decoder.weights, "--tokenizer", TOKENIZER, "-p", "a big dog", "--result", name)
                want = json.loads(run(Decoder.program, "embed", *words, "--json").out)["results"][0]["embedding"]
                got = run(self.scratch / "embed", Decoder.weights, TOKENIZER, name).out.split()
                self.assertEqual([float(x) for x in got], want)
            self.assert_refused(run(self.scratch / "embed", Decoder.weights, TOKENIZER, "hidden", status=1), "'hidden'", "pooled, first, middle")
        finally:
            Decoder.tearDownClass()


class EncoderDecoder(Case):
    def test_the_decoder_takes_them_by_name(self):
        spec = FOLDER / "encoded.quern"
        config = self.scratch / "config.json"
        config.write_text(json.dumps({"decoder_start_token_id": 1}))
        weights = weights_of(self.scratch / "weights.safetensors", {"words": [64, WIDTH], **{f"{part}.weight": [WIDTH, WIDTH] for part in "qkvo"}})
        program = self.compile(spec, "--config", config)
        inputs = {"tokens": random_tokens(1, 2, 9, 64), "target": random_tokens(2, 2, 5, 64)}
        want, got = self.interpret(spec, weights, inputs), self.evaluate(program, weights, inputs)
        self.assertEqual(set(got), {"states", "summary", "logits"})
        for name in got:
            self.assertLess(relative_error(got[name], want[name]), 5e-5, name)
        self.assertIn("gradients agree", run(QUERN, "gradcheck", spec, "-q").out)
        written = self.generate(program, weights, [5, 6, 7], 10)
        self.assertEqual(self.generate(program, weights, [5, 6, 7], 10, "--no-cache"), written)


class Refusals(Case):
    def test_two_functions_with_one_name(self):
        spec = self.write_spec("twice", "quern 1\nmodel twice {\n  encode(x: [B, T]) -> (y: [B, T]) { return x + 1 }\n  decode(x: [B, T]) -> (y: [B, T]) { return x * 2 }\n}\n")
        weights, given = weights_of(self.scratch / "none.safetensors", {}), self.scratch / "x.safetensors"
        write_safetensors(given, {"x": random_tensor(random.Random(1), [2, 3])})
        program = self.compile(spec)
        refused = run(program, "eval", "--weights", weights, "--input", given, "--output", self.scratch / "y", status=1)
        self.assert_refused(refused, "two functions give 'y'", "--function")
        run(program, "eval", "--weights", weights, "--input", given, "--output", self.scratch / "y", "--function", "decode")


if __name__ == "__main__":
    unittest.main()
