"""`--precision bf16`: losses near those of f32, gradients as the interpreter's of the same module, f32 masters in checkpoints, bit-exact resuming.

How near: a bf16 number is within 1/256 of what it stands for, and errors of many numbers partly cancel. The bounds below are a few times what these
models show."""
import json
import math
import re
import shutil
import struct
import unittest

from tests.e2e.harness import DATA, EXAMPLES, QUERN, Case, Tensor, ints, read_safetensors, relative_error, run
from tests.e2e.training.train_test import ADAMW, FIXTURE, TINY, SHAKESPEARE, log, write_safetensors

BF16 = ("--train", "--precision", "bf16")


class Fixture(Case):
    """The twenty steps of AdamW that tests/data/README.md describes; PyTorch's losses there are those of f32."""
    target = "native"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.program = cls.compile("gpt2", *BF16, "--config", FIXTURE / "config.json", "--target", cls.target, name="gpt2")
        cls.batches = read_safetensors(FIXTURE / "data.safetensors")["batches"]
        cls.data = cls.scratch / "batches.safetensors"
        write_safetensors(cls.data, {"tokens": cls.batches})

    def train(self, name, *options):
        run(self.program, "train", "--data", self.data, "--weights", FIXTURE / "model.safetensors", "--output", self.scratch / name, "--steps", 20,
            *ADAMW, *options)
        return self.scratch / name

    def test_twenty_steps(self):
        folder = self.train("twenty")
        losses = log(folder, "loss")
        expected = read_safetensors(FIXTURE / "expected.safetensors")["loss"].data
        apart = [abs(losses[step] - loss) for step, loss in enumerate(expected, 1)]
        self.assertLess(max(apart), 5e-3)
        self.assertGreater(max(apart), 1e-6)  # else nothing was narrowed
        # Masters, not their copies: they have digits that bf16 lacks, and are near f32's.
        got, want = (read_safetensors(path) for path in (folder / "checkpoint-20/model.safetensors", FIXTURE / "final.safetensors"))
        for name, tensor in want.items():
            self.assertEqual(got[name].dtype, "F32", name)
            self.assertLess(max(abs(a - b) for a, b in zip(got[name].data, tensor.data)), 20 * 3e-4, name)  # twenty steps of that rate at most
        begin = read_safetensors(FIXTURE / "model.safetensors")
        moved = sum(abs(a - b) for name in want for a, b in zip(want[name].data, begin[name].data))
        apart = sum(abs(a - b) for name in want for a, b in zip(want[name].data, got[name].data))
        self.assertLess(apart, 0.05 * moved)

    def test_resumed_is_bit_equal(self):
        whole = self.train("whole", "--save-every", 10, "--keep", 5)
        shutil.copytree(whole, self.scratch / "half")
        shutil.rmtree(self.scratch / "half/checkpoint-20")
        run(self.program, "train", "--resume", "--output", self.scratch / "half")
        self.assertEqual(log(whole, "loss"), log(self.scratch / "half", "loss"))
        for file in ("model.safetensors", "optimizer.safetensors"):
            self.assertEqual((whole / "checkpoint-20" / file).read_bytes(), (self.scratch / "half/checkpoint-20" / file).read_bytes())

    def test_gradients_are_the_interpreters(self):
        """Of the module after the pass; a rounding that falls the other way is the difference."""
        rows = self.batches.row(0)
        inputs = {"tokens": ints(rows.rows())}
        got = self._evaluate([self.program, "grad"], FIXTURE / "model.safetensors", inputs, ())
        options = ("--config", FIXTURE / "config.json", *BF16, "--after", "narrow-storage")
        want = self.interpret("gpt2", FIXTURE / "model.safetensors", self.labelled(inputs), *options)
        plain = self.interpret("gpt2", FIXTURE / "model.safetensors", self.labelled(inputs), "--config", FIXTURE / "config.json", "--train")
        self.assertLess(abs(got["loss"].data[0] - want["loss"].data[0]), 1e-4)
        closer = 0
        for name, tensor in want.items():
            if not name.startswith("grad."):
                continue
            largest = max(abs(x) for x in tensor.data)
            if largest < 1e-6:  # biases of keys have no gradient
                continue
            error = relative_error(got[name], tensor)
            self.assertLess(error, 5e-3, name)
            closer += error < relative_error(plain[name], tensor)
        self.assertGreater(closer, 0.8 * sum(name.startswith("grad.") for name in want))

    def labelled(self, inputs):
        """What the program makes of rows that are their own labels."""
        rows = inputs["tokens"].rows()
        return {"tokens": ints([row[:-1] for row in rows]), "labels": ints([row[1:] for row in rows])}


