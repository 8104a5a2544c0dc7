"""What every target for devices is asked: golden models, what a step copies, weights in fewer bits, what is refused. The files
of the targets (opencl_test.py, cuda_test.py) make their classes of these."""
import json
import os
import random
import sqlite3
from unittest import mock

from tests.e2e.generation import profile_test
from tests.e2e.training import gradients_test
from tests.e2e.training import precision_test
from tests.e2e.training import train_test
from tests.e2e.harness import DATA, QUERN, Case, exactly, random_tensor, random_tokens, read_safetensors, relative_error, run, write_safetensors
from tests.e2e.models.models_test import COMPILED, CONTRASTS, ENCODERS, IMAGES, INPUTS, PAIRS, SPECS, SPEECH, ZOO


class Model(Case):
    target = fixture = None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = DATA / cls.fixture
        cls.weights, cls.config = cls.folder / "model.safetensors", cls.folder / "config.json"
        cls.expected = read_safetensors(cls.folder / "expected.safetensors")
        cls.inputs = {name: cls.expected[there] for name, there in INPUTS.items() if there in cls.expected}
        cls.keep = list(cls.inputs["mask"].data) if cls.fixture in ENCODERS else None
        cls.program = cls.compile((SPECS | ZOO)[cls.fixture], "--config", cls.config, *exactly(cls.target))

    def test_logits(self):
        got = self.evaluate(self.program, self.weights, self.inputs)["logits"]
        self.assertLess(relative_error(got, self.expected["logits"], self.keep), COMPILED)

    def test_another_batch_and_length(self):
        if self.fixture in (*PAIRS, *ENCODERS, *IMAGES, *SPEECH, *ZOO):
            return  # their goldens have rows of several lengths; of the zoo models_test.py tries them
        inputs = {"tokens": random_tokens(1, 3, 29, self.expected["logits"].shape[-1])}
        want = self.interpret(SPECS[self.fixture], self.weights, inputs, "--config", self.config)["logits"]
        got = self.evaluate(self.program, self.weights, inputs)["logits"]
        self.assertLess(relative_error(got, want), COMPILED)

    def test_greedy_continuations(self):
        if self.fixture in (*ENCODERS, *IMAGES, *SPEECH, *CONTRASTS):
            return  # speech is fed by models_test.py, the others write nothing
        tokens, masks = self.expected["input_ids"].rows(), self.expected.get("attention_mask")
        if self.fixture in PAIRS:
            prompts = [[t for t, real in zip(row, mask) if real] for row, mask in zip(tokens, masks.rows())]
        else:
            prompts = [row[:5] for row in tokens]
        for prompt, want in zip(prompts, self.expected["generated"].rows()):
            self.assertEqual(self.generate(self.program, self.weights, prompt, len(want)), want)


def models(target, **attributes):
    """Classes named after the fixtures, for the globals of a target's file."""
    return {fixture: type(fixture, (Model,), {"target": target, "fixture": fixture, **attributes}) for fixture in SPECS | ZOO}


