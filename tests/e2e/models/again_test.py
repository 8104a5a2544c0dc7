"""Stopping after a phase and going on from the dump: --compile-to, --compile-from. (That every spec's dump after every pass is read
again without loss: tests/passes/PassMatrixTest.cpp.)"""
import unittest

from tests.e2e.harness import DATA, EXAMPLES, QUERN, Case, read_safetensors, relative_error, run


def phases():
    return [line.split()[0] for line in run(QUERN, "dump", "--list-passes").out.splitlines() if not line.startswith(" ")]


class AgainTest(Case):
    def test_programs_from_every_phase(self):
        for fixture, spec in {"mixtral": "mixtral", "t5": "t5"}.items():
            folder = DATA / fixture
            expected = read_safetensors(folder / "expected.safetensors")
            names = {"tokens": "input_ids", "mask": "attention_mask", "target": "decoder_input_ids"}
            inputs = {name: expected[there] for name, there in names.items() if there in expected}
            self.assertIn("planned", phases())
            for phase in phases():
                dump = self.scratch / f"{fixture}-{phase}.mlir"
                run(QUERN, "compile", EXAMPLES / f"{spec}.quern", "--config", folder / "config.json", "--compile-to", phase, "-o", dump)
                self.assertTrue(dump.read_text().startswith(f"// ---- after {phase}\n"))
                program = self.compile(dump, name=f"{fixture}-{phase}")
                got = self.evaluate(program, folder / "model.safetensors", inputs)["logits"]
                self.assertLess(relative_error(got, expected["logits"]), 5e-5, f"{fixture} from {phase}")
                # Without the first line the phase must be given.
                bare = self.scratch / "bare.mlir"
                bare.write_text(dump.read_text().split("\n", 1)[1])
                run(QUERN, "compile", bare, "--compile-from", phase, "--compile-to", "planned", "-o", self.scratch / "planned.mlir")
                last = self.scratch / f"{fixture}-planned.mlir"
                run(QUERN, "compile", dump, "--compile-to", "planned", "-o", last)
                self.assertEqual((self.scratch / "planned.mlir").read_text(), last.read_text())

    def test_interprets_every_phase(self):
        folder = DATA / "llama"
        expected = read_safetensors(folder / "expected.safetensors")
        for phase in phases():
            dump = self.scratch / f"{phase}.mlir"
            run(QUERN, "compile", EXAMPLES / "llama.quern", "--config", folder / "config.json", "--compile-to", phase, "-o", dump)
            got = self.interpret(dump, folder / "model.safetensors", {"tokens": expected["input_ids"]})["logits"]
            self.assertLess(relative_error(got, expected["logits_f64"]), 1e-9, phase)

    def test_says_what_is_wrong(self):
        llama = (EXAMPLES / "llama.quern", "--config", DATA / "llama" / "config.json")
        dump = self.scratch / "kernels.mlir"
        run(QUERN, "compile", *llama, "--compile-to", "kernels", "-o", dump)
        (self.scratch / "broken.mlir").write_text(dump.read_text()[:-200])
        for words, said in {
            ("compile", dump, "--compile-to", "rolled", "-o", self.scratch / "x"): "stands at 'kernels' already, which is later than 'rolled'",
            ("interpret", dump, "--after", "rolled", "--output", self.scratch / "x"): "stands at 'kernels' already",
            ("compile", *llama, "--compile-to", "kernel", "-o", self.scratch / "x"): "did you mean 'kernels'?",
            ("dump", *llama, "--after", "incremetal"): "did you mean 'incremental'?",
            ("compile", dump, "--compile-from", "nowhere", "-o", self.scratch / "x"): "no phase or pass is named 'nowhere'",
            ("compile", self.scratch / "none.mlir", "-o", self.scratch / "x"): "none.mlir: No such file",
            ("compile", self.scratch / "broken.mlir", "-o", self.scratch / "x"): "broken.mlir",
            ("compile", dump, "--config", "c.json", "-o", self.scratch / "x"): "has its config bound already",
            ("compile", *llama, "--without", "raise-atention", "-o", self.scratch / "x"): "did you mean 'raise-attention'?",
            ("compile", *llama, "--witout", "cse", "-o", self.scratch / "x"): "did you mean '--without'?",
            ("compile", *llama, "-o", self.scratch / "nowhere" / "x"): f"there is no folder {self.scratch / 'nowhere'}",
            ("compile", self.scratch / "none.quern", "-o", self.scratch / "x"): "none.quern",
            ("compil", *llama): "did you mean 'compile'?",
        }.items():
            self.assert_refused(run(QUERN, *words, status=1), said)
            self.assertFalse((self.scratch / "x").exists())


if __name__ == "__main__":
    unittest.main()