class Runs(Case):
    def test_validation_and_some_parameters(self):
        program, plain = self.compile("gpt2", *BF16, *TINY), self.compile("gpt2", "--train", *TINY, name="plain")
        text = self.scratch / "text.txt"
        text.write_text(SHAKESPEARE.read_text()[:20000])
        common = ["--data", text, "--tokenizer", "bytes", "--batch", 4, "--length", 16, "--sample-every", 0]
        run(program, "train", *common, "--output", self.scratch / "all", "--steps", 60, "--rate", 1e-2, "--eval-every", 20)
        losses = log(self.scratch / "all", "loss")
        self.assertLess(losses[60], 3.5)
        self.assertLess(log(self.scratch / "all", "valid_loss")[60], 3.6)
        begin = self.scratch / "all/checkpoint-60"
        for name, options in {"some": ["--train-only", "*mlp*", "--rate", 1e-3]}.items():
            for which, folder in ((program, name), (plain, f"{name}-f32")):
                run(which, "train", *common, "--weights", begin, "--output", self.scratch / folder, "--steps", 30, "--save-every", 15, "--keep", 5, *options)
            losses, near = log(self.scratch / name, "loss"), log(self.scratch / f"{name}-f32", "loss")
            self.assertLess(max(abs(losses[step] - near[step]) for step in near), 0.03, name)
            self.assertNotEqual(losses, near, name)
            before, after = (read_safetensors(path / "model.safetensors") for path in (begin, self.scratch / name / "checkpoint-30"))
            for tensor in before:
                self.assertEqual(before[tensor].data != after[tensor].data, "mlp" in tensor, tensor)
            shutil.copytree(self.scratch / name, self.scratch / f"{name}2")
            shutil.rmtree(self.scratch / f"{name}2/checkpoint-30")
            run(program, "train", "--resume", "--output", self.scratch / f"{name}2")
            self.assertEqual(losses, log(self.scratch / f"{name}2", "loss"))

    def test_memory(self):
        """What a gradient of GPT-2's 124M parameters works in, as planned."""
        arena = {}
        for precision in ("f32", "bf16"):
            dumped = run(QUERN, "dump", EXAMPLES / "gpt2.quern", "--train", "--precision", precision, "--after", "planned", "--stats", "--json",
                         "--set-size", "B=4,T=1024").out
            functions = json.loads(dumped)["passes"][0]["statistics"]["functions"]
            (arena[precision],) = [f["arena_at"] for f in functions if f["name"] == "loss.grad"]
        self.assertLess(arena["bf16"], 0.65 * arena["f32"])

    def test_segments(self):
        """Layers that run again start from what was kept in bf16; the gradient is the one of a program that keeps all of them."""
        model = (*BF16, *TINY, "--set", "n_layer=40")
        within = (*model, "--batch", 256, "--length", 32, "--memory")
        refused = run(QUERN, "compile", EXAMPLES / "gpt2.quern", *within, "1K", "-o", self.scratch / "never", status=1)
        least = float(re.search(r"needs at least ([0-9.]+) MiB", refused.err)[1])
        said = run(QUERN, "compile", EXAMPLES / "gpt2.quern", *within, f"{least + 0.06:.2f}M", "-o", self.scratch / "least").err
        self.assertIn("in segments of", said)
        program = self.compile("gpt2", *model, name="ample")
        text = self.scratch / "segments.txt"
        text.write_text(SHAKESPEARE.read_text()[:5000])
        common = ["--data", text, "--tokenizer", "bytes", "--batch", 4, "--length", 32, "--sample-every", 0, "--seed", 5]
        run(program, "train", *common, "--output", self.scratch / "whole", "--steps", 20, "--rate", 3e-3)
        begin = self.scratch / "whole/checkpoint-20/model.safetensors"
        inputs = {"tokens": ints([[7 * i % 256 for i in range(k, k + 33)] for k in range(4)])}
        want, got = (self._evaluate([which, "grad"], begin, inputs, ()) for which in (program, self.scratch / "least"))
        self.assertEqual(want["loss"].data, got["loss"].data)
        for name, tensor in want.items():
            if name != "loss" and max(abs(x) for x in tensor.data) > 1e-5:
                self.assertLess(relative_error(got[name], tensor), 2e-2, name)

    def test_mistakes(self):
        refused = run(QUERN, "compile", EXAMPLES / "gpt2.quern", "--precision", "fp8", "-o", self.scratch / "never", status=1)
        self.assert_refused(refused, "f32, bf16 or f16 is needed")