class Steps(Case):
    """What a step of decoding asks of the device."""
    target = None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.program = cls.compile("llama", "--config", DATA / "llama" / "config.json", *exactly(cls.target))

    def test_a_step_copies_its_token_only(self):
        steps = 5
        device = json.loads(run(self.program, "bench", "-p", 8, "-n", steps, "--json").out)["device"]
        self.assertEqual((device["sent"], device["sent_bytes"]), (0, 0), device)
        self.assertEqual((device["fetched"], device["fetched_bytes"]), (steps, 4 * steps), device)
        self.assertEqual((device["moved"], device["allocations"]), (0, 0), device)
        self.assertGreater(device["launches"], steps * 10)
        self.assertEqual(device["launches"] % steps, 0, "each step launches the same kernels")

    def tokens(self, *options, count=12, prompts=("1,2,3,4,5",)):
        prompts = [part for prompt in prompts for part in ("--tokens", prompt)]
        out = run(self.program, "generate", "--weights", DATA / "llama" / "model.safetensors", *prompts, "-n", count, "--json", *options).out
        return [json.loads(line)["tokens"] for line in out.splitlines()]

    def test_the_device_chooses_as_the_host(self):
        """--logprobs needs the logits, so it is the host that chooses there."""
        rules = [("--temp", 0), ("--temp", 1), ("--temp", 0.8, "--top-k", 10), ("--top-p", 0.9, "--seed", 3), ("--temp", 1.5, "--top-k", 50, "--top-p", 0.8, "--min-p", 0.02)]
        chosen = [self.tokens(*rule) for rule in rules]
        self.assertEqual(chosen, [self.tokens(*rule, "--logprobs") for rule in rules])
        self.assertGreater(len({str(tokens) for tokens in chosen}), 3, "the rules matter")
        self.tokens("--temp", 1, "--repeat-penalty", 1.3)  # looks at the text: the host's

    def test_texts_together(self):
        """Of different lengths, which end at different times; and each as if it were alone."""
        prompts = ["1,2,3", "4,5,6,7,8,9", "10"]
        for rule in (("--temp", 0), ("--temp", 0.9, "--top-k", 20)):
            self.assertEqual(self.tokens(*rule, prompts=prompts), [tokens for prompt in prompts for tokens in self.tokens(*rule, prompts=[prompt])])
        self.assertEqual(self.tokens("--temp", 1, "--results", 3), self.tokens("--temp", 1, "--results", 3, "--logprobs"))


class Profiled(profile_test.Profile):
    """Times of launches are the device's; all of them together are those of the calls that make them."""


class Formats(Case):
    """Weights in fewer bits, and rows: as the interpreter of the same module. Packed weights are what the device is given."""
    target = None

    def test_formats(self):
        for fixture, options in {"llama": ("--precision", "bf16"), "gptj": ("--precision", "f16"), "mixtral": ("--quantize", "int4"), "phi3": ("--quantize", "q4_k"), "qwen2": ("--quantize", "w8a8")}.items():
            folder, given = DATA / fixture, ("--config", DATA / fixture / "config.json", *options)
            inputs = {"tokens": read_safetensors(folder / "expected.safetensors")["input_ids"]}
            exact = ("--activations", "exact") if "--quantize" in options else ()
            program = self.compile(SPECS[fixture], *given, *exact, "--target", self.target, name=fixture)
            run(program, "pack", "--weights", folder, "-o", self.scratch / f"{fixture}-packed")
            got = self.evaluate(program, self.scratch / f"{fixture}-packed", inputs)["logits"]
            want = self.interpret(SPECS[fixture], folder / "model.safetensors", inputs, *given, "--after", "narrow-storage")["logits"]
            self.assertLess(relative_error(got, want), 3e-2 if "w8a8" in options else COMPILED, fixture)  # a code may be the next one


class Caches(precision_test.Caches):
    """Caches in bf16 and int8, written and read step by step."""
    target = None
    test_by_default = test_bytes_of_a_position = test_refusals = None  # the same for all targets

    @classmethod
    def compile(cls, spec, *options, **more):
        return super().compile(spec, *options, *exactly(cls.target), **more)


class Training(train_test.Beside):
    """PyTorch's losses, norms, weights and moments, as on the processor; and what is stored of a run."""

    def test_twenty_steps(self):
        self.check_twenty_steps()

    def test_resumed(self):
        whole, half = self.train("whole", 4), self.train("half", 2)
        run(self.program, "train", "--data", self.data, "--output", half, "--resume", "--steps", 4)
        for file in ("model", "optimizer"):
            a, b = (read_safetensors(folder / "checkpoint-4" / f"{file}.safetensors") for folder in (whole, half))
            self.assertEqual(sorted(a), sorted(b))
            for name in a:
                self.assertEqual(list(a[name].data), list(b[name].data), name)


