"""LoRA in the IR (`--lora`): gradients of adapters alone, over a base that stays in codes."""
import json
import math
import random
import shutil
import unittest

from tests.e2e.harness import (DATA, EXAMPLES, LESSER_TARGET, QUERN, Case, Tensor, ints, random_tensor, random_tokens, read_safetensors, relative_error,
                               run, write_safetensors)
from tests.e2e.training.train_test import log

STORY = DATA / "stories260K"
PREFIX = "base_model.model."


def coded(form):
    return () if form == "f32" else ("--quantize", form)


class Adapters(Case):
    def write_adapter(self, name, fixture, rank, alpha, keep=lambda matrix: True, inputs_first=False):
        """Random numbers beside each matrix of the layers that `keep` chooses, as PEFT stores them."""
        source, tensors = random.Random(7), {}
        for matrix, tensor in read_safetensors(DATA / fixture / "model.safetensors").items():
            if len(tensor.shape) != 2 or not any(part in matrix for part in (".layers.", ".h.")) or not keep(matrix):
                continue
            rows, columns = reversed(tensor.shape) if inputs_first else tensor.shape
            stem = PREFIX + matrix.removesuffix(".weight")
            tensors[stem + ".lora_A.weight"] = random_tensor(source, [rank, columns])
            tensors[stem + ".lora_B.weight"] = random_tensor(source, [rows, rank], 0.1)
        folder = self.scratch / name
        folder.mkdir(exist_ok=True)
        write_safetensors(folder / "adapter_model.safetensors", tensors)
        tensors = read_safetensors(folder / "adapter_model.safetensors")  # rounded to f32
        config = {"peft_type": "LORA", "r": rank, "lora_alpha": alpha, "fan_in_fan_out": inputs_first, "target_modules": ["any"]}
        (folder / "adapter_config.json").write_text(json.dumps(config))
        return folder, tensors


class Beside(Adapters):
    """Against the interpreter on the module with the same codes, in double precision, and that against differences of its loss."""

    def check(self, fixture, form, *more, spec=None, inputs_first=False):
        """Of rank 4 and scale 3, so that the stories' kernels are those of Learning."""
        spec = spec or fixture
        folder, tensors = self.write_adapter("adapter", fixture, 4, 12, inputs_first=inputs_first)
        options = ("--train", "--lora", 4, "--lora-scale", 3, *coded(form), "--config", DATA / fixture / "config.json")
        weights, vocabulary = DATA / fixture / "model.safetensors", json.loads((DATA / fixture / "config.json").read_text())["vocab_size"]
        rows = random_tokens(3, 2, 10, vocabulary).rows()
        inputs = {"tokens": ints([row[:-1] for row in rows]), "labels": ints([row[1:] for row in rows])}
        program = self.compile(spec, *options, *more, name=f"{fixture}-{form}")
        got = self._evaluate([program, "grad", "--adapter", folder], weights, inputs, ())
        interpreted = (*options, "--after", "narrow-storage")
        file = folder / "adapter_model.safetensors"
        want = self.interpret(spec, weights, inputs, *interpreted, "--adapter", file)
        self.assertLess(abs(got["loss"].data[0] - want["loss"].data[0]), 1e-5)
        names = sorted("grad." + name.removeprefix(PREFIX) for name in tensors)
        self.assertEqual(sorted(name for name in want if name.startswith("grad.")), names)
        self.assertEqual(sorted(name for name in got if name.startswith("grad.")), names)
        for name in names:
            self.assertGreater(max(map(abs, want[name].data)), 1e-5, name)
            self.assertLess(relative_error(got[name], want[name]), 2e-4, name)
        return interpreted, weights, inputs, tensors, want

    def difference(self, spec, interpreted, weights, inputs, tensors, want):
        """Along a random direction that changes all numbers."""
        source, step = random.Random(11), 1e-4
        along = {name: [source.gauss(0, 0.1) for _ in tensor.data] for name, tensor in tensors.items()}
        slope = sum(x * g for name in tensors for x, g in zip(along[name], want["grad." + name.removeprefix(PREFIX)].data))

        def loss(steps):
            moved = {name: Tensor("F64", tensor.shape, [x + steps * step * d for x, d in zip(tensor.data, along[name])])
                     for name, tensor in tensors.items()}
            write_safetensors(self.scratch / "moved.safetensors", moved)
            return self.interpret(spec, weights, inputs, *interpreted, "--adapter", self.scratch / "moved.safetensors", "--function", "loss")["loss"].data[0]

        self.assertLess(abs((8 * (loss(1) - loss(-1)) - (loss(2) - loss(-2))) / (12 * step) - slope), 1e-7 * max(1, abs(slope)))