class Weights(Case):
    """Programs that are not trained read the weights of their products in two bytes; all else is as in f32."""

    def check(self, fixture, spec):
        """The interpreter says what the module after the pass should give, whole and step by step."""
        options = ("--config", DATA / fixture / "config.json", "--precision", "bf16")
        weights, expected = DATA / fixture / "model.safetensors", read_safetensors(DATA / fixture / "expected.safetensors")
        inputs = {"tokens": expected["input_ids"]}
        program = self.compile(spec, *options)
        got = self.evaluate(program, weights, inputs)["logits"]
        want = self.interpret(spec, weights, inputs, *options, "--after", "narrow-storage")["logits"]
        self.assertLess(relative_error(got, want), 1e-5)
        apart = relative_error(got, expected["logits"])
        self.assertGreater(apart, 1e-4)  # else nothing was rounded
        self.assertLess(apart, 3e-2)
        prompt = inputs["tokens"].rows()[0][:5]
        self.assertEqual(self.generate(program, weights, prompt, 12), self.generate(program, weights, prompt, 12, "--no-cache"))
        layouts = run(QUERN, "dump", EXAMPLES / f"{spec}.quern", *options, "--after", "kernels").out
        self.assertRegex(layouts, r"<bf16\[[^\]]*\]> #quern.layout<\"packed\"")
        self.assertNotRegex(layouts, r"<real\[[^\]]*\]> #quern.layout<\"packed\"")  # every packed weight is

    def test_joined_projections_and_tied_head(self):
        self.check("qwen2", "qwen2")

    def test_stored_transposed(self):
        self.check("gpt2", "gpt2")

    def test_routed_experts(self):
        self.check("mixtral", "mixtral")

    def test_checkpoint_in_bf16(self):
        """Stored and used in two bytes: PyTorch's numbers for the same file."""
        folder = DATA / "formats" / "llama-bf16"
        expected = read_safetensors(folder / "expected.safetensors")
        program = self.compile("llama", "--config", folder / "config.json", "--precision", "bf16")
        got = self.evaluate(program, folder / "model.safetensors", {"tokens": expected["input_ids"]})["logits"]
        self.assertLess(relative_error(got, expected["logits"]), 5e-5)


