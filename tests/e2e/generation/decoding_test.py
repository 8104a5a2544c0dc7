"""Beam search against transformers' (tests/data/decoding.json), and several results of one prompt.

Caches begin as NaN (QUERN_POISON), so that a slot that is read before it is written would show."""
import json
import unittest

from tests.e2e.harness import DATA, Case, run

GOLDEN = json.loads((DATA / "decoding.json").read_text())["beams"]


class Decoding(Case):
    def check(self, model, *options):
        program = self.compile("t5" if model == "t5" else model, "--config", DATA / model / "config.json", name=model)
        cases = [case for case in GOLDEN if case["model"] == model]
        self.assertGreaterEqual(len(cases), 6)
        for case in cases:
            more = list(options)
            for name, option in (("length_penalty", "--length-penalty"), ("early_stopping", "--early-stopping"),
                                 ("no_repeat_ngram_size", "--no-repeat"), ("repetition_penalty", "--repeat-penalty")):
                if name in case:
                    more += [option, str(case[name]).lower()]
            made = run("env", "QUERN_POISON=1", program, "generate", "--weights", DATA / model / "model.safetensors", "--json", "--logprobs",
                       "--tokens", ",".join(map(str, case["prompt"])), "--beams", case["num_beams"], "--results", case["num_return_sequences"],
                       "-n", case["max_new_tokens"], "--end-token", case["eos_token_id"], *more)
            beams = [json.loads(line) for line in made.out.splitlines()]
            self.assertEqual([beam["tokens"] for beam in beams], [beam["tokens"] for beam in case["beams"]], str(case))
            for beam, golden in zip(beams, case["beams"]):
                self.assertAlmostEqual(beam["score"], golden["score"], delta=2e-5, msg=str(case))
                self.assertEqual(len(beam["logprobs"]), len(beam["tokens"]))
                if "repetition_penalty" not in case and "no_repeat_ngram_size" not in case:
                    penalty = len(beam["tokens"]) ** case.get("length_penalty", 1.0)
                    self.assertAlmostEqual(sum(beam["logprobs"]) / penalty, beam["score"], delta=1e-6)

    def test_llama(self):
        self.check("llama")

    def test_llama_without_a_cache(self):
        self.check("llama", "--no-cache")

    def test_a_window(self):
        self.check("mistral")

    def test_encoder_and_decoder(self):
        self.check("t5")

    def test_the_decoder_begins(self):
        """Where the config does not say with which token: generation_config.json, then the option, else a refusal that names it."""
        folder = self.scratch / "begins"
        folder.mkdir()
        config = json.loads((DATA / "t5" / "config.json").read_text())
        start = config.pop("decoder_start_token_id")
        (folder / "config.json").write_text(json.dumps(config))
        (folder / "model.safetensors").symlink_to(DATA / "t5" / "model.safetensors")
        program = self.compile("t5", "--config", folder / "config.json", name="begins-t5")
        command = (program, "generate", "--weights", folder, "--tokens", "5,6,7,1", "-n", 4, "--temp", 0, "--json")
        self.assert_refused(run(*command, status=1), "decoder_start_token_id", "--start-token")
        want = run(*command, "--start-token", start).out
        (folder / "generation_config.json").write_text(json.dumps({"decoder_start_token_id": start}))
        self.assertEqual(run(*command).out, want)

    def test_one_beam_is_greedy(self):
        program = self.compile("llama", "--config", DATA / "llama" / "config.json", name="greedy")
        command = (program, "generate", "--weights", DATA / "llama" / "model.safetensors", "--tokens", "5,6,7", "-n", 20, "--json")
        greedy = json.loads(run(*command).out)["tokens"]
        self.assertEqual(json.loads(run(*command, "--beams", 1).out)["tokens"], greedy)

    def test_results_have_seeds_that_follow(self):
        for model, name in (("llama", "llama"), ("t5", "t5")):
            program = self.compile(model, "--config", DATA / model / "config.json", name=f"{name}-results")
            command = (program, "generate", "--weights", DATA / model / "model.safetensors", "-n", 12, "--json", "--temp", 0.9)
            prompts = ("--tokens", "5,6,7,1", "--tokens", "9,1")
            several = [json.loads(line)["tokens"] for line in run("env", "QUERN_POISON=1", *command, *prompts, "--results", 3, "--seed", 4).out.splitlines()]
            self.assertEqual(len(several), 6)
            alone = [json.loads(run(*command, "--tokens", prompt, "--seed", seed).out)["tokens"] for prompt in ("5,6,7,1", "9,1") for seed in (4, 5, 6)]
            self.assertEqual(several, alone, model)
            self.assertGreater(len({tuple(tokens) for tokens in several}), 2)

    def test_mistakes(self):
        program = self.compile("llama", "--config", DATA / "llama" / "config.json", name="mistakes")
        for options, words in (
            (("--beams", 2, "--temp", 1), ("--beams", "--temp")),
            (("--beams", 2, "--results", 3), ("--results 3", "--beams")),
            (("--results", 3), ("--results", "--temp")),
            (("--length-penalty", 1), ("--length-penalty", "--beams")),
            (("--beams", 2, "--early-stopping", "maybe"), ("true, false or never", "maybe")),
            (("--mirostat-rate", 0.5), ("--mirostat-rate", "--mirostat")),
            (("--logit-bias", "5"), ("--logit-bias", "TOKEN=NUMBER")),
            (("--logit-bias", "5=nan"), ("--logit-bias", "TOKEN=NUMBER")),
            (("--no-repeat", 1, "-n", 2000), ("forbid every token",)),
        ):
            self.assert_refused(run(program, "generate", "--weights", DATA / "llama" / "model.safetensors", "--tokens", "5", *options, status=1), *words)


if __name__ == "__main__":
    unittest.main()
