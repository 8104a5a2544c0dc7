"""What a compiled program is: small, self-contained, the same for any number of layers, honest about itself."""
import json
import pathlib
import random
import re
import shutil
import unittest

from tests.e2e.harness import DATA, EXAMPLES, QUERN, SCALED, Case, Tensor, run, write_safetensors

LLAMA = DATA / "llama"
SPEC = EXAMPLES / "llama.quern"


class Program(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.program = cls.compile("llama", "--config", LLAMA / "config.json")

    def test_size_and_libraries(self):
        stripped = self.scratch / "stripped"
        shutil.copy(self.program, stripped)
        run("strip", stripped)
        self.assertLess(stripped.stat().st_size, 2_300_000)
        libraries = run("ldd", self.program, status=None).out.lower()
        for name in ("llvm", "mlir", "halide"):
            self.assertNotIn(name, libraries)

    def test_size_does_not_grow_with_layers(self):
        sizes = []
        for layers in (12, 48):
            program = self.compile("llama", "--config", LLAMA / "config.json", "--set", f"num_hidden_layers={layers}", name=f"deep{layers}")
            sizes.append(program.stat().st_size)
        self.assertLess(sizes[1], sizes[0] * 1.1)

    def test_runs_away_from_home(self):
        """Nothing of the build is needed: an empty environment, another folder."""
        folder = self.scratch / "elsewhere"
        folder.mkdir()
        shutil.copy(self.program, folder / "llama")
        finished = run("env", "-i", "./llama", "generate", "--weights", LLAMA / "model.safetensors", "--tokens", "5,6,7", "-n", 3,
                       "--temp", 0, "--json", cwd=folder)
        self.assertEqual(len(json.loads(finished.out)["tokens"]), 3)

    def test_info(self):
        self.assertIn("llama", run(self.program, "info").out)
        json.loads(run(self.program, "info", "--json").out)
        self.assertRegex(run(self.program, "--version").out, r"^llama, compiled by Quern \d+\.\d+\.\d+\n$")

    def test_bench(self):
        answer = json.loads(run(self.program, "bench", "-p", 16, "-n", 4, "--json").out)
        for part in ("prefill", "decode"):
            self.assertGreater(answer[part]["tokens_per_s"], 0)
            limit = answer[part]["limit"]
            self.assertLessEqual(limit["least"], limit["most"])
            self.assertGreaterEqual(limit["value"], limit["least"])
            self.assertGreater(answer[part]["ratio"], 0)
            self.assertLessEqual(answer[part]["ratio"], 1)  # the fastest run counts as a limit, too
        self.assertGreaterEqual(answer["prefill"]["runs"], 3)
        self.assertEqual(answer["decode"]["runs"], 1)

    def test_limits_are_never_passed(self):
        """A program that multiplies bytes, most of what it multiplies, is compared with that, and the best that was seen is a limit, whatever the probe met."""
        shape = [word for item in ("vocab_size=500", "hidden_size=512", "num_hidden_layers=2", "num_attention_heads=8", "intermediate_size=1408")
                 for word in ("--set", item)]
        tiles = " amx_int8" in pathlib.Path("/proc/cpuinfo").read_text()
        place, of_f32 = ("AMX's registers", "multiply-adds of bf16 in AMX's registers, 6 for each of f32") if tiles else ("registers", "f32 multiply-adds in registers")
        for options, what in (((), of_f32), (("--quantize", "f32,*mlp*=w8a8"), f"multiply-adds of bytes in {place}")):
            program = self.compile("llama", *shape, *options, name="wide")
            for _ in range(2):
                answer = json.loads(run(program, "bench", "-p", 128, "-n", 4, "--json").out)
                self.assertEqual(answer["prefill"]["limit"]["what"], what)
                self.assertEqual("multiply_adds" in answer["prefill"], "6 for each" in what)
                for part in ("prefill", "decode"):
                    self.assertLessEqual(answer[part]["ratio"], 1)

    def test_bench_repeats(self):
        """As often as asked; the median is between the fastest and the slowest, and the table says all three."""
        command = (self.program, "bench", "-p", 16, "-n", 4, "-r")
        answer = json.loads(run(*command, 4, "--json").out)
        for part in ("prefill", "decode"):
            one = answer[part]
            self.assertEqual(one["runs"], 4)
            self.assertLessEqual(one["fastest_s"], one["seconds"])
            self.assertLessEqual(one["seconds"], one["slowest_s"])
            self.assertAlmostEqual(one["tokens_per_s"] * one["seconds"], one["tokens"])
        table = run(*command, 2).out
        for part in ("prefill", "decode"):
            rate, least, most = map(float, re.search(rf"^{part} +([\d.]+) tokens/s .* ([\d.]+) to ([\d.]+) in 2 runs$", table, re.MULTILINE).groups())
            self.assertLessEqual(least, rate)
            self.assertLessEqual(rate, most)
        self.assert_refused(run(*command, 0, status=1), "-r")

    def test_names_for_perf(self):
        """--symbols keeps the names of functions, kernels by those of the dump and their weights; else there are none."""
        self.assertIn("no symbols", run("nm", self.program).err)
        named = self.compile("llama", "--config", LLAMA / "config.json", "--symbols", name="named")
        names = {line.split()[-1] for line in run("nm", "--defined-only", named).out.splitlines()}
        stats = json.loads(run(QUERN, "dump", SPEC, "--config", LLAMA / "config.json", "--after", "planned", "--stats", "--json").out)
        for kernel in stats["passes"][-1]["statistics"]["kernels"]:
            self.assertTrue(any(re.match(rf"{kernel['name']}(\.|$)", name) for name in names), kernel["name"])
        self.assertTrue(any(re.fullmatch(r"contract_\d+\.gate_proj\.up_proj", name) for name in names))
        self.assertFalse([name for name in names if name.startswith("quern_kernel_")])
        sample = ("generate", "--weights", LLAMA / "model.safetensors", "--tokens", "5,6,7", "-n", 4, "--temp", 0, "--json")
        self.assertEqual(run(named, *sample).out, run(self.program, *sample).out)
        self.assert_refused(run(QUERN, "compile", SPEC, "--emit", "lib", "--symbols", status=1), "--symbols")

    def test_same_seed_same_answer(self):
        def sample(seed):
            finished = run(self.program, "generate", "--weights", LLAMA / "model.safetensors", "--tokens", "5,6,7", "-n", 24,
                           "--temp", 1, "--top-k", 50, "--top-p", 0.95, "--seed", seed, "--json")
            return json.loads(finished.out)["tokens"]

        first = sample(1)
        self.assertEqual(sample(1), first)
        self.assertNotEqual(sample(2), first)

    def test_a_model_that_looks_ahead_is_not_extended(self):
        bert = DATA / "bert"
        program = self.compile("bert", "--config", bert / "config.json", name="bert")
        finished = run(program, "generate", "--weights", bert / "model.safetensors", "--tokens", "5,6,7", "-n", 3, status=1)
        self.assert_refused(finished, "causal")

    def test_denormal_numbers_are_zero(self):
        """On every thread: they would make kernels slow."""
        program, weights = self.compile(self.write_spec("small", SCALED), name="small"), self.scratch / "small.safetensors"
        write_safetensors(weights, {"scale": Tensor("F32", [64], [1e-20] * 64)})
        for x, y in ((1e-19, 0.0), (-1e-19, 0.0), (1e-10, 1e-30)):
            (result,) = self.evaluate(program, weights, {"x": Tensor("F32", [4, 500, 64], [x] * 128000)}).values()
            self.assertLessEqual(max(abs(got - y) for got in result.data), 1e-7 * y)

    def test_emit(self):
        spec = self.write_spec("small", SCALED)
        for kind in ("obj", "llvm", "asm", "mlir"):
            output = self.scratch / f"out.{kind}"
            run(QUERN, "compile", spec, "--emit", kind, "-o", output)
            self.assertGreater(output.stat().st_size, 100, kind)

    def test_phases(self):
        self.assertIn("kernels", run(QUERN, "dump", "--list-passes").out)
        dumped = run(QUERN, "dump", SPEC, "--config", LLAMA / "config.json", "--after", "all").out
        self.assertIn("quern.", dumped)
        self.assertNotIn("loc(unknown)", dumped)

    def test_dumps_are_read_again(self):
        """What `dump` writes after any phase is where the compiler can go on, and it ends in the same module."""
        config = ("--config", LLAMA / "config.json")
        planned = run(QUERN, "dump", SPEC, *config, "--after", "planned").out
        for phase in ("resolved", "rolled", "incremental", "kernels", "planned"):
            path = self.scratch / f"{phase}.mlir"
            path.write_text(run(QUERN, "dump", SPEC, *config, "--after", phase).out)
            self.assertEqual(run(QUERN, "dump", path, "--compile-from", phase, "--after", "planned").out, planned, phase)

    def test_memory_as_planned(self):
        """What a program works in, beside its weights, is what `quern dump --stats` says, within 5%."""
        story = DATA / "stories260K"
        config = ("--config", story / "config.json")
        program = self.compile("llama", *config, name="story")
        for read, write in ((100, 20), (480, 8)):
            used = json.loads(run(program, "bench", "-p", read, "-n", write, "--json").out)["memory"]
            dumped = run(QUERN, "dump", SPEC, *config, "--after", "planned", "--stats", "--json", "--set-size", f"T={read},cap={read + write}")
            functions = json.loads(dumped.out)["passes"][0]["statistics"]["functions"]
            (plan,) = [f["peak_at"] for f in functions if f["name"] == "forward.last"]
            self.assertEqual(used["planned_bytes"] - used["planned_scratch_bytes"], plan)
            self.assertLess(abs(used["used_bytes"] - used["planned_bytes"]), 0.05 * used["planned_bytes"], (read, used))

    def test_weights_inside_the_program(self):
        """One file is the whole model: it writes without options for weights or tokenizer."""
        story = DATA / "stories260K"
        program = self.compile("llama", "--weights", story, "--embed-weights", name="carries")
        alone = run(program, "generate", "-p", "Once upon a time", "--temp", 0, "-n", 60, cwd=self.scratch).out
        self.assertTrue((story / "greedy.txt").read_text().startswith(alone.strip()), alone)
        missing = run(QUERN, "compile", SPEC, "--embed-weights", "-o", self.scratch / "none", status=1)
        self.assert_refused(missing, "--weights")
        misfit = self.compile("llama", "--config", DATA / "llama" / "config.json", "--weights", story, "--embed-weights", name="never", status=1)
        self.assert_refused(misfit, "Q042", "does not fit the model")

    def test_packed_weights(self):
        """A folder with weights as the kernels read them gives the same text, and fits programs of the same layouts alone."""
        story, packed = DATA / "stories260K", self.scratch / "packed"
        packed.mkdir()
        for name, options in {"plain": (), "codes": ("--quantize", "int8")}.items():
            program = self.compile("llama", "--config", story / "config.json", *options, name=name)
            run(program, "pack", "--weights", story, "-o", packed / name)
            texts = {run(program, "generate", "--weights", weights, "-p", "Once upon a time", "--temp", 0, "-n", 40).out for weights in (story, packed / name)}
            self.assertEqual(len(texts), 1)
        other = run(program, "generate", "--weights", packed / "plain", "-p", "Once", status=1)
        self.assert_refused(other, "packed for a program with other layouts", "PROGRAM pack")
        checkpoint = self.scratch / "checkpoint"
        shutil.copytree(story, checkpoint)
        self.assert_refused(run(program, "pack", "--weights", checkpoint, "-o", checkpoint, status=1), "is a checkpoint", "another folder")
        self.assert_refused(run(program, "pack", "--weights", packed / "codes", "--adapter", story, "-o", packed / "x", status=1), "no adapter can be added")
        whole = (packed / "codes/model.safetensors").read_bytes()
        header = 8 + int.from_bytes(whole[:8], "little")
        draws = random.Random(7)
        broken = self.scratch / "broken.safetensors"
        for iteration in range(60):
            damaged = bytearray(whole[:draws.randrange(len(whole))] if iteration % 2 else whole)
            if not iteration % 2:
                damaged[draws.randrange(header)] ^= 1 << draws.randrange(8)
            broken.write_bytes(damaged)
            done = run(program, "generate", "--weights", broken, "--tokens", "1,2", "-n", 2, status=None)
            self.assertIn(done.status, (0, 1), (iteration, done.err))  # a bit of a name's spelling in JSON may mean the same
            self.assertTrue(done.status == 0 or done.err.startswith("error: "), done.err)


if __name__ == "__main__":
    unittest.main()