class Caches(Case):
    """What generation keeps of each position in fewer bits (`--kv-cache`): rounded where it is written, whoever reads it."""

    def written(self, program, weights, prompt, *options):
        made = run("env", "QUERN_POISON=1", program, "generate", "--weights", weights, "--json", "--logprobs", "--tokens", ",".join(map(str, prompt)),
                   "-n", 24, "--temp", 0, "--eos", "ignore", *options)
        result = json.loads(made.out.strip().splitlines()[-1])
        return result["tokens"], result["logprobs"]

    def check(self, fixture, spec, precision="bf16", most=3e-2):
        config, weights = ("--config", DATA / fixture / "config.json"), DATA / fixture / "model.safetensors"
        prompt = read_safetensors(DATA / fixture / "expected.safetensors")["input_ids"].rows()[0][:5]
        narrow, plain = self.compile(spec, *config, "--kv-cache", precision), self.compile(spec, *config, name="plain")
        (tokens, steps), (again, whole), (_, exact) = (
            self.written(program, weights, prompt, *options) for program, options in ((narrow, ()), (narrow, ("--no-cache",)), (plain, ())))
        self.assertEqual(tokens, again)
        for a, b in zip(steps, whole):  # a code may fall to the other side of the middle between two
            self.assertAlmostEqual(a, b, delta=1e-4 if precision == "bf16" else 5e-3)
        self.assertGreater(abs(steps[0] - exact[0]), 1e-7)  # else nothing was rounded
        self.assertLess(abs(steps[0] - exact[0]), most)
        self.check_states(spec, config)
        return steps[0]

    def check_states(self, spec, config):
        """Every cache, and nothing else that lives from step to step."""
        for precision, kinds in (("f32", {"real"}), ("bf16", {"bf16"}), ("int8", {"i8", "bf16"})):
            dumped = run(QUERN, "dump", EXAMPLES / f"{spec}.quern", *config, "--kv-cache", precision, "--after", "narrow-storage").out
            caches = set(re.findall(r"quern.remember .* in (@[\w.]+)", dumped))
            self.assertTrue(caches)
            seen = set()
            for name, of in re.findall(r"quern.state (@[\w.]+) of \S+ : !?[\w.]*<(\w+)\[", dumped):
                self.assertIn(of, kinds if name in caches else {"real"}, name)
                seen.add(of)
                self.assertEqual(of == "i8", name + ".scales" in caches)
            self.assertLessEqual(kinds, seen)

    def check_first(self, fixture, spec, precision, first, delta):
        """The first step's numbers are those that the interpreter has for the rounded module."""
        config, weights = ("--config", DATA / fixture / "config.json"), DATA / fixture / "model.safetensors"
        module = self.scratch / "rounded.mlir"
        module.write_text(run(QUERN, "dump", EXAMPLES / f"{spec}.quern", *config, "--kv-cache", precision, "--after", "narrow-storage").out)
        prompt = read_safetensors(DATA / fixture / "expected.safetensors")["input_ids"].rows()[0][:5]
        logits = self.interpret(module, weights, {"tokens": Tensor("I32", [1, 5], prompt)}, "--function", "forward.last")["logits"].data
        largest = max(logits)
        self.assertAlmostEqual(first, largest - (largest + math.log(sum(math.exp(x - largest) for x in logits))), delta=delta)

    def test_grouped_queries(self):
        self.check_first("llama", "llama", "bf16", self.check("llama", "llama"), 2e-5)

    def test_rings(self):
        self.check("gemma3-text", "gemma")

    def test_latents(self):
        self.check("deepseek-v3", "deepseek_v3")

    def test_fused_heads(self):
        self.check("bloom", "bloom")

    def test_codes_of_grouped_queries(self):
        self.check_first("llama", "llama", "int8", self.check("llama", "llama", "int8"), 2e-4)

    def test_codes_in_rings(self):
        self.check("gemma3-text", "gemma", "int8")
        self.check_first("mistral", "mistral", "int8", self.check("mistral", "mistral", "int8"), 2e-4)

    def test_codes_of_latents(self):
        self.check_first("deepseek-v3", "deepseek_v3", "int8", self.check("deepseek-v3", "deepseek_v3", "int8"), 2e-4)

    def test_what_is_made_once(self):
        """Keys and values of the other text: rounded in the first call, read by each step."""
        for precision, kind, most in (("bf16", "bf16", 1e-2), ("int8", "i8", 3e-2)):
            config, weights = ("--config", DATA / "t5" / "config.json"), DATA / "t5" / "model.safetensors"
            expected = read_safetensors(DATA / "t5" / "expected.safetensors")
            prompt = expected["input_ids"].rows()[0][:5]
            narrow, plain = self.compile("t5", *config, "--kv-cache", precision), self.compile("t5", *config, name="plain")
            (tokens, steps), (again, whole), (_, exact) = (
                self.written(program, weights, prompt, *options) for program, options in ((narrow, ()), (narrow, ("--no-cache",)), (plain, ())))
            self.assertEqual(tokens, again)
            self.assertLess(abs(steps[0] - exact[0]), most)
            kernels = run(QUERN, "dump", EXAMPLES / "t5.quern", *config, "--kv-cache", precision, "--after", "kernels").out
            self.assertRegex(kernels, rf"quern.launch once .* -> .*!quern.tensor<{kind}\[")

    def test_beams_of_codes(self):
        """Rows of codes and of their scales are moved together."""
        program = self.compile("llama", "--config", DATA / "llama" / "config.json", "--kv-cache", "int8")
        command = ("env", "QUERN_POISON=1", program, "generate", "--weights", DATA / "llama" / "model.safetensors", "--json", "--logprobs",
                   "--tokens", "5,17,3,42", "--beams", 4, "--results", 3, "-n", 12)
        kept, anew = ([json.loads(line) for line in run(*command, *options).out.splitlines()] for options in ((), ("--no-cache",)))
        self.assertEqual([beam["tokens"] for beam in kept], [beam["tokens"] for beam in anew])
        for a, b in zip(kept, anew):
            self.assertAlmostEqual(a["score"], b["score"], delta=1e-3)

    def test_by_default(self):
        """bf16 where weights are in 16 bits or fewer, for what writes; a whole text is what the weights make of it."""
        config, weights = ("--config", DATA / "llama" / "config.json"), DATA / "llama" / "model.safetensors"
        expected = read_safetensors(DATA / "llama" / "expected.safetensors")
        prompt, inputs = expected["input_ids"].rows()[0][:5], {"tokens": expected["input_ids"]}
        for options in (("--precision", "bf16"), ("--quantize", "f32,*mlp*=int4")):
            usual, exact = (self.compile("llama", *config, *options, *more, name=f"usual{len(more)}") for more in ((), ("--kv-cache", "f32")))
            self.assertEqual([list(self.cache_bytes(program)) for program in (usual, exact)], [["bf16"], ["f32"]])
            self.assertEqual(*(list(self.evaluate(program, weights, inputs)["logits"].data) for program in (usual, exact)))
            self.assertNotEqual(*(self.written(program, weights, prompt)[1] for program in (usual, exact)))
        self.assertEqual(list(self.cache_bytes(self.compile("llama", *config, "--quantize", "f32", name="plain"))), ["f32"])

    def cache_bytes(self, program):
        return json.loads(run(program, "info", "--json").out)["cache_bytes"]

    def test_bytes_of_a_position(self):
        config = json.loads((DATA / "llama" / "config.json").read_text())
        heads = 2 * config["num_hidden_layers"] * config["num_key_value_heads"]  # of keys and of values
        width = config["hidden_size"] // config["num_attention_heads"]
        for precision, bytes_of in (("f32", {"f32": 4 * heads * width}), ("bf16", {"bf16": 2 * heads * width}), ("int8", {"i8": heads * width, "bf16": 2 * heads})):
            program = self.compile("llama", "--config", DATA / "llama" / "config.json", "--kv-cache", precision)
            self.assertEqual(self.cache_bytes(program), bytes_of)

    def test_refusals(self):
        refused = run(QUERN, "compile", EXAMPLES / "llama.quern", "--kv-cache", "int4", "-o", self.scratch / "never", status=1)
        self.assert_refused(refused, "--kv-cache int4", "f32, bf16 or int8")