class TrainingSteps(train_test.Beside):
    """Ways to train, beside the processor's; and what a step copies."""

    def beside_the_processor(self, name, steps, *options, model=()):
        own, losses = self.program, []
        there, here = ("gpt2", "--train", *model, "--config", train_test.FIXTURE / "config.json"), f"cpu-{name}"
        for program in (self.compile(*there, *exactly(self.target), name=f"own-{name}") if model else own, self.compile(*there, name=here)):
            type(self).program = program
            try:
                losses.append(train_test.log(self.train(f"{name}-{program.name}", steps, *options), "loss"))
            finally:
                type(self).program = own
        self.assertEqual(list(losses[0]), list(range(1, steps + 1)))
        for step, loss in losses[0].items():
            self.assertLess(abs(loss - losses[1][step]), 1e-5, step)

    def test_adapters(self):
        self.beside_the_processor("lora", 3, model=("--lora", 4))

    def test_adapters_over_codes(self):
        self.beside_the_processor("codes", 3, model=("--lora", 4, "--quantize", "q4_k"))

    def test_rows_of_several_calls(self):
        self.beside_the_processor("accumulated", 3, "--accumulate", 2)

    def test_a_step_copies_numbers_only(self):
        bench = json.loads(run(self.program, "bench", "--train", "--batch", 2, "-p", 8, "-r", 3, "--json").out)
        device, steps = bench["device"], bench["runs"]
        self.assertGreater(4 * bench["parameters"], 100_000)
        for there in ("sent", "fetched"):  # settings of the update; the loss, the gradient's squares, what a check found
            self.assertLess(device[there], 20 * steps, device)
            self.assertLess(device[there + "_bytes"], 4000 * steps, device)
        self.assertEqual(device["allocations"], 0)