class Gradients(Beside):
    def test_formats(self):
        for form in ("f32", "int4"):
            with self.subTest(form):
                found = self.check(STORY.name, form, spec="llama")
                self.difference("llama", *found)

    def test_inputs_first(self):
        """GPT-2's matrices are stored the other way, and its head is the table."""
        self.check("gpt2", "int8", inputs_first=True)

    def test_other_vectors(self):
        self.check("llama", "int8", "--target", LESSER_TARGET)

    def test_names(self):
        """Globs choose; what has no adapter is frozen."""
        folder, tensors = self.write_adapter("some", STORY.name, 4, 12, keep=lambda name: "q_proj" in name or "down_proj" in name)
        program = self.compile("llama", "--train", "--lora", "4,*q_proj*,*down_proj*", "--lora-scale", 3, "--quantize", "int4", "--config", STORY / "config.json", name="chosen")
        inputs = {"tokens": random_tokens(3, 2, 10, 512)}
        got = self._evaluate([program, "grad", "--adapter", folder], STORY, inputs, ())
        self.assertEqual(sorted(got), sorted(["loss", *("grad." + name.removeprefix(PREFIX) for name in tensors)]))

    def test_segments_and_chunks(self):
        """Layers that run again read the same codes. By the kernels of `test_formats`."""
        options = ("--train", "--lora", 4, "--lora-scale", 3, "--quantize", "int4", "--config", STORY / "config.json")
        folder, tensors = self.write_adapter("adapter", STORY.name, 4, 12)
        refused = run(QUERN, "compile", EXAMPLES / "llama.quern", *options, "--memory", "1K", "--length", 16, "--batch", 2, "-o", self.scratch / "never", status=1)
        least = float(refused.err.split("needs at least ")[1].split()[0])
        programs = [self.compile("llama", *options, name="ample"),
                    self.compile("llama", *options, "--memory", f"{least + 0.06:.2f}M", "--length", 16, "--batch", 2, name="tight")]
        inputs = {"tokens": random_tokens(5, 2, 17, 512)}
        want, got = (self._evaluate([program, "grad", "--adapter", folder], STORY, inputs, ()) for program in programs)
        for name in want:
            self.assertLess(relative_error(got[name], want[name]), 1e-4, name)


class MoreGradients(Beside):
    """`More`: in the tier `nightly`."""

    def test_formats(self):
        for form in ("int8", "q4_k"):
            with self.subTest(form):
                self.check(STORY.name, form, spec="llama")

    def test_inputs_first(self):
        self.check("gpt2", "q5_k", inputs_first=True)