class Rows(Case):
    def check_rows(self, *cases):
        """Products of integers: as the interpreter of the same module, but for rows near the middle between two codes; alone and in a batch the same text."""
        for fixture, kind in cases:
            options = ("--config", DATA / fixture / "config.json", "--quantize", kind)
            weights, expected = DATA / fixture / "model.safetensors", read_safetensors(DATA / fixture / "expected.safetensors")
            inputs = {"tokens": expected["input_ids"]}
            program = self.compile(fixture, *options, name=f"{fixture}-{kind}")
            got = self.evaluate(program, weights, inputs)["logits"]
            want = self.interpret(fixture, weights, inputs, *options, "--after", "narrow-attention")["logits"]
            self.assertLess(relative_error(got, want), 3e-2, kind)
            plain = self.interpret(fixture, weights, inputs, *options[:2], "--quantize", {"w8a8": "int8", "w8a8_g128": "int8_g128", "w4a8": "int4", "w8a16": "int8", "w16a16": "bf16"}.get(kind, kind.split("+")[0]), "--after", "narrow-storage")["logits"]
            self.assertLess(relative_error(got, want), 0.5 * relative_error(got, plain), kind)  # rows were rounded, and as they should be
            prompt = inputs["tokens"].rows()[0][:5]
            self.assertEqual(self.generate(program, weights, prompt, 12), self.generate(program, weights, prompt, 12, "--no-cache"))


