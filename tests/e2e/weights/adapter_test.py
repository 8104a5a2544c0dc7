"""LoRA adapters beside a checkpoint, against PEFT's own sums (tests/data/generate/make_adapters.py)."""
import json
import shutil
import unittest

from tests.e2e.harness import DATA, QUERN, Case, read_safetensors, relative_error, run, write_safetensors

ADAPTERS = DATA / "adapters"
COMPILED = 5e-5
MODELS = {"llama": "llama", "llama-head": "llama", "gpt2": "gpt2"}


class Adapter(Case):
    def program(self, model):
        return self.compile(model, "--config", DATA / model / "config.json", name=model)

    def logits(self, program, weights, *folders):
        source, result = self.scratch / "in.safetensors", self.scratch / "out.safetensors"
        write_safetensors(source, {"tokens": read_safetensors(DATA / "llama" / "expected.safetensors")["input_ids"]})
        run(program, "eval", "--weights", weights, *(word for folder in folders for word in ("--adapter", folder)), "--input", source, "--output", result)
        return read_safetensors(result)["logits"]

    def copy(self, name, case="llama", **changes):
        folder = self.scratch / name
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(ADAPTERS / case, folder)
        config = json.loads((folder / "adapter_config.json").read_text())
        (folder / "adapter_config.json").write_text(json.dumps(config | changes))
        return folder

    def test_golden(self):
        for case, model in MODELS.items():
            with self.subTest(case):
                program = self.program(model)
                expected = read_safetensors(ADAPTERS / case / "expected.safetensors")
                source, result = self.scratch / "in.safetensors", self.scratch / "out.safetensors"
                write_safetensors(source, {"tokens": expected["input_ids"]})
                run(program, "eval", "--weights", DATA / model, "--adapter", ADAPTERS / case, "--input", source, "--output", result)
                self.assertLess(relative_error(read_safetensors(result)["logits"], expected["logits"]), COMPILED)
                for row, want in zip(expected["input_ids"].rows(), expected["generated"].rows()):
                    words = ["--tokens", ",".join(map(str, row[:5])), "-n", len(want), "--temp", 0, "--json"]
                    got = run(program, "generate", "--weights", DATA / model, "--adapter", ADAPTERS / case, *words)
                    self.assertEqual(json.loads(got.out)["tokens"], want)

    def test_over_a_gguf_file(self):
        """Whose rows of queries and keys are in another order."""
        path = DATA / "gguf" / "llama.gguf"
        program = self.program("llama")
        got = self.logits(program, path, ADAPTERS / "llama-head")
        self.assertLess(relative_error(got, self.logits(program, DATA / "llama", ADAPTERS / "llama-head")), COMPILED)

    def test_several_add_up(self):
        program = self.program("llama")
        double = self.copy("double", lora_alpha=20, alpha_pattern={"q_proj": 6, "layers.1.self_attn.v_proj": 14})
        got = self.logits(program, DATA / "llama", ADAPTERS / "llama", ADAPTERS / "llama")
        self.assertLess(relative_error(got, self.logits(program, DATA / "llama", double)), COMPILED)

    def test_run_finds_the_base_model(self):
        folder = self.copy("own", base_model_name_or_path=str(DATA / "llama"))
        expected = read_safetensors(ADAPTERS / "llama" / "expected.safetensors")
        row, want = expected["input_ids"].rows()[0], expected["generated"].rows()[0]
        for given in (folder, ADAPTERS / "llama"):  # named by its path, or as seen from the adapter
            done = run(QUERN, "run", given, "--tokens", ",".join(map(str, row[:5])), "-n", len(want), "--temp", 0, "--json")
            self.assertEqual(json.loads(done.out)["tokens"], want)
        lost = self.copy("lost", base_model_name_or_path="nobody/nothing")
        self.assert_refused(run(QUERN, "run", lost, status=1), "nobody/nothing")

    def test_refusals(self):
        program = self.program("llama")

        def refused(folder, *words, weights=DATA / "llama"):
            done = run(program, "generate", "--weights", weights, "--adapter", folder, "--tokens", "1", "-n", 1, status=1)
            self.assert_refused(done, *words)

        refused(DATA / "llama", "holds no adapter")
        refused(self.copy("kind", peft_type="IA3"), "'IA3'", "merge_and_unload")
        refused(self.copy("dora", use_dora=True), "use_dora")
        refused(self.copy("start", init_lora_weights="pissa_niter_4"), "pissa_niter_4")
        refused(self.copy("pattern", alpha_pattern={".*q_proj$": 3}), "alpha_pattern")
        refused(self.copy("text", lora_alpha="many"), "adapter_config.json")
        refused(ADAPTERS / "gpt2", "h.0.attn.c_attn", "does not have")
        refused(self.copy("flipped", fan_in_fan_out=True), "down_proj", "[56, 48]", "[48, 56]")
        folder = self.copy("half")
        tensors = read_safetensors(folder / "adapter_model.safetensors")
        write_safetensors(folder / "adapter_model.safetensors", {k: v for k, v in tensors.items() if "lora_B" not in k})
        refused(folder, "lora_A.weight", "lora_B.weight beside it")
        write_safetensors(folder / "adapter_model.safetensors", {"base_model.model.model.layers.0.mlp.down_proj.lora_magnitude_vector": tensors[min(tensors)]})
        refused(folder, "lora_magnitude_vector")


if __name__ == "__main__":
    unittest.main()
