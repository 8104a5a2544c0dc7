"""Memory that a packed program has while it writes: its codes and scales, mapped once, its caches and its plan, within 5%.

What is resident is what the system counts of the process, page by page. A process also has its own code, its stacks and the tokens: the same program
of fewer layers says how much that is."""
import fcntl
import json
import os
import pathlib
import re
import struct
import subprocess
import termios
import time
import unittest

from tests.e2e.bench.bench import LLAMA
from tests.e2e.bench.bench_precisions import write_model
from tests.e2e.harness import EXAMPLES, QUERN, Case, run

PAGE = 4096
READ, WRITTEN = 64, 32
VOCABULARY = 256


def llama(width, inner, layers, **more):
    return dict(LLAMA, hidden_size=width, intermediate_size=inner, num_hidden_layers=layers, num_attention_heads=width // 64, num_key_value_heads=width // 64,
                vocab_size=VOCABULARY, **more)


MODELS = {"large": llama(512, 1536, 10), "tiny": llama(512, 1536, 2)}  # of the same kernels
MODELS |= {f"{name}_tied": dict(config, tie_word_embeddings=True) for name, config in MODELS.items()}
# Options; bytes of a number in layers, in the head.
FORMATS = {"f32": ((), 4, 4), "bf16": (("--precision", "bf16"), 2, 2), "int8": (("--quantize", "int8"), 34 / 32, 34 / 32),
           "int4": (("--quantize", "int4"), 18 / 32, 34 / 32), "q4_k": (("--quantize", "q4_k"), 148 / 256, 228 / 256)}


class Resident(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name, config in MODELS.items():
            (cls.scratch / f"{name}.json").write_text(json.dumps(config))
            write_model(cls.scratch / f"{name}.gguf", config)

    def start(self, model, options, name):
        """A program, packed; both paths."""
        program = self.compile("llama", "--config", self.scratch / f"{model}.json", *options, name=name)
        run(program, "pack", "--weights", self.scratch / f"{model}.gguf", "-o", self.scratch / f"{name}-packed")
        return program, self.scratch / f"{name}-packed"

    def writing(self, program, weights):
        """In bytes, after some of the tokens: all that is resident, the most that ever was, and what is mapped of files by the file's name. The program waits
        meanwhile, as it writes into a pipe that is full."""
        tokens = ",".join(str(i * VOCABULARY // READ) for i in range(READ))
        command = [program, "generate", "--weights", weights, "--tokens", tokens, "-n", WRITTEN, "--temp", 0, "--eos", "ignore"]
        reader, writer = os.pipe()
        room = fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PAGE)
        os.write(writer, b" " * (room - 2 * WRITTEN))  # of a token there are two to four bytes
        process = subprocess.Popen([str(word) for word in command], stdout=writer)
        os.close(writer)
        try:
            while room - struct.unpack("i", fcntl.ioctl(reader, termios.FIONREAD, bytes(4)))[0] > len(",255"):
                self.assertIsNone(process.poll(), "it ended early")
                time.sleep(0.01)
            status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
            smaps = pathlib.Path(f"/proc/{process.pid}/smaps").read_text()
        finally:
            process.kill()
            process.wait()
            os.close(reader)
        files, name = {}, ""
        for line in smaps.splitlines():
            if mapping := re.match(r"[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ \d+ *(.*)", line):
                name = pathlib.Path(mapping[1]).name if mapping[1].startswith("/") else ""
            elif line.startswith("Rss:"):
                files[name] = files.get(name, 0) + 1024 * int(line.split()[1])
        most = 1024 * int(re.search(r"VmHWM:\s*(\d+)", status)[1])
        return sum(files.values()), most, files

    def described(self, program, weights):
        """What the program says of itself: bytes of weights, and of all else that it plans."""
        bench = json.loads(run(program, "bench", "--weights", weights, "-p", READ, "-n", WRITTEN, "-r", 1, "--json").out)
        return bench["weights_bytes"], bench["memory"]["planned_bytes"]

    def assert_near(self, got, want, where):
        self.assertLess(abs(got - want), 0.05 * want, where)

    def check(self, options, exact, name, tied=""):
        """`exact`: bytes of what the large model's kernels read."""
        tiny, large = (self.start(model + tied, options, f"{name}-{model}") for model in ("tiny", "large"))
        around = self.writing(*tiny)[1] - sum(self.described(*tiny))
        self.assertLess(around, 4 << 20)
        codes, planned = self.described(*large)
        self.assertLess(abs(codes - exact), 0.005 * exact)
        resident, most, files = self.writing(*large)
        for got in (resident, most):
            self.assert_near(got - around, codes + planned, (got, around, codes, planned))
        # The codes are pages of the file, which processes share.
        self.assert_near(files["model.safetensors"], codes, files)
        # Laid out from a checkpoint they are there once, too: what was read is let go.
        checkpoint = self.scratch / f"large{tied}.gguf"
        resident, most, files = self.writing(large[0], checkpoint)
        self.assert_near(resident - around, codes + planned, (resident, around, codes, planned))
        self.assertLess(files[checkpoint.name], 0.05 * checkpoint.stat().st_size)
        self.assertGreater(most - around, 1.05 * (codes + planned))  # while both were there: what is there twice is seen here

    def exact(self, of_layers, of_head, of_table):
        width, inner, layers = (MODELS["large"][name] for name in ("hidden_size", "intermediate_size", "num_hidden_layers"))
        return layers * (4 * width * width + 3 * width * inner) * of_layers + VOCABULARY * width * (of_head + of_table) + (2 * layers + 1) * width * 4

    def check_formats(self, *names):
        for name in names:
            with self.subTest(name):
                options, of_layers, of_head = FORMATS[name]
                self.check(options, self.exact(of_layers, of_head, of_table=4), name)

    def test_formats(self):
        self.check_formats("f32", "q4_k")

    def test_a_table_in_codes_is_the_heads(self):
        self.check(("--quantize", "int8,*embed_tokens*=int8"), self.exact(34 / 32, 34 / 32, of_table=0), "tied", tied="_tied")


class MoreResident(Resident):
    """`More`: in the tier `nightly`."""

    test_a_table_in_codes_is_the_heads = None

    def test_formats(self):
        self.check_formats("bf16", "int8", "int4")


if __name__ == "__main__":
    unittest.main()