class Codes(Rows):
    """Weights in int8 and int4 codes: whole and step by step, from either kind of file, in the formats that were asked for."""

    def check(self, fixture, spec, kind):
        options = ("--config", DATA / fixture / "config.json", "--quantize", kind, "--kv-cache", "f32")  # so that steps compute what a whole text does
        weights, tokens = DATA / fixture / "model.safetensors", read_safetensors(DATA / fixture / "expected.safetensors")["input_ids"]
        program = self.compile(spec, *options)
        prompt = tokens.rows()[0][:5]
        self.assertEqual(self.generate(program, weights, prompt, 12), self.generate(program, weights, prompt, 12, "--no-cache"))
        layouts = run(QUERN, "dump", EXAMPLES / f"{spec}.quern", *options, "--after", "kernels").out
        self.assertRegex(layouts, rf"<{kind}\[[^\]]*\]> #quern.layout<\"packed\"")
        return layouts

    def test_joined_projections_and_tied_head(self):
        layouts = self.check("qwen2", "qwen2", "int8")
        self.assertNotRegex(layouts, r"<real\[[^\]]*\]> #quern.layout<\"packed\"")  # every packed weight is

    def test_stored_transposed(self):
        layouts = self.check("gpt2", "gpt2", "int4")
        self.assertRegex(layouts, r"<int8\[[^\]]*\]> #quern.layout<\"packed\"")  # the head

    def test_routed_experts(self):
        self.check("mixtral", "mixtral", "int4")

    def test_blocks_of_a_file_are_moved(self):
        """Q8_0 has the numbers of int8: a program with codes gives what one gives that dequantises them to f32."""
        folder = DATA / "formats" / "llama-gguf"
        tokens = {"tokens": read_safetensors(folder / "expected.safetensors")["input_ids"]}
        weights = folder / "model-q8_0.gguf"
        want, got = (self.evaluate(self.compile("llama", "--weights", weights, *options, name=name), weights, tokens)["logits"]
                     for name, options in {"plain": (), "codes": ("--quantize", "int8")}.items())
        self.assertLess(relative_error(got, want), 1e-5)

    def test_rows_in_codes(self):
        self.check_rows(("qwen2", "w8a8"), ("llama", "w8a8_g128"), ("gpt2", "w4a8"), ("llama", "q4_k+a16"))

    def test_activations(self):
        """--activations int8: rows in int8 for every weight in codes, whoever chose these; the rest as it was. bf16: beside bf16, too."""
        config = ("--config", DATA / "llama" / "config.json")
        dumps = [run(QUERN, "dump", EXAMPLES / "llama.quern", *config, "--quantize", *options, "--after", "narrow-storage").out
                 for options in (("q4_k,*.down_proj.*=bf16", "--activations", "int8"), ("q4_k+a8,*.down_proj.*=bf16",), ("q4_k,*.down_proj.*=bf16",))]
        formats = [text.split("quern.quantize = ")[1].split('"')[1] for text in dumps]
        self.assertEqual(formats, ["q4_k+a8,*.down_proj.*=bf16"] * 2 + ["q4_k,*.down_proj.*=bf16"])
        self.assertEqual(dumps[0], dumps[1])
        self.assertRegex(dumps[0], r"quern.quantize .*-> !quern.tensor<int8_g128\[B, T")
        self.assertNotRegex(dumps[2], r"quern.quantize .*-> !quern.tensor<int8(_g128)?\[B, T")
        weights = DATA / "formats" / "llama-gguf" / "model-q8_0.gguf"
        for activations, suffix in ("int8", r"\+a8"), ("bf16", r"\+a16"):
            stored = run(QUERN, "compile", EXAMPLES / "llama.quern", "--weights", weights, "--precision", "stored", "--activations", activations, "--emit", "mlir", "-o", "/dev/stdout").out
            self.assertRegex(stored, rf"quern.quantize = \"f32(,[^\"]*=int8{suffix})+\"")
        for options in ("--precision", "bf16"), ("--quantize", "bf16"), ("--quantize", "w16a16"):
            dumped = run(QUERN, "dump", EXAMPLES / "llama.quern", *config, *options, "--activations", "bf16", "--after", "narrow-storage").out
            self.assertRegex(dumped, r"quern.quantize = \"(bf16\+a16|w16a16)\"")

    def test_formats_by_name(self):
        config = ("--config", DATA / "llama" / "config.json")
        dumped = run(QUERN, "dump", EXAMPLES / "llama.quern", *config, "--quantize", "int4,*.down_proj.*=int8,lm_head.*=f32", "--after", "narrow-storage").out
        self.assertRegex(dumped, r"quern.quantize .*int4\[")
        self.assertRegex(dumped, r"quern.quantize .*int8\[D = 48, F = 56\]")
        self.assertNotRegex(dumped, r"quern.quantize .*V = 128")

    def test_mistakes(self):
        for options, words in ((("--quantize", "int3"), "'int3' is no format"), (("--quantize", "int8,head"), "is no GLOB=FORMAT"),
                               (("--quantize", "bf16+a8"), "'bf16+a8' is no format"), (("--activations", "int4"), "exact, int8 or bf16 is needed"),
                               (("--quantize", "f16+a16"), "'f16+a16' is no format"), (("--quantize", "int8+a8+a16"), "is no format"), (("--precision", "f16", "--activations", "bf16"), "none are"),
                               (("--quantize", "bf16", "--activations", "int8"), "none are"), (("--quantize", "int8", "--train"), "--train does not change")):
            refused = run(QUERN, "compile", EXAMPLES / "gpt2.quern", *options, "-o", self.scratch / "never", status=1)
            self.assert_refused(refused, words)


