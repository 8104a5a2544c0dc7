"""`PROGRAM train`: PyTorch's losses and weights, runs that are resumed, killed, or begun with bad options or data."""
import json
import math
import shutil
import signal
import subprocess
import time
import unittest
from collections import Counter

from tests.e2e.harness import DATA, EXAMPLES, QUERN, Case, Tensor, exactly, ints, read_safetensors, run, write_safetensors

FIXTURE = DATA / "train-gpt2"
SHAKESPEARE = DATA / "tinyshakespeare.txt"
ADAMW = ["--rate", 3e-4, "--schedule", "constant", "--beta2", 0.95, "--decay", 0.1, "--clip", 1]
TINY = ["--set", "n_layer=2", "--set", "n_embd=32", "--set", "n_head=2", "--set", "n_positions=32", "--set", "vocab_size=256"]

STEEP = """quern 1
model steep {
  config { width = 2 }
  dim D = width
  loss(x: [B, D]) -> [] {
    param w: [D] @ "w" ~ ones
    return mean[B](sum[D](x * w))
  }
  forward(x: [B, D]) -> [B, D] { return x * 2 }
}
"""


def log(folder, key):
    """The values of `key` by step."""
    lines = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
    return {line["step"]: line[key] for line in lines if key in line}


class Beside(Case):
    """Steps of AdamW beside PyTorch's (tests/data/README.md)."""
    target = "native"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.program = cls.compile("gpt2", "--train", "--config", FIXTURE / "config.json", *exactly(cls.target), name="gpt2")
        # The data come as whole batches in order, under the name of the input.
        batches = read_safetensors(FIXTURE / "data.safetensors")["batches"]
        cls.data = cls.scratch / "batches.safetensors"
        write_safetensors(cls.data, {"tokens": batches})

    def train(self, name, steps, *options):
        folder = self.scratch / name
        run(self.program, "train", "--data", self.data, "--weights", FIXTURE / "model.safetensors", "--output", folder, "--steps", steps,
            *ADAMW, *options)
        return folder

    def compare_weights(self, folder, expected):
        got, want = read_safetensors(folder / "model.safetensors"), read_safetensors(FIXTURE / expected)
        self.assertEqual(sorted(got), sorted(want))
        for name, tensor in want.items():
            width = tensor.shape[-1]
            for i, (a, b) in enumerate(zip(got[name].data, tensor.data)):
                key_bias = name.endswith("c_attn.bias") and width // 3 <= i < 2 * width // 3
                self.assertLess(abs(a - b), 2e-5 if key_bias else 2e-6, f"{name}[{i}]")

    def check_twenty_steps(self):
        folder = self.train("twenty", 20)
        losses, norms = log(folder, "loss"), log(folder, "grad_norm")
        expected = read_safetensors(FIXTURE / "expected.safetensors")
        for step, (loss, norm) in enumerate(zip(expected["loss"].data, expected["grad_norm"].data), 1):
            self.assertLess(abs(losses[step] - loss), 1e-5, step)
            self.assertLess(abs(norms[step] - norm), 1e-4, step)
        self.compare_weights(folder / "checkpoint-20", "final.safetensors")
        moments = read_safetensors(folder / "checkpoint-20" / "optimizer.safetensors")
        for theirs, ours in {"exp_avg": "m", "exp_avg_sq": "v"}.items():
            for name, tensor in expected.items():
                if name.startswith(theirs + "."):
                    got = moments[ours + name[len(theirs):]]
                    largest = max(map(abs, tensor.data))
                    self.assertLess(max(abs(a - b) for a, b in zip(got.data, tensor.data)), 1e-4 * largest, name)


class Fixture(Beside):
    def test_twenty_steps(self):
        self.check_twenty_steps()

    def test_one_step(self):
        self.compare_weights(self.train("one", 1) / "checkpoint-1", "step1.safetensors")

    def test_other_settings(self):
        expected = read_safetensors(FIXTURE / "expected.safetensors")
        for name, options in {"without_clipping": ["--clip", 0], "without_decay": ["--decay", 0], "with_ten_times_decay": ["--decay", 1]}.items():
            losses = log(self.train(name, 20, *options), "loss")
            for step, loss in enumerate(expected["loss_f64_" + name].data, 1):
                self.assertLess(abs(losses[step] - loss), 1e-5, (name, step))


