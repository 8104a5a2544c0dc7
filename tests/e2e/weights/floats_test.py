"""Checkpoints in 8-bit floats as they are published, with scales of 128 x 128 (DeepSeek-V3, Qwen3-FP8), of rows or of tensors (compressed-tensors): programs
keep the codes, and compute what the interpreter and programs in f32 compute with the numbers that the codes stand for."""
import bisect
import json
import math
import random
import struct
import unittest

from tests.e2e.harness import DATA, LESSER_TARGET, QUERN, Case, Tensor, random_tensor, random_tokens, read_safetensors, relative_error, run, write_safetensors

NUMBERS = [(8 + code % 8) * 2.0 ** (code // 8 - 10) if code >= 8 else code * 2.0**-9 for code in range(127)]  # of E4M3, without signs
SHAPES = {"self_attn.q_proj": (160, 160), "self_attn.k_proj": (80, 160), "self_attn.v_proj": (80, 160), "self_attn.o_proj": (160, 160),
          "mlp.gate_proj": (300, 160), "mlp.up_proj": (300, 160), "mlp.down_proj": (160, 300)}


def rounded(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def code_of(x):
    """The nearest code; of two as near, the even one."""
    size = min(abs(x), NUMBERS[-1])
    at = min(bisect.bisect_left(NUMBERS, size), 126)
    if at and (size - NUMBERS[at - 1], (at - 1) % 2) < (NUMBERS[at] - size, at % 2):
        at -= 1
    return at + (128 if math.copysign(1, x) < 0 else 0)


def in_floats(tensor, kind, scale_type="F32"):
    """The codes, the scales and the numbers that they stand for of a matrix. `kind`: block, row or tensor."""
    rows, columns = tensor.shape
    down, across = {"block": (128, 128), "row": (1, columns), "tensor": (rows, columns)}[kind]
    shape = [-(-rows // down), -(-columns // across)]
    largest = [0.0] * math.prod(shape)
    place = [r // down * shape[1] + c // across for r in range(rows) for c in range(columns)]
    for at, x in zip(place, tensor.data):
        largest[at] = max(largest[at], abs(x))
    scales = [rounded(x / 448) for x in largest]
    bits = [struct.unpack("<I", struct.pack("<f", scale))[0] >> 16 for scale in scales]
    if scale_type == "BF16":
        scales = [struct.unpack("<f", struct.pack("<I", one << 16))[0] for one in bits]
    codes = [code_of(x / scales[at]) for at, x in zip(place, tensor.data)]
    numbers = [rounded(math.copysign(NUMBERS[code & 127], 127.5 - code) * scales[at]) for at, code in zip(place, codes)]
    stored = Tensor(scale_type, [1] if kind == "tensor" else shape, bits if scale_type == "BF16" else scales)
    return Tensor("F8_E4M3", tensor.shape, codes), stored, Tensor("F32", tensor.shape, numbers)


class Floats(Case):
    def write(self, config, tensors, choose, ending="_scale_inv", scale_type="F32"):
        """Two folders of one model: in 8-bit floats those that `choose(name)` gives a kind of scales for, and all in f32."""
        folders, stored, plain = [self.scratch / "floats", self.scratch / "plain"], {}, {}
        for name, tensor in tensors.items():
            kind = choose(name) if len(tensor.shape) == 2 else None
            stored[name] = plain[name] = tensor
            if kind:
                stored[name], stored[name + ending], plain[name] = in_floats(tensor, kind, scale_type)
        for folder, all in zip(folders, (stored, plain)):
            folder.mkdir(exist_ok=True)
            (folder / "config.json").write_text(json.dumps(config))
            write_safetensors(folder / "model.safetensors", all)
        return folders

    def llama(self, **more):
        """A llama whose dimensions are no multiples of 128: rows of 160 numbers take two groups."""
        source = random.Random(3)
        config = json.loads((DATA / "llama" / "config.json").read_text())
        config |= {"hidden_size": 160, "intermediate_size": 300, "vocab_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 40,
                   "num_hidden_layers": 2} | more
        tensors = {"model.embed_tokens.weight": random_tensor(source, [96, 160], 1), "lm_head.weight": random_tensor(source, [96, 160]),
                   "model.norm.weight": Tensor("F32", [160], [1] * 160)}
        for i in range(2):
            for name in ("input_layernorm", "post_attention_layernorm"):
                tensors[f"model.layers.{i}.{name}.weight"] = Tensor("F32", [160], [source.uniform(0.5, 1.5) for _ in range(160)])
            for name, shape in SHAPES.items():
                tensors[f"model.layers.{i}.{name}.weight"] = random_tensor(source, shape)
        return config, tensors

    def check(self, spec, folders, words, kept, targets=((),)):
        """`kept`: at most so much of f32's bytes, tables and vectors included; None: rows are shorter than a group."""
        floats, plain = folders
        inputs = {"tokens": random_tokens(1, 2, 9, words)}
        own = ("--config", plain / "config.json")
        want = self.interpret(spec, plain / "model.safetensors", inputs, *own)["logits"]
        program = self.compile(spec, *own, name="f32")
        self.assertLess(relative_error(self.evaluate(program, plain, inputs)["logits"], want), 1e-5)
        said = self.generate(program, plain, inputs["tokens"].rows()[0], 20)
        # Decoded as they are loaded they are the very numbers.
        self.assertEqual(self.packed(program, floats), self.packed(program, plain))
        for target in targets:
            stored = self.compile(spec, *own, "--weights", floats, "--precision", "stored", *target, name="stored")
            self.assertLess(relative_error(self.evaluate(stored, floats, inputs)["logits"], want), 1e-5)
            self.assertEqual(self.generate(stored, floats, inputs["tokens"].rows()[0], 20), said)
            self.assertEqual(self.generate(stored, floats, inputs["tokens"].rows()[0], 20, "--no-cache"), said)
        size = len(self.packed(stored, floats, "stored"))
        if kept:
            self.assertLess(size, kept * len(self.packed(program, floats)))
        self.assertEqual(self.generate(stored, self.scratch / "stored-packed", inputs["tokens"].rows()[0], 20), said)
        return stored, said

    def packed(self, program, weights, name="again"):
        run(program, "pack", "--weights", weights, "-o", self.scratch / f"{name}-packed")
        return (self.scratch / f"{name}-packed" / "model.safetensors").read_bytes()

    def raised(self, folder):
        """What products read, as the module says it, and what the compiler said."""
        finished = run(QUERN, "compile", folder, "--precision", "stored", "--compile-to", "raised", "-o", self.scratch / "raised.mlir")
        return (self.scratch / "raised.mlir").read_text(), finished.err


class Published(Floats):
    def test_blocks(self):
        """As DeepSeek-V3 and Qwen3-FP8: matrices of the layers, a scale for each 128 x 128; the head in f32."""
        folders = self.write(*self.llama(), lambda name: "block" if "layers" in name else None)
        _, said = self.check("llama", folders, 96, 0.45, targets=(("--target", LESSER_TARGET), ()))
        raised, told = self.raised(folders[0])
        self.assertRegex(raised, r"quern.quantize .*f8_e4m3\[(D = 160, F = 300|F = 300, D = 160)\]")
        self.assertNotIn("become", told)
        done = run(QUERN, "run", folders[0], "--tokens", ",".join(map(str, random_tokens(1, 2, 9, 96).rows()[0])), "-n", 20, "--temp", 0, "--json")
        self.assertEqual(json.loads(done.out.strip().splitlines()[-1])["tokens"], said)

    def test_rows_and_tensors(self):
        """As compressed-tensors: scales in bf16, one a row or one in all; the head and the table, too, which is looked up in codes."""
        folders = self.write(*self.llama(), lambda name: "tensor" if "down" in name else "row", "_scale", "BF16")
        self.check("llama", folders, 96, 0.41)
        raised, _ = self.raised(folders[0])
        self.assertRegex(raised, r"quern.gather .*f8_e4m3\[V = 96, D = 160\]")

    def test_a_tied_table_is_there_once(self):
        config, tensors = self.llama(tie_word_embeddings=True)
        del tensors["lm_head.weight"]
        self.check("llama", self.write(config, tensors, lambda name: "block"), 96, 0.4)

    def test_nan_shows(self):
        """A code of NaN is one, and so is what is computed with it; nothing else is."""
        config, tensors = self.llama()
        floats, _ = self.write(config, tensors, lambda name: "block" if "lm_head" in name else None)
        stored = read_safetensors(floats / "model.safetensors")
        stored["lm_head.weight"].data[5 * 160 + 3] = 0x7f
        write_safetensors(floats / "model.safetensors", stored)
        program = self.compile("llama", "--config", floats / "config.json", "--weights", floats, "--precision", "stored")
        logits = self.evaluate(program, floats, {"tokens": random_tokens(1, 1, 4, 96)})["logits"]
        for i, x in enumerate(logits.data):
            self.assertEqual(math.isnan(x), i % 96 == 5, i)


class Fixtures(Floats):
    """Golden models, whose matrices become 8-bit floats: experts, latents, matrices that are stored transposed."""

    def of(self, fixture, spec, kind, names="proj|w1|w2|w3|experts"):
        config = json.loads((DATA / fixture / "config.json").read_text())
        tensors = read_safetensors(DATA / fixture / "model.safetensors")
        folders = self.write(config, tensors, lambda name: kind if any(word in name for word in names.split("|")) and "router" not in name else None)
        self.check(spec, folders, config["vocab_size"], None)

    def test_routed_experts(self):
        self.of("mixtral", "mixtral", "block")

    def test_latents(self):
        self.of("deepseek-v3", "deepseek_v3", "row")

    def test_matrices_stored_transposed(self):
        """GPT-2's: blocks of 128 x 128 share their scales in both directions."""
        self.of("gpt2", "gpt2", "tensor", "c_attn.weight|c_proj.weight|c_fc.weight")


if __name__ == "__main__":
    unittest.main()