class Learning(Adapters):
    """A model that writes stories learns a sentence by heart; the adapter beside the same codes gives the same logits elsewhere."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.sentence = cls.scratch / "sentence.txt"
        cls.sentence.write_text("shall i compare thee to a summers day " * 200)

    def train(self, program, name, *options, weights=STORY, status=0):
        return run(program, "train", "--data", self.sentence, "--weights", weights, "--output", self.scratch / name, "--batch", 4, "--length", 32,
                   "--sample-every", 0, "--rate", 3e-3, *options, status=status)

    def check_base(self, program, adapter):
        """Over its own base nothing is said; over another one both are named."""
        tensors = read_safetensors(STORY / "model.safetensors")
        name = next(name for name in tensors if "down_proj" in name)
        tensors[name].data[-1] += 0.5
        another = self.scratch / "another.safetensors"
        write_safetensors(another, tensors)

        def said(weights):
            return run(program, "eval", "--weights", weights, "--adapter", adapter, "--input", self.scratch / "in.safetensors", "--output", self.scratch / "out.safetensors").err

        self.assertNotIn("trained over", said(STORY))
        told = said(another)
        for word in ("warning", str(adapter), f"trained over {STORY}", str(another)):
            self.assertIn(word, told)
        copy = self.scratch / "odd"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(adapter, copy)
        (copy / "adapter_base.json").write_text("{}")
        self.assert_refused(run(program, "eval", "--weights", STORY, "--adapter", copy, "--input", self.scratch / "in.safetensors", "--output", self.scratch / "out.safetensors", status=1),
                            "adapter_base.json", "which model")

    def check(self, form):
        model = ("--lora", 4, *coded(form), "--config", STORY / "config.json")
        program = self.compile("llama", "--train", "--lora-scale", 3, *model, name=f"train-{form}")
        self.train(program, form, "--steps", 45, "--save-every", 15)
        folder = self.scratch / form
        losses = log(folder, "loss")
        self.assertGreater(losses[1], 4)
        self.assertLess(log(folder, "valid_loss")[45], 0.1)
        end = folder / "checkpoint-45"
        self.assertEqual(sorted(path.name for path in end.iterdir()),
                         ["adapter_base.json", "adapter_config.json", "adapter_model.safetensors", "checksums.xxh128", "config.json", "optimizer.safetensors", "tokenizer.json", "train.json"])
        # Beside the same base in a program that is not trained, though that multiplies by another scale; and as the interpreter has it.
        inputs = {"tokens": random_tokens(1, 2, 24, 512)}
        other = self.compile("llama", *model, name=f"use-{form}")
        want = self.evaluate(program, STORY, inputs, "--adapter", end)["logits"]
        got = self.evaluate(other, STORY, inputs, "--adapter", end)["logits"]
        self.assertLess(relative_error(got, want), 1e-5)
        self.assertGreater(relative_error(self.evaluate(other, STORY, inputs)["logits"], want), 0.1)
        self.check_base(other, end)
        exact = self.interpret("llama", STORY / "model.safetensors", inputs, *model, "--lora-scale", 3, "--adapter", end / "adapter_model.safetensors",
                               "--after", "narrow-storage")["logits"]
        self.assertLess(relative_error(got, exact), 5e-5)
        # Resumed from the middle it ends the same, to the bit.
        shutil.copytree(folder, self.scratch / f"{form}-2")
        shutil.rmtree(self.scratch / f"{form}-2/checkpoint-45")
        run(program, "train", "--resume", "--output", self.scratch / f"{form}-2")
        self.assertEqual(losses, log(self.scratch / f"{form}-2", "loss"))
        for file in ("adapter_model", "optimizer"):
            a, b = (read_safetensors(at / "checkpoint-45" / f"{file}.safetensors") for at in (folder, self.scratch / f"{form}-2"))
            self.assertEqual({name: t.data for name, t in a.items()}, {name: t.data for name, t in b.items()})
        return program, end, want

    def test_f32_and_merged(self):
        """A program without --lora merges the adapter into the matrices."""
        program, end, want = self.check("f32")
        plain = self.compile("llama", "--config", STORY / "config.json", name="plain")
        inputs = {"tokens": random_tokens(1, 2, 24, 512)}
        self.assertLess(relative_error(self.evaluate(plain, STORY, inputs, "--adapter", end)["logits"], want), 5e-5)
        # A run begins with an adapter where it is given one.
        self.train(program, "more", "--adapter", end, "--steps", 1)
        self.assertLess(log(self.scratch / "more", "loss")[1], 0.1)

    def test_q4_k(self):
        self.check("q4_k")

    def test_bf16(self):
        """Adapters with masters in f32, and all that products read in two bytes."""
        losses = {}
        for precision in ("f32", "bf16"):
            program = self.compile("llama", "--train", "--lora", 4, "--precision", precision, "--config", STORY / "config.json", name=f"program-{precision}")
            self.train(program, f"run-{precision}", "--steps", 10, "--save-every", 5)
            losses[precision] = log(self.scratch / f"run-{precision}", "loss")
        self.assertNotEqual(losses["f32"], losses["bf16"])
        for step, loss in losses["f32"].items():
            self.assertLess(abs(losses["bf16"][step] - loss), 0.05 * loss, step)
        shutil.rmtree(self.scratch / "run-bf16/checkpoint-10")
        run(program, "train", "--resume", "--output", self.scratch / "run-bf16")
        self.assertEqual(losses["bf16"], log(self.scratch / "run-bf16", "loss"))

    def test_moments_of_adapters_alone(self):
        program = self.compile("llama", "--train", "--lora", "4,*q_proj*", "--quantize", "int8", "--config", STORY / "config.json", name="chosen")
        self.train(program, "few", "--steps", 1)
        moments = read_safetensors(self.scratch / "few/checkpoint-1/optimizer.safetensors")
        adapters = read_safetensors(self.scratch / "few/checkpoint-1/adapter_model.safetensors")
        config = json.loads((STORY / "config.json").read_text())
        width, layers = config["hidden_size"], config["num_hidden_layers"]
        self.assertEqual(len(adapters), 2 * layers)
        self.assertEqual(sum(math.prod(t.shape) for t in adapters.values()), layers * 2 * 4 * width)
        self.assertEqual(sorted(moments), sorted(["step", *(moment + name.removeprefix(PREFIX) for name in adapters for moment in ("m.", "v."))]))


class MoreLearning(Learning):
    test_f32_and_merged = test_q4_k = test_bf16 = test_moments_of_adapters_alone = None

    def test_int8(self):
        self.check("int8")

    def test_int4(self):
        self.check("int4")


class Refusals(Adapters):
    def test_compiling(self):
        def refused(*options, says):
            self.assert_refused(run(QUERN, "compile", EXAMPLES / "llama.quern", "--config", DATA / "llama" / "config.json", "-o", self.scratch / "never",
                                    *options, status=1), *says)

        refused("--train", "--quantize", "int8", says=["--lora RANK trains adapters beside them"])
        for form in ("w8a8", "q4_k+a8", "w16a16"):
            refused("--train", "--lora", 4, "--quantize", form, says=["have no gradient"])
        refused("--train", "--lora", 4, "--quantize", "int8", "--precision", "bf16", says=["leave one out"])
        refused("--lora", 0, says=["--lora 0", "from 1 to 4096"])
        refused("--lora", "4,*nothing*", says=["no matrix can have an adapter", "*nothing*"])
        mixtral = run(QUERN, "compile", EXAMPLES / "mixtral.quern", "--config", DATA / "mixtral" / "config.json", "-o", self.scratch / "never",
                      "--train", "--lora", 4, "--quantize", "int8", status=1)
        self.assert_refused(mixtral, "experts", "=f32")

    def test_running(self):
        folder, _ = self.write_adapter("adapter", "llama", 4, 8)
        config = ("--config", DATA / "llama" / "config.json")
        program = self.compile("llama", "--train", "--lora", 2, *config, name="two")
        text = self.scratch / "text.txt"
        text.write_text("some words " * 100)

        def refused(command, *options, says):
            self.assert_refused(run(program, command, *options, status=1), *says)

        train = ("--data", text, "--tokenizer", "chars", "--output", self.scratch / "run")
        refused("train", *train, "--lora", 4, says=["--lora", "quern compile --train --lora"])
        refused("train", *train, says=["--weights PATH"])
        tokens = ("--tokens", "1,2", "-n", 1)
        refused("generate", "--weights", DATA / "llama", "--adapter", folder, *tokens, says=["has rank 4", "at most 2", "--lora 4"])
        small, _ = self.write_adapter("small", "llama", 1, 2)
        run(program, "generate", "--weights", DATA / "llama", "--adapter", small, *tokens)  # a lower rank fits
        refused("generate", "--weights", DATA / "llama", "--adapter", small, "--adapter", small, *tokens, says=["has an adapter already"])
        # A run goes on in a program of its rank.
        batches = self.scratch / "batches.safetensors"
        write_safetensors(batches, {"tokens": random_tokens(1, 4, 9, 96)})
        run(program, "train", "--data", batches, "--weights", DATA / "llama", "--output", self.scratch / "begun", "--batch", 2, "--steps", 1)
        wider = self.compile("llama", "--train", "--lora", 3, *config, name="three")
        self.assert_refused(run(wider, "train", "--resume", "--output", self.scratch / "begun", "--steps", 2, status=1), "made by another optimizer, or for other parameters")
        refused("generate", "--weights", self.scratch / "begun/checkpoint-1", *tokens, says=["holds a LoRA adapter", "--weights MODEL --adapter"])
        other = self.scratch / "other"
        shutil.copytree(small, other)
        tensors = read_safetensors(small / "adapter_model.safetensors")
        name = next(name for name in tensors if name.endswith("q_proj.lora_A.weight"))
        tensors[name] = Tensor("F32", [1, 5], [0.0] * 5)
        write_safetensors(other / "adapter_model.safetensors", tensors)
        refused("generate", "--weights", DATA / "llama", "--adapter", other, *tokens, says=["q_proj.lora_A.weight", "the program needs"])


if __name__ == "__main__":
    unittest.main()