class Lost(train_test.Beside):
    """A device that is lost while a model is trained: the run ends with a sentence, and goes on from its last checkpoint to the bits of
    a run that nothing happened to."""

    def lost_after(self, launches):
        """The variables that make it so."""
        raise NotImplementedError

    def command(self, folder, *options):
        return [self.program, "train", "--data", self.data, "--weights", train_test.FIXTURE / "model.safetensors", "--output", folder, *train_test.ADAMW, "--quiet", *options]

    def lose(self, launches, command):
        with mock.patch.dict(os.environ, self.lost_after(launches)):
            return run(*command, status=2)

    def stored(self, folder):
        return {name: list(tensor.data) for file in ("model", "optimizer") for name, tensor in read_safetensors(folder / f"{file}.safetensors").items()}

    def test_nothing_is_lost_but_since_the_last_checkpoint(self):
        bench = json.loads(run(self.program, "bench", "--train", "--batch", 2, "-p", 8, "-r", 3, "--json").out)
        each = bench["device"]["launches"] // bench["runs"]  # of a step
        whole, folder, early = self.scratch / "whole", self.scratch / "lost", self.scratch / "early"
        run(*self.command(whole, "--steps", 6, "--save-every", 2))
        done = self.lose(each // 2, self.command(early, "--steps", 6, "--save-every", 2))
        self.assert_refused(done, "driver failed", "0 of 6 steps were done", "there was no checkpoint yet")
        self.assertEqual(list(early.glob("checkpoint-*")), [])
        run(*self.command(early, "--steps", 1))  # which does as it is told: the folder is free

        done = self.lose(each * 9 // 2, self.command(folder, "--steps", 6, "--save-every", 2))
        self.assert_refused(done, "driver failed", "4 of 6 steps were done", "checkpoint-4", f"--resume --output {folder}")
        self.assertEqual(sorted(path.name for path in folder.glob("*checkpoint-*")), ["checkpoint-2", "checkpoint-4"], "and none that is half there")
        self.assertEqual(self.stored(folder / "checkpoint-4"), self.stored(whole / "checkpoint-4"))
        resume = [self.program, "train", "--resume", "--output", folder, "--quiet"]
        done = self.lose(each // 2, resume)  # and lost again, before it came any further
        self.assert_refused(done, "driver failed", "4 of 6 steps were done", "checkpoint-4")
        self.assertEqual(self.stored(folder / "checkpoint-4"), self.stored(whole / "checkpoint-4"))
        run(*resume)
        self.assertEqual(self.stored(folder / "checkpoint-6"), self.stored(whole / "checkpoint-6"))
        self.assertEqual(train_test.log(folder, "loss"), train_test.log(whole, "loss"))


class Gradients(gradients_test.Golden):
    """As the processor's: loss and every gradient within PyTorch's tolerance. The classes of a target have a test for each fixture."""
    target = None

    def check(self, fixture):
        folder, expected, inputs = self.read(fixture)
        program = self.compile(SPECS[fixture], "--train", "--config", folder / "config.json", *exactly(self.target), name=f"{fixture}-train")
        self.compare(folder, expected, self._evaluate([program, "grad"], folder / "model.safetensors", inputs, ()), noise=1e-6)


for fixture in SPECS:
    setattr(Gradients, "test_" + fixture.replace("-", "_"), gradients_test.golden(fixture))


WORDS = """quern 1
model words {
  dim V = 256, D = 64
  forward(tokens: int[B, T]) -> [B, T, V] {
    return linear[D -> V](tanh(embedding[V -> D](tokens) @ "words"), false) @ "head"
  }
}
"""


class Tuning(Case):
    """Plans are compared in the device's memory, by its clock. Of speed the tests' devices say nothing: that a search goes on, keeps what
    it finds under the device's name, and is used."""
    target = library = None

    def tune(self, *words, **more):
        return run(QUERN, "tune", *words, **more)

    def rows(self, sql, *values):
        connection = sqlite3.connect(self.database)
        try:
            with connection:
                return connection.execute(sql, values).fetchall()
        finally:
            connection.close()

    def searched(self, *search):
        """Comparisons of a search that goes on until it has two, each run where the last one ended."""
        found, budget = [], 2
        while len(found) < 2:
            budget *= 2
            self.tune(*search, "-p", 9, "--seconds", 0.01, "--database", self.database, "--budget", budget)
            found = self.rows("select kernel, target, machine, work, candidate, incumbent from trial where outcome in ('faster', 'slower')")
        return found

    def test_found_plans_are_used(self):
        spec, self.database = self.write_spec("words", WORDS), self.scratch / "found.sqlite"
        candidates = self.searched(spec, *exactly(self.target))
        before = self.rows("select count(*) from trial")
        self.assertEqual(self.rows("select * from trial where outcome = 'wrong'"), [])
        again = self.tune(spec, *exactly(self.target), "-p", 9, "--database", self.database, "--budget", 0)
        self.assertIn("0 comparisons", again.out)
        self.assertEqual(self.rows("select count(*) from trial"), before)
        kernel, target, machine, work, candidate, _ = candidates[0]
        self.assertIn(self.target, target)
        self.assertIn(self.target, machine.lower())
        self.assertNotIn("threads", work)

        # As if it had won, and nothing else: it is used, and gives the same numbers.
        compiled = lambda name, *words: self.compile(spec, *exactly(self.target), "--database", self.database, *words, name=name)
        default = compiled("default", "--no-tuned")
        self.rows("delete from plan")
        self.assertNotIn("tuned", self.compiler_says(spec))
        win = "insert into plan(kernel, target, machine, work, plan, gain, title, imported) values(?, ?, ?, ?, ?, 1.5, 'a product', 0)"
        self.rows(win, kernel, target, machine, work, candidate)
        self.assertIn("1 tuned", self.compiler_says(spec))
        tuned = compiled("tuned")
        self.assertNotEqual(tuned.read_bytes(), default.read_bytes())
        draw, weights, inputs = random.Random(5), self.scratch / "model.safetensors", {"tokens": random_tokens(3, 2, 9, 256)}
        write_safetensors(weights, {"words.weight": random_tensor(draw, [256, 64], 1), "head.weight": random_tensor(draw, [256, 64])})
        got, want = (self.evaluate(program, weights, inputs)["logits"] for program in (tuned, default))
        self.assertLess(relative_error(got, want), 1e-5)
        self.assertIn(candidate, self.tune("--list", "--database", self.database).out)
        # Of another device it is not, unless that one is asked for.
        self.rows("delete from plan")
        self.rows(win, kernel, target, "another device", work, candidate)
        self.assertNotIn("tuned", self.compiler_says(spec))
        self.rows("insert into device values(?, 'another device', 0)", target)
        self.assertNotIn("tuned", self.compiler_says(spec))
        self.assertIn("1 tuned", self.compiler_says(spec, QUERN_DEVICE="another"))

    def compiler_says(self, spec, **variables):
        with mock.patch.dict(os.environ, variables):
            return run(QUERN, "compile", spec, *exactly(self.target), "--database", self.database, "-o", self.scratch / "said").err

    def test_a_bundle(self):
        spec, bundle, plans = self.write_spec("words", WORDS), self.scratch / "words.tune", self.scratch / "found.plans"
        self.database = self.scratch / "bundle.sqlite"
        made = self.tune(spec, *exactly(self.target), "-p", 9, "--bundle", bundle, "--database", self.database)
        self.assertGreater(int(made.out.split(": ")[1].split()[0]), 3)
        done = run(bundle, "tune", "--budget", 5, "--seconds", 0.01, "--output", plans, cwd=self.scratch)
        tried = [line for line in done.out.splitlines() if line.startswith(("head ", "words "))]
        self.assertTrue(tried, done.out)
        self.assertEqual([line[34:].split()[2] for line in tried], ["0"] * len(tried), "no plan is wrong: " + done.out)
        lines = [line for line in plans.read_text().splitlines() if not line.startswith("#")]
        self.assertIn(f"{len(lines)} plans are in {plans}", done.out)
        imported = self.tune("--import", plans, "--database", self.database)
        self.assertIn(f"{len(lines)} plans are in", imported.out)

    def test_no_driver(self):
        """A search says so; a bundle is for another machine, so it has all plans of all kernels."""
        spec = self.write_spec("words", WORDS)
        words = (spec, *exactly(self.target), "-p", 9, "--database", self.scratch / "none.sqlite")
        with mock.patch.dict(os.environ, {self.library: "/nowhere/library"}):
            self.assert_refused(self.tune(*words, "--budget", 1, status=2), "could not be measured", "no driver can be opened", "/nowhere", "native")
            made = self.tune(*words, "--bundle", self.scratch / "elsewhere")
            self.assertIn("all kernels are tried", made.err)
            self.assertGreater(int(made.out.split(": ")[1].split()[0]), 5)
            self.assert_refused(run(self.scratch / "elsewhere", "tune", "--budget", 1, status=2, cwd=self.scratch), "no driver can be opened")


WIDE = """quern 1
model wide {
  forward(source: int[B, N], tokens: int[B, T]) -> [B, T] {
    h: [B] = 0
    scan T {
      h = 0.5 * h + mean[N](source * (tokens + h))
      y = h
    }
    return y
  }
}
"""


class Refusals(Case):
    """Without a driver, or asked for what it has not."""
    target = None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = DATA / "llama"
        cls.program = cls.compile("llama", "--config", cls.folder / "config.json", *exactly(cls.target))

    def generate_with(self, *options, **variables):
        saved = dict(os.environ)
        os.environ.update(variables)
        try:
            return run(self.program, "generate", "--weights", self.folder / "model.safetensors", "--tokens", "1,2", "-n", 1, *options, status=2)
        finally:
            os.environ.clear()
            os.environ.update(saved)

    def test_info_needs_no_driver(self):
        self.assertIn(self.target, run(self.program, "info").out)

    def test_a_recurrence_over_a_length(self):
        spec = self.write_spec("wide", WIDE)
        self.compile(spec, name="wide")
        self.assert_refused(self.compile(spec, *exactly(self.target), status=1), "wide.quern", ":5:5", "within the recurrence", "--target native")

    def test_memory(self):
        self.assert_refused(self.compile("llama", "--config", self.folder / "config.json", *exactly(self.target), "--train", "--memory", "1G",
                                         "--length", 8, status=1), "--memory", self.target, "leave out")

    def test_library(self):
        self.assert_refused(self.compile("llama", "--config", self.folder / "config.json", *exactly(self.target), "--emit", "lib", status=1),
                            "--emit lib", self.target)

