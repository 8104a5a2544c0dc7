"""Programs for CUDA, with a driver of the tests' own (tests/gpu/FakeCuda.cpp), which executes the PTX of each launch: golden
models, what a step copies, and what is said where a driver or a device is missing, fails or is full.

One class a fixture (`python3 -m tests.e2e.devices.cuda_test llama`). QUERN_CUDA_LIBRARY=libcuda.so.1 runs them on a card."""
import json
import os
import unittest
from unittest import mock

from tests.e2e.devices import device_cases
from tests.e2e.generation import chat_test
from tests.e2e.training import adapters_test, precision_test
from tests.e2e.models import recurrences_test
from tests.e2e.harness import BUILD, DATA, Case, Tensor, exactly, read_safetensors, relative_error, run, write_safetensors
from tests.e2e.models.models_test import ENCODERS, INPUTS, SPECS

os.environ.setdefault("QUERN_CUDA_LIBRARY", str(BUILD / "lib" / "libquern_fake_cuda.so"))

globals().update(device_cases.models("cuda", __module__=__name__))


class Steps(device_cases.Steps):
    target = "cuda"

    def asked(self, steps, *options, program=None, **variables):
        """What a run of so many tokens asked of the driver (tests/gpu/FakeCuda.cpp)."""
        log = self.scratch / "asked.json"
        with mock.patch.dict(os.environ, QUERN_FAKE_CUDA_LOG=str(log), **variables):
            out = run(program or self.program, "generate", "--weights", DATA / "llama" / "model.safetensors", "--tokens", "1,2,3,4", "-n", steps, "--json", *options).out
        return json.loads(out)["tokens"], json.loads(log.read_text())

    def test_a_step_and_its_choice_are_a_graph_each(self):
        """The choice is fetched while the device reads it."""
        for rule in (("--temp", 0), ("--temp", 0.9, "--top-k", 20, "--top-p", 0.9)):
            (_, few), (_, many) = self.asked(6, *rule), self.asked(16, *rule)
            more = {name: count - few.get(name, 0) for name, count in many.items()}
            nodes = more.pop("graph_nodes")
            self.assertGreater(nodes, 10 * 15)
            self.assertEqual(nodes % 10, 0)
            self.assertLess(more.pop("nodes_set"), nodes // 2, "most launches are those of the step before")
            self.assertEqual({name: count for name, count in more.items() if count}, {"graph_launches": 20, "fetched": 10, "fetched_bytes": 40}, (few, many))

    def test_launches_that_do_not_wait_for_the_end_of_the_one_before(self):
        tokens, plain = self.asked(8, "--temp", 0, QUERN_CUDA_DEPENDENT="0")
        same, early = self.asked(8, "--temp", 0)
        self.assertEqual(tokens, same)
        self.assertEqual(plain.get("early_nodes", 0), 0)
        self.assertEqual(early["early_nodes"], 13, "six of each layer, and the head: a map behind a map is not worth it")
        self.assertEqual(early["graph_nodes"], plain["graph_nodes"])
        self.assertGreater(early["kernels_that_fetch_ahead"], 5, "products of few rows ask for weights before they wait")
        self.assertEqual(plain.get("kernels_that_fetch_ahead", 0), 0)
        _, old = self.asked(8, "--temp", 0, QUERN_FAKE_CUDA="ampere")
        self.assertEqual(old.get("early_nodes", 0), 0, "needs capability 9.0")


class Chat(chat_test.Chat):
    """A text goes on where it ended, though its last token was read before the host knew that it ends there."""
    target = exactly("cuda")
    test_reset_system_and_continued_lines = test_recommended_sampling = test_files_of_templates = None  # the same for all targets
    test_embedded = test_interrupted_on_a_terminal = test_mistakes = None


class Images(Case):
    """A program has kernels for Hopper alone beside those for all cards since 8.0, and runs what the card and its driver can."""

    def test_the_best_that_the_card_runs(self):
        program = self.compile("llama", "--config", DATA / "llama" / "config.json", "--target", "cuda")
        log = self.scratch / "asked.json"

        def asked(**variables):
            with mock.patch.dict(os.environ, QUERN_FAKE_CUDA_LOG=str(log), **variables):
                tokens = ",".join(str(number) for number in range(1, 14))  # more rows than dot products are for
                out = run(program, "generate", "--weights", DATA / "llama" / "model.safetensors", "--tokens", tokens, "-n", 4, "--temp", 0, "--json").out
            return json.loads(out)["tokens"], json.loads(log.read_text()).get("tensors", 0)

        tokens, tensors = asked()
        self.assertGreater(tensors, 10, "copies of boxes have tensor maps")
        self.assertEqual(asked(QUERN_CUDA_DEPENDENT="0"), (tokens, tensors))
        for older in ({"QUERN_FAKE_CUDA": "ampere"}, {"QUERN_FAKE_CUDA": "cuda11"}, {"QUERN_CUDA_CAPABILITY": "80"}):
            self.assertEqual(asked(**older), (tokens, 0), older)


class Profiled(device_cases.Profiled):
    target = "cuda"


class Formats(device_cases.Formats):
    target = "cuda"


class Rounded(Case):
    """What --target cuda makes where nothing is said of numbers: those of w16a16, as the interpreter rounds them, and caches in bf16."""

    def test_as_interpreted(self):
        self.check_models("mixtral", "bert", "t5")

    def check_models(self, *fixtures):
        for fixture in fixtures:
            folder = DATA / fixture
            config, weights, expected = folder / "config.json", folder / "model.safetensors", read_safetensors(folder / "expected.safetensors")
            inputs = {name: expected[there] for name, there in INPUTS.items() if there in expected}
            keep = list(inputs["mask"].data) if fixture in ENCODERS else None
            program = self.compile(SPECS[fixture], "--config", config, "--target", "cuda", name=fixture)
            got = self.evaluate(program, weights, inputs)["logits"]
            want = self.interpret(SPECS[fixture], weights, inputs, "--config", config, "--quantize", "w16a16", "--kv-cache", "bf16", "--after", "narrow-storage")["logits"]
            self.assertLess(relative_error(got, want, keep), 3e-2, fixture)  # formats_test.py says why not nearer
            apart = relative_error(want, expected["logits"], keep)
            self.assertLess(apart, 1e-1, fixture)
            self.assertGreater(apart, 1e-4, fixture)

    def test_rows_beside_codes(self):
        """Are in bf16, too, unless somebody says otherwise."""
        folder = DATA / "llama"
        given, inputs = ("--config", folder / "config.json"), {"tokens": read_safetensors(folder / "expected.safetensors")["input_ids"]}
        for options, formats, limit in (((), "q4_k+a16", 3e-2), (("--activations", "exact"), "q4_k", 5e-5), (("--precision", "f32"), "q4_k", 5e-5)):
            program = self.compile("llama", *given, "--target", "cuda", "--quantize", "q4_k", *options)
            got = self.evaluate(program, folder / "model.safetensors", inputs)["logits"]
            want = self.interpret("llama", folder / "model.safetensors", inputs, *given, "--quantize", formats, "--after", "narrow-storage")["logits"]
            self.assertLess(relative_error(got, want), limit, options)

    def test_what_is_said(self):
        config = ("--config", DATA / "llama" / "config.json")
        weights = {}
        for options in ((), ("--precision", "f32"), ("--quantize", "int8")):
            program = self.compile("llama", *config, "--target", "cuda", *options)
            bench = json.loads(run(program, "bench", "-p", 1, "-n", 1, "--json").out)
            weights[options] = bench["weights_bytes"]
            self.assertEqual("tensor cores" in bench["prefill"]["limit"]["what"], "f32" not in options, bench["prefill"]["limit"])  # what a program multiplies with
        bf16, f32, int8 = weights.values()
        self.assertLess(int8, bf16)
        self.assertLess(bf16, 0.7 * f32)  # tables that are looked up stay
        err = run(BUILD / "bin" / "quern", "compile", "llama.quern", *config, "--target", "cuda", "-o", self.scratch / "again", cwd=DATA.parent.parent / "examples").err
        self.assertIn("--precision f32", err)


class MoreRounded(Rounded):
    """`More`: in the tier `nightly`."""
    test_rows_beside_codes = test_what_is_said = None

    def test_as_interpreted(self):
        self.check_models("gpt2", "llama")


class Adapters(adapters_test.Adapters):
    def test_beside_the_weights(self):
        """A kernel has two products then: exact, and of codes by the defaults, whose rows are in bf16."""
        folder, given = DATA / "llama", ("--lora", 4, "--config", DATA / "llama" / "config.json")
        adapter, _ = self.write_adapter("adapter", "llama", 4, 8)
        weights, inputs = folder / "model.safetensors", {"tokens": read_safetensors(folder / "expected.safetensors")["input_ids"]}
        for options, formats, limit in ((exactly("cuda"), (), 5e-5), (("--target", "cuda", "--quantize", "q4_k"), ("--quantize", "q4_k+a16"), 3e-2)):
            program = self.compile("llama", *given, *options)
            got = self.evaluate(program, weights, inputs, "--adapter", adapter)["logits"]
            want = self.interpret("llama", weights, inputs, *given, *formats, "--adapter", adapter / "adapter_model.safetensors", "--after", "narrow-storage")["logits"]
            self.assertLess(relative_error(got, want), limit, options)
            self.assertGreater(relative_error(self.evaluate(program, weights, inputs)["logits"], want), 0.1, options)


class Caches(device_cases.Caches):
    target = "cuda"

    @classmethod
    def compile(cls, spec, *options, **more):
        """With all pieces of numbers: else attention rounds queries where keys are bf16, which the interpreter does not."""
        exact = cls.scratch / "exact.txt"
        exact.write_text("attend : pieces 3\n")
        return super().compile(spec, *options, "--schedules", exact, **more)


class Training(device_cases.Training):
    target = "cuda"


class TrainingSteps(device_cases.TrainingSteps):
    target = "cuda"


class Lost(device_cases.Lost):
    target = "cuda"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        batches = read_safetensors(cls.data)["tokens"]  # short texts will do: each launch is executed instruction by instruction
        short = [row[:9] for batch in range(batches.shape[0]) for row in batches.row(batch).rows()]
        write_safetensors(cls.data, {"tokens": Tensor(batches.dtype, [*batches.shape[:2], 9], [token for row in short for token in row])})

    def lost_after(self, launches):
        return {"QUERN_FAKE_CUDA": f"lost:{launches}"}


class TwoBytes(precision_test.Fixture):
    target = "cuda"


class Recurrences(recurrences_test.Recurrences):
    target = "cuda"


class Tuning(device_cases.Tuning):
    target, library = "cuda", "QUERN_CUDA_LIBRARY"

    def test_both_producers_are_tried(self):
        """A product by tensor cores, and as all other kernels are made."""
        spec, self.database = self.write_spec("words", device_cases.WORDS), self.scratch / "both.sqlite"
        self.searched(spec, *exactly("cuda"))
        tried = self.rows("select candidate, outcome from trial where incumbent like 'tile:%' and candidate like 'gpu:%'")
        self.assertTrue(tried)
        self.assertLessEqual({outcome for _, outcome in tried}, {"faster", "slower"})

    def test_formats_are_those_of_compile(self):
        """bf16 where nothing is said of numbers, in both: else the kernels would be others."""
        spec, self.database = self.write_spec("words", device_cases.WORDS), self.scratch / "formats.sqlite"
        *where, candidate, _ = self.searched(spec, "--target", "cuda")[0]
        self.rows("delete from plan")
        self.rows("insert into plan(kernel, target, machine, work, plan, gain, title, imported) values(?, ?, ?, ?, ?, 1.5, 'it', 0)", *where, candidate)
        said = run(device_cases.QUERN, "compile", spec, "--target", "cuda", "--database", self.database, "-o", self.scratch / "said").err
        self.assertIn(" tuned", said)


class Gradients(device_cases.Gradients):
    target = "cuda"


class Refusals(device_cases.Refusals):
    target = "cuda"

    def test_no_library(self):
        self.assert_refused(self.generate_with(QUERN_CUDA_LIBRARY="/nowhere/libcuda.so.1"), "no driver can be opened", "/nowhere", "install", "native")

    def test_a_library_that_is_none(self):
        self.assert_refused(self.generate_with(QUERN_CUDA_LIBRARY="libm.so.6"), "too old", "cuinit")

    def test_no_device(self):
        self.assert_refused(self.generate_with(QUERN_FAKE_CUDA="none"), "the driver offers none", "nvidia-smi", "native")

    def test_no_such_device(self):
        self.assert_refused(self.generate_with(QUERN_DEVICE="no such device"), "no cuda device fits", "no such device", "fake device")

    def test_an_old_device(self):
        self.assert_refused(self.generate_with(QUERN_FAKE_CUDA="old"), "no cuda device fits", "3.7", "7.0")

    def test_kernels_for_newer_devices(self):
        self.assert_refused(self.generate_with(QUERN_FAKE_CUDA="volta"), "capability 8.0 or later", "fake device", "7.0", "--target opencl")

    def test_no_memory(self):
        self.assert_refused(self.generate_with(QUERN_FAKE_CUDA="full"), "memory", "fake device")

    def test_a_device_that_is_lost(self):
        for options in ((), ("--profile", self.scratch / "profile.json")):  # which asks for times between launches
            self.assert_refused(self.generate_with(*options, QUERN_FAKE_CUDA="lost"), "cuda driver failed", "unspecified launch failure")


if __name__ == "__main__":
    unittest.main()
