"""Several prompts in one call: each gives what it gives alone, whatever the others' lengths.

Caches begin as NaN (QUERN_POISON), so that a slot that is read before it is written would show."""
import json
import shutil
import unittest

from tests.e2e.harness import DATA, Case, random_tokens, run

# A window that texts outgrow; absolute positions; a length that changes what is remembered; experts; slopes by distance; recurrences;
# compiled without the function for rows of different lengths; a window and positions whose caches are codes and scales.
SPECS = [("mistral", "mistral", ()), ("gpt2", "gpt2", ()), ("phi3", "phi3-longrope", ()), ("mixtral", "mixtral", ()),
         ("bloom", "bloom", ()), ("mamba", "mamba", ()), ("qwen3_next", "qwen3-next", ()), ("recurrent_gemma", "recurrent-gemma", ()), ("llama", "llama", ("--without", "ragged-rows")),
         ("mistral", "mistral", ("--kv-cache", "int8")), ("gpt2", "gpt2", ("--kv-cache", "int8"))]


class Batch(Case):
    def check(self, spec, folder, options):
        program = self.compile(spec, "--config", DATA / folder / "config.json", *options, name=f"{folder}{len(options)}")
        weights = DATA / folder / "model.safetensors"
        prompts = [list(random_tokens(seed, 1, length, 90).row(0).data) for seed, length in ((1, 7), (2, 1), (3, 13), (4, 7))]
        texts = [",".join(map(str, prompt)) for prompt in prompts]
        together = run("env", "QUERN_POISON=1", program, "generate", "--weights", weights, "-n", 20, "--json", *[w for text in texts for w in ("--tokens", text)])
        made = [json.loads(line)["tokens"] for line in together.out.splitlines()]
        self.assertEqual(len(made), len(prompts))
        for text, tokens in zip(texts, made):
            alone = run("env", "QUERN_POISON=1", program, "generate", "--weights", weights, "-n", 20, "--json", "--tokens", text)
            self.assertEqual(tokens, json.loads(alone.out)["tokens"], f"{folder}: after {text}")
            anew = run(program, "generate", "--weights", weights, "-n", 20, "--json", "--no-cache", "--tokens", text)
            self.assertEqual(tokens, json.loads(anew.out)["tokens"], f"{folder}: after {text}, all anew")
        # Texts that end early leave; the rows of the others move to other slots.
        beside = self.scratch / f"{folder}-ends"
        beside.mkdir(exist_ok=True)
        shutil.copy(weights, beside)
        ends = {made[0][2], made[2][6], made[3][11]}
        (beside / "generation_config.json").write_text(json.dumps({"eos_token_id": sorted(ends)}))
        stopped = run("env", "QUERN_POISON=1", program, "generate", "--weights", beside, "-n", 20, "--json", "--eos", "stop",
                      *[w for text in texts for w in ("--tokens", text)])
        ends.add(json.loads((DATA / folder / "config.json").read_text()).get("eos_token_id"))  # also where a text ends
        for tokens, line in zip(made, stopped.out.splitlines(), strict=True):
            first = next((i + 1 for i, token in enumerate(tokens) if token in ends), len(tokens))
            self.assertEqual(json.loads(line)["tokens"], tokens[:first], folder)

    def test_chunks_across_a_window(self):
        """A prompt that is read in two calls, the second while the ring is full, beside a short one."""
        program = self.compile("mistral", "--config", DATA / "mistral" / "config.json", name="long")
        texts = [",".join(map(str, random_tokens(seed, 1, length, 90).row(0).data)) for seed, length in ((5, 700), (6, 3), (7, 515))]
        options = ("--weights", DATA / "mistral" / "model.safetensors", "-n", 4, "--json", "--context", 2000)
        together = run("env", "QUERN_POISON=1", program, "generate", *options, *[w for text in texts for w in ("--tokens", text)])
        for text, made in zip(texts, together.out.splitlines()):
            for more in ((), ("--no-cache",)):
                alone = run("env", "QUERN_POISON=1", program, "generate", *options, "--tokens", text, *more)
                self.assertEqual(json.loads(made)["tokens"], json.loads(alone.out)["tokens"])

    def test_mistakes(self):
        program = self.compile("llama", "--config", DATA / "llama" / "config.json")
        weights = DATA / "llama" / "model.safetensors"
        self.assert_refused(run(program, "generate", "--weights", weights, "--tokens", "5", "--tokens", "99999", status=1), "99999")
        self.assert_refused(run(program, "generate", "--weights", weights, "--tokens", "5", "--tokens", "6", "-p", "x", status=1), "each with -p")


for spec, folder, options in SPECS:
    setattr(Batch, f"test_{folder.replace('-', '_')}{'_' + options[-1].replace('-', '_') if options else ''}",
            lambda self, spec=spec, folder=folder, options=options: self.check(spec, folder, options))

if __name__ == "__main__":
    unittest.main()