class Small(Case):
    """A byte-level GPT-2 of 30,000 parameters on Shakespeare."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.program = cls.compile("gpt2", "--train", *TINY, name="gpt2")
        cls.text = cls.scratch / "text.txt"
        cls.text.write_text(SHAKESPEARE.read_text()[:20000])

    def command(self, name, *options):
        return [self.program, "train", "--data", self.text, "--tokenizer", "bytes", "--output", self.scratch / name, "--batch", 4, "--length", 16,
                "--sample-every", 0, *options]

    def train(self, name, *options, status=0, **more):
        return run(*self.command(name, *options), status=status, **more)

    def start(self, name, *options):
        return subprocess.Popen([str(word) for word in self.command(name, *options)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def wait_for(self, condition, what):
        end = time.time() + 120
        while not condition():
            self.assertLess(time.time(), end, f"still not: {what}")
            time.sleep(0.002)

    def checkpoints(self, name):
        return sorted(int(path.name.split("-")[1]) for path in (self.scratch / name).glob("checkpoint-*") if not path.name.endswith(".tmp"))

    def steps_logged(self, name):
        path = self.scratch / name / "train.jsonl"
        return sum('"loss"' in line for line in path.read_text().splitlines()) if path.exists() else 0


class Runs(Small):
    def test_loss_falls_and_everything_is_written(self):
        said = self.train("fall", "--steps", 60, "--rate", 1e-2, "--eval-every", 20, "--sample-every", 30, "--sample-tokens", 10)
        folder = self.scratch / "fall"
        losses, valid = log(folder, "loss"), log(folder, "valid_loss")
        self.assertLess(abs(losses[1] - math.log(256)), 0.2)
        self.assertLess(losses[60], 3.5)
        self.assertEqual(list(valid), [20, 40, 60])
        self.assertLess(abs(math.exp(valid[60]) - log(folder, "perplexity")[60]), 1e-6 * math.exp(valid[60]))
        self.assertEqual(len(log(folder, "sample")), 2)
        self.assertIn("60 steps of 4 rows of 16 tokens", said.err)
        self.assertIn("curves: ", said.err)
        again = run(self.program, "train", "--resume", "--output", folder)
        self.assertIn("has done its 60 steps; --steps N", again.err)
        page = (folder / "report.html").read_text()
        self.assertGreaterEqual(page.count("<polyline"), 5)
        self.assertIn("prefers-color-scheme: dark", page)
        self.assertNotIn("http", page)
        written = run(self.program, "generate", "--weights", folder / "checkpoint-60", "-p", "KING", "--temp", 0, "-n", 8).out
        self.assertTrue(written.startswith("KING"))

    def test_killed_and_resumed_is_bit_equal(self):
        options = ["--steps", 40, "--save-every", 7, "--eval-every", 10, "--accumulate", 2]
        self.train("whole", *options)
        process = self.start("pieces", *options)
        self.wait_for(lambda: self.checkpoints("pieces") or process.poll() is not None, "a checkpoint")
        process.kill()
        process.wait()
        self.assertLess(self.checkpoints("pieces")[-1], 40)
        run(self.program, "train", "--resume", "--output", self.scratch / "pieces")
        for key in ("loss", "grad_norm", "rate", "valid_loss"):
            self.assertEqual(log(self.scratch / "whole", key), log(self.scratch / "pieces", key))
        for file in ("model.safetensors", "optimizer.safetensors"):
            self.assertEqual((self.scratch / "whole/checkpoint-40" / file).read_bytes(), (self.scratch / "pieces/checkpoint-40" / file).read_bytes())

    def test_ctrl_c_saves(self):
        process = self.start("stopped", "--steps", 100000)
        self.wait_for(lambda: self.steps_logged("stopped") >= 3, "three steps")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=60), 128 + signal.SIGINT)
        self.assertEqual(self.checkpoints("stopped"), [self.steps_logged("stopped")])

    def test_accumulated_batches_are_one_large_batch(self):
        self.train("large", "--steps", 5, "--batch", 8)
        self.train("parts", "--steps", 5, "--batch", 2, "--accumulate", 4)
        large, parts = (log(self.scratch / name, "loss") for name in ("large", "parts"))
        for step, loss in large.items():
            self.assertLess(abs(loss - parts[step]), 1e-5)

    def test_every_optimizer_learns(self):
        for name in ("adamw", "adam", "sgd", "momentum", "nesterov"):
            self.train(name, "--steps", 40, "--optimizer", name, "--schedule", "linear", "--rate", 1e-2 if name.startswith("adam") else 0.3, "--clip", 0)
            losses = log(self.scratch / name, "loss")
            self.assertLess(losses[40], losses[1] - 0.5, name)

    def test_some_parameters(self):
        self.train("begin", "--steps", 1)
        begin = self.scratch / "begin/checkpoint-1"
        self.train("some", "--steps", 3, "--weights", begin, "--train-only", "*ln_f*", "--train-only", "*.1.mlp.*")
        before, after = (read_safetensors(folder / "model.safetensors") for folder in (begin, self.scratch / "some/checkpoint-3"))
        for name in before:
            changes = "ln_f" in name or ".1.mlp." in name
            self.assertEqual(before[name].data != after[name].data, changes, name)

    def test_own_tokenizer(self):
        run(QUERN, "tokenizer", "train", self.text, "--vocabulary", 256, "-o", self.scratch / "tokenizer.json")
        run(QUERN, "tokenizer", "train", self.text, "--vocabulary", 300, "--special", "<|end|>", "-o", self.scratch / "large.json")
        vocabulary = json.loads((self.scratch / "large.json").read_text())["model"]["vocab"]
        self.assertEqual((len(vocabulary), vocabulary["<|end|>"]), (300, 299))
        self.train("own", "--steps", 2, "--tokenizer", self.scratch / "tokenizer.json")
        self.assert_refused(self.train("too-large", "--tokenizer", self.scratch / "large.json", status=1), "vocabulary has only 256", "large.json' makes 300")
        made = run(QUERN, "tokenizer", "train", self.text, "--vocabulary", 300, "-o", self.scratch / "made.json")
        self.assertIn("made.json: 300 tokens from 20000 bytes", made.err)
        few = self.scratch / "few.txt"
        few.write_text("abcab")
        self.assertIn("fewer than --vocabulary 300", run(QUERN, "tokenizer", "train", few, "--vocabulary", 300, "-o", self.scratch / "few.json").err)
        few.write_text("")
        self.assert_refused(run(QUERN, "tokenizer", "train", few, status=1), "few.txt is empty")
        self.assert_refused(run(QUERN, "tokenizer", "train", self.text, "--vocabulary", "many", status=1), "--vocabulary", "'many'")

    def test_a_tokenizer_beside_the_program_is_not_taken(self):
        """Without --weights and --tokenizer it is the text's characters, whatever is around."""
        (self.scratch / "tokenizer.json").write_text("no tokenizer at all")
        options = [word for word in self.command("plain", "--steps", 1) if word not in ("--tokenizer", "bytes")]
        run(*options)
        made = json.loads((self.scratch / "plain/checkpoint-1/tokenizer.json").read_text())["model"]["vocab"]
        self.assertEqual(sorted(made), sorted(set(self.text.read_text())))

    def test_bytes_that_are_no_text(self):
        odd = self.scratch / "odd.txt"
        odd.write_bytes(b"\xff\xfe text " * 40)
        self.assertIn("odd.txt is not all UTF-8", self.train("odd", "--data", odd, "--steps", 1).err)