class MoreCodes(Rows):
    """`More`: in the tier `nightly`."""

    def test_rows_in_codes(self):
        self.check_rows(("phi3", "q4_k+a8"), ("qwen2", "w8a16"), ("llama", "f8_e4m3+a16"), ("llama", "w16a16"), ("llama", "q6_k+a8"))


class Experts(Case):
    """Matrices that rows pick are stored and read in bf16, one parameter in the file for each expert; masters in f32."""

    SMALL = [word for name, value in {"vocab_size": 256, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
                                      "num_key_value_heads": 2}.items() for word in ("--set", f"{name}={value}")]

    def test_training(self):
        program, plain = self.compile("mixtral", *BF16, *self.SMALL), self.compile("mixtral", "--train", *self.SMALL, name="plain")
        text = self.scratch / "text.txt"
        text.write_text(SHAKESPEARE.read_text()[:20000])
        common = ["--data", text, "--tokenizer", "bytes", "--batch", 4, "--length", 16, "--sample-every", 0, "--seed", 3, "--rate", 1e-3]
        run(plain, "train", *common, "--output", self.scratch / "begin", "--steps", 30)
        begin = self.scratch / "begin/checkpoint-30/model.safetensors"
        for which, name in ((program, "bf16"), (plain, "f32")):
            run(which, "train", *common, "--weights", begin, "--output", self.scratch / name, "--steps", 30, "--eval-every", 15, "--save-every", 15, "--keep", 5)
        for key in ("loss", "valid_loss"):
            losses, near = log(self.scratch / "bf16", key), log(self.scratch / "f32", key)
            self.assertLess(max(abs(losses[step] - near[step]) for step in near), 0.03, key)
            self.assertNotEqual(losses, near, key)
        # The experts' masters have digits that bf16 lacks, and went nearly where they go in f32.
        before, got, want = (read_safetensors(path) for path in (begin, *(self.scratch / name / "checkpoint-30/model.safetensors" for name in ("bf16", "f32"))))
        experts = [name for name in want if ".experts." in name]
        self.assertEqual(len(experts), 2 * 8 * 3)
        moved = sum(abs(a - b) for name in experts for a, b in zip(want[name].data, before[name].data))
        apart = sum(abs(a - b) for name in experts for a, b in zip(want[name].data, got[name].data))
        self.assertLess(apart, 0.4 * moved)  # Adam steps as far where a gradient is small beside its rounding
        self.assertGreater(apart, 0)
        for name in experts:
            self.assertEqual(got[name].dtype, "F32", name)
            self.assertTrue(any(struct.unpack("<I", struct.pack("<f", x))[0] & 0xFFFF for x in got[name].data), name)
        shutil.copytree(self.scratch / "bf16", self.scratch / "again")
        shutil.rmtree(self.scratch / "again/checkpoint-30")
        run(program, "train", "--resume", "--output", self.scratch / "again")
        self.assertEqual(log(self.scratch / "bf16", "loss"), log(self.scratch / "again", "loss"))

    def test_rows(self):
        """Texts long enough that experts have many rows: as the interpreter, which rounds what they multiply where this machine has products for that."""
        config, weights = ("--config", DATA / "mixtral" / "config.json"), DATA / "mixtral" / "model.safetensors"
        ids = [token for row in read_safetensors(DATA / "mixtral" / "expected.safetensors")["input_ids"].rows() for token in row]
        inputs = {"tokens": ints([[ids[(7 * row + at * at) % len(ids)] for at in range(40)] for row in range(3)])}
        for kind in ("w16a16", "w8a8", "q4_k+a8"):
            options = (*config, "--quantize", kind)
            got = self.evaluate(self.compile("mixtral", *options, name=kind), weights, inputs)["logits"]
            want = self.interpret("mixtral", weights, inputs, *options, "--after", "narrow-attention")["logits"]
            self.assertLess(relative_error(got, want), 3e-2, kind)

    def test_memory(self):
        """Nothing that a row picks from is stored as real, and the plan falls."""
        dumped = run(QUERN, "dump", EXAMPLES / "mixtral.quern", *BF16, "--after", "narrow-storage").out
        gradient = dumped[dumped.index("@loss.grad("):]
        gradient = gradient[:gradient.index("func.func")] if "func.func" in gradient else gradient
        experts = [line for line in gradient.splitlines() if "quern.param" in line and ".experts.{E}." in line]
        self.assertGreaterEqual(len(experts), 3)
        for line in experts:
            self.assertRegex(line, r"<bf16\[E = 8")
        arena = {}
        for precision in ("f32", "bf16"):
            dumped = run(QUERN, "dump", EXAMPLES / "mixtral.quern", "--train", "--precision", precision, "--after", "planned", "--stats", "--json",
                         "--set-size", "B=1,T=1024").out
            (arena[precision],) = [f["arena_at"] for f in json.loads(dumped)["passes"][0]["statistics"]["functions"] if f["name"] == "loss.grad"]
        self.assertLess(arena["bf16"], 0.6 * arena["f32"])


class Specs(Case):
    """Golden models: the loss stays near, the program's gradient is the interpreter's."""

    def check(self, spec, fixture):
        folder = DATA / fixture
        inputs = {"tokens": ints(read_safetensors(folder / "expected.safetensors")["input_ids"].rows())}
        program = self.compile(spec, *BF16, "--config", folder / "config.json", name=spec)
        got = self._evaluate([program, "grad"], folder / "model.safetensors", inputs, ())
        rows = inputs["tokens"].rows()
        labelled = {"tokens": ints([row[:-1] for row in rows]), "labels": ints([row[1:] for row in rows])}
        want = self.interpret(spec, folder / "model.safetensors", labelled, "--config", folder / "config.json", *BF16, "--after", "narrow-storage")
        self.assertLess(abs(got["loss"].data[0] - want["loss"].data[0]), 1e-3)
        for name, tensor in want.items():
            if name.startswith("grad.") and max(abs(x) for x in tensor.data) > 1e-5:
                self.assertLess(relative_error(got[name], tensor), 2e-2, name)


for spec, fixture in {"llama": "llama", "gemma": "gemma3-text", "mixtral": "mixtral", "bloom": "bloom", "mpt": "mpt"}.items():
    setattr(Specs, f"test_{spec}", lambda self, spec=spec, fixture=fixture: self.check(spec, fixture))

if __name__ == "__main__":
    unittest.main()