class Learning(Case):
    """A Llama of 350,000 parameters on the characters of Shakespeare."""

    def test_context_is_learned(self):
        """Below what any table of pairs of characters can say, even one made of the validation text itself."""
        program = self.compile("llama", "--train", "--set", "vocab_size=65", "--set", "hidden_size=96", "--set", "num_hidden_layers=3",
                               "--set", "num_attention_heads=3", "--set", "intermediate_size=256", "--set", "tie_word_embeddings=true")
        run(program, "train", "--data", SHAKESPEARE, "--output", self.scratch / "run", "--length", 64, "--batch", 16, "--steps", 300, "--rate", 5e-3,
            "--warmup", 30, "--sample-every", 0)
        text = SHAKESPEARE.read_text()
        text = text[int(len(text) * 0.9):]
        pairs, firsts = Counter(zip(text, text[1:])), Counter(text[:-1])
        table = -sum(count * math.log(count / firsts[pair[0]]) for pair, count in pairs.items()) / (len(text) - 1)
        self.assertLess(abs(table - 2.37), 0.01)
        self.assertLess(log(self.scratch / "run", "valid_loss")[300], table - 0.2)


class Refusals(Small):
    def refused(self, *options, says):
        name = f"refused-{len(list(self.scratch.iterdir()))}"
        self.assert_refused(self.train(name, *options, status=1), *says)

    def test_options(self):
        self.refused("--optimizer", "adamv", says=["--optimizer", "did you mean 'adamw'"])
        self.refused("--schedule", "cos", says=["--schedule", "cosine"])
        self.refused("--length", 33, says=["--length 33", "32 positions"])
        self.refused("--steps", 0, says=["--steps"])
        self.refused("--beta2", 1, says=["--beta2"])
        self.refused("--train-only", "nothing*", says=["--train-only 'nothing*' fits no parameter"])
        self.refused("--train-only", "*mlp*", "--train-only", "ln_f", says=["--train-only 'ln_f'", "did you mean '*ln_f*'"])
        self.refused("--lora", 4, says=["quern compile --train --lora RANK"])
        self.refused("--rate", "nan", says=["--rate needs a number"])
        self.refused("--valid", self.text, "--valid-split", 0.1, says=["--valid-split"])
        self.refused("--tokenizer", "words", says=["words", "bytes, chars"])
        self.refused("--resume", says=["resume"])
        self.assert_refused(run(self.program, "train", "--resume", status=1), "--resume needs --output DIR")
        self.assert_refused(self.train("a-file", "--output", self.text, status=1), "text.txt is no folder")
        self.assert_refused(self.train("below", "--output", self.text / "run", status=1), "cannot make", "text.txt/run", "Not a directory")
        self.assert_refused(run(self.program, "train", "--output", self.scratch / "x", status=1), "--data")
        self.assert_refused(run(self.program, "train", "--data", self.text, status=1), "--output")

    def test_a_folder_with_a_run(self):
        self.train("twice", "--steps", 1)
        self.assert_refused(self.train("twice", "--steps", 1, status=1), "--resume")

    def test_data(self):
        def file(name, content):
            path = self.scratch / name
            path.write_bytes(content)
            return path
        self.refused("--data", self.scratch / "absent", says=["absent"])
        empty = file("empty.txt", b"")
        self.refused("--data", empty, says=["empty.txt is empty"])
        self.refused("--valid", empty, says=["empty.txt is empty"])
        self.refused("--valid", file("short.bin", b"\x00\x00"), says=["short.bin has 1 tokens"])
        self.refused("--data", file("short.txt", b"ten bytes."), says=["tokens", "--length"])
        self.refused("--data", file("odd.bin", b"abc"), says=["3 bytes"])
        self.refused("--data", file("large.bin", b"\x00\x01" * 100), says=["token 0 is 256", "from 0 to 255"])
        self.refused("--tokenizer", "chars", "--valid", file("other.txt", "Ω".encode() * 50), says=["character 0", "chars"])
        broken = self.scratch / "broken.safetensors"
        write_safetensors(broken, {"words": ints([[1, 2]])})
        self.refused("--data", broken, says=["words", "tokens"])
        write_safetensors(broken, {"tokens": Tensor("I64", [4], [1, 2, 3, 4])})
        self.refused("--data", broken, says=["tokens", "[4]"])
        broken.write_bytes(b"no tensors")
        self.refused("--data", broken, says=["broken.safetensors"])

    def test_folders_above_the_output_are_made(self):
        self.train("above/and/below", "--steps", 1)
        self.assertTrue((self.scratch / "above/and/below/checkpoint-1/model.safetensors").exists())
        # Of one step there are no lines: loss, validation, rate, gradient and speed are a ring each.
        self.assertEqual((self.scratch / "above/and/below/report.html").read_text().count("<circle"), 5)

    def test_a_gradient_that_is_too_long(self):
        """Every number of it is finite, and the sum of their squares is not."""
        spec = self.write_spec("steep", STEEP)
        program = self.compile(spec, "--train", name="steep")
        data = self.scratch / "steep.safetensors"
        write_safetensors(data, {"x": Tensor("F32", [1, 2], [1e25, 1e25])})
        for clip in (0, 1):
            finished = run(program, "train", "--data", data, "--output", self.scratch / f"steep{clip}", "--steps", 1, "--clip", clip, status=1)
            self.assert_refused(finished, "step 1", "sum of the gradient's squares is too large for 32 bits", "--rate")

    def test_a_broken_step_is_named(self):
        finished = self.train("broken", "--steps", 50, "--optimizer", "sgd", "--rate", 1e6, "--decay", 1e6, "--warmup", 0, "--clip", 0, status=1)
        self.assert_refused(finished, "step ", "broken-")
        (inputs,) = (self.scratch / "broken").glob("broken-*.inputs.safetensors")
        (model,) = (self.scratch / "broken").glob("broken-*.model.safetensors")
        command = [QUERN, "interpret", EXAMPLES / "gpt2.quern", "--train", *TINY, "--first-broken", "--output", self.scratch / "out"]
        named = run(*command, "--weights", model, "--input", inputs)
        self.assertIn("first operation", named.err)
        # A NaN in one layer is found there.
        tensors = read_safetensors(FIXTURE / "model.safetensors")
        tensors["transformer.h.1.mlp.c_proj.weight"].data[5] = math.nan
        write_safetensors(model, tensors)
        write_safetensors(inputs, {"tokens": ints([[1, 2, 3]])})
        named = run(QUERN, "interpret", EXAMPLES / "gpt2.quern", "--train", "--config", FIXTURE / "config.json", "--first-broken",
                    "--weights", model, "--input", inputs, "--output", self.scratch / "out")
        self.assertIn("'param', in iteration 1", named.err)


if __name__ == "__main__":
    unittest.main()
