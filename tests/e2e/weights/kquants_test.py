"""GGUF's K-quants: kept in their codes, a program computes what one computes that decodes them to f32; as formats of --quantize."""
import json
import random
import struct
import unittest

from tests.e2e.weights.gguf_file import header
from tests.e2e.harness import DATA, EXAMPLES, LESSER_TARGET, QUERN, Case, random_tokens, read_safetensors, relative_error, run

# The type's number in GGUF; a super-block of any codes and scales whose numbers are about 0.05 large, around 0.
LEVELS = {2: (10, lambda bits: bits(80) + struct.pack("<ee", 2**-8, 2**-7.5)), 3: (11, lambda bits: bits(108) + struct.pack("<e", 2**-10)),
          4: (12, lambda bits: struct.pack("<ee", 2**-12, 2**-9) + bits(140)), 5: (13, lambda bits: struct.pack("<ee", 2**-13, 2**-9) + bits(172)),
          6: (14, lambda bits: bits(208) + struct.pack("<e", 2**-14)), "iq4_xs": (23, lambda bits: struct.pack("<e", 2**-16) + bits(134)),
          "iq3_s": (21, lambda bits: struct.pack("<e", 2**-13) + bits(108)), "tq1_0": (34, lambda bits: bits(52) + struct.pack("<e", 2**-5)),
          "nvfp4": (40, lambda bits: b"".join(bytes([16, 13, 21, 9]) + bits(32) for _ in range(4))), "iq2_xs": (17, lambda bits: struct.pack("<e", 2**-11) + bits(72))}
WIDTH, INNER, LAYERS, WORDS = 256, 512, 3, 300


def write_model(path, types, tied=False):
    """A llama whose matrices are of the types that `types(name, layer)` says (keys of LEVELS), its vectors in f32. `tied`: the head is the table."""
    source = random.Random(5)
    shapes = {"token_embd": (WORDS, WIDTH), "output_norm": (WIDTH,)} | ({} if tied else {"output": (WORDS, WIDTH)})
    for i in range(LAYERS):
        layer = {"attn_norm": (WIDTH,), "attn_q": (WIDTH, WIDTH), "attn_k": (WIDTH // 2, WIDTH), "attn_v": (WIDTH // 2, WIDTH), "attn_output": (WIDTH, WIDTH),
                 "ffn_norm": (WIDTH,), "ffn_gate": (INNER, WIDTH), "ffn_up": (INNER, WIDTH), "ffn_down": (WIDTH, INNER)}
        shapes |= {f"blk.{i}.{name}": shape for name, shape in layer.items()}
    values = {"general.architecture": "llama", "llama.block_count": LAYERS, "llama.context_length": 64, "llama.embedding_length": WIDTH,
              "llama.feed_forward_length": INNER, "llama.attention.head_count": 4, "llama.attention.head_count_kv": 2,
              "llama.attention.layer_norm_rms_epsilon": 1e-5, "llama.rope.dimension_count": 64, "llama.vocab_size": WORDS, "tokenizer.ggml.model": "no_vocab"}
    infos, data = [], b""
    for name, shape in shapes.items():
        if len(shape) == 1:
            kind, raw = 0, struct.pack(f"<{shape[0]}f", *(source.uniform(0.5, 1.5) for _ in range(shape[0])))
        else:
            kind, block = LEVELS[types(name.split(".")[-1], int(name.split(".")[1]) if name.startswith("blk") else None)]
            raw = b"".join(block(source.randbytes) for _ in range(shape[0] * shape[1] // 256))
        infos.append((name + ".weight", shape, kind, len(raw)))
        data += raw + b"\0" * (-len(raw) % 32)
    path.write_bytes(header(values, infos) + data)


def usual(name, layer):
    """As Q4_K_M: of values and down projections some layers have more bits."""
    return 6 if name == "output" or (name in ("attn_v", "ffn_down") and layer == 1) else 4


class Files(Case):
    lesser = False  # whether each is compiled for another vector, too

    def check(self, types, wanted, kept, tied=False):
        """Program by program; `wanted`: what the layouts of kernels say. `kept`: at most so much of f32's bytes, tables included."""
        path = self.scratch / "model.gguf"
        write_model(path, types, tied)
        inputs = {"tokens": random_tokens(1, 2, 9, WORDS)}
        rows, sizes, said = {}, {}, {}
        programs = {"f32": (), "stored": ("--precision", "stored")}
        if self.lesser:
            programs["lesser"] = (*programs["stored"], "--target", LESSER_TARGET)
        for name, options in programs.items():
            program = self.compile("llama", "--config", path, "--weights", path, *options, name=name)
            rows[name] = self.evaluate(program, path, inputs)["logits"]
            said[name] = self.generate(program, path, inputs["tokens"].rows()[0], 20)
            run(program, "pack", "--weights", path, "-o", self.scratch / f"{name}-packed")
            sizes[name] = sum(file.stat().st_size for file in (self.scratch / f"{name}-packed").glob("*.safetensors"))
            if name == "stored":
                self.assertEqual(self.generate(program, self.scratch / "stored-packed", inputs["tokens"].rows()[0], 20), said["f32"])
        for name in list(programs)[1:]:
            self.assertLess(relative_error(rows[name], rows["f32"]), 1e-5, name)
            self.assertEqual(said[name], said["f32"], name)
        self.assertLess(sizes["stored"], kept * sizes["f32"])
        run(QUERN, "compile", path, "--precision", "stored", "-q", "--compile-to", "raised", "-o", self.scratch / "raised.mlir")
        raised = (self.scratch / "raised.mlir").read_text()
        for word in wanted:
            self.assertIn(f"tensor<{word}[", raised)
        self.assertNotIn("become", run(QUERN, "compile", path, "--precision", "stored", "-o", self.scratch / "again").err)
        done = run(QUERN, "run", path, "--tokens", ",".join(map(str, inputs["tokens"].rows()[0])), "-n", 20, "--temp", 0, "--json")
        self.assertEqual(json.loads(done.out.strip().splitlines()[-1])["tokens"], said["f32"])

    def test_a_usual_mix(self):
        self.check(usual, ("q4_k", "q6_k"), 0.21)

    def test_a_tied_table_is_there_once(self):
        """Rows are looked up in the codes that the head multiplies; in f32 they are beside its tiles."""
        self.check(lambda name, layer: 6 if name == "token_embd" else 4, ("q4_k", "q6_k"), 0.19, tied=True)
        bits = {4: 148 / 256, 6: 228 / 256}  # bytes of a number
        tile = 64  # rows that fill the last tile of the table are there, too
        layer = bits[4] * (2 * WIDTH * WIDTH + 2 * WIDTH // 2 * WIDTH + 3 * INNER * WIDTH)
        exact = LAYERS * layer + bits[6] * -(-WORDS // tile) * tile * WIDTH + 4 * WIDTH * (2 * LAYERS + 1)
        self.assertLess((self.scratch / "stored-packed" / "model.safetensors").stat().st_size, 1.05 * exact + 16384)  # a table of tensors

    def test_a_file_that_is_cut(self):
        path, cut = self.scratch / "whole.gguf", self.scratch / "cut.gguf"
        write_model(path, usual)
        cut.write_bytes(path.read_bytes()[:-100])
        self.assert_refused(run(QUERN, "run", cut, "--tokens", "1", status=1), "cut.gguf", "cut short")


class MoreFiles(Files):
    """More mixes, and each for another vector (`More`: in the tier `nightly`)."""
    lesser = True
    test_a_file_that_is_cut = None

    def test_codes_of_a_table_are_its_values(self):
        """IQ4_XS, beside what such files have of other types."""
        self.check(lambda name, layer: 6 if name == "output" else 5 if name == "attn_v" else "iq4_xs", ("q8_k", "q5_k", "q6_k"), 0.31)

    def test_grids_and_digits(self):
        """IQ3_S is in six bits, TQ1_0 in four, NVFP4 in bf16."""
        self.check(lambda name, layer: "tq1_0" if name == "ffn_down" else "nvfp4" if name in ("ffn_gate", "ffn_up") else "iq3_s", ("q6_k", "int4", "bf16"), 0.35)

    def test_what_no_storage_holds_is_said(self):
        path = self.scratch / "grids.gguf"
        write_model(path, lambda name, layer: "iq2_xs")
        done = run(QUERN, "run", path, "--tokens", "1,2,3", "-n", 4, "--temp", 0)
        self.assertIn("is stored in IQ2_XS becomes f32", done.err)

    def test_five_bits(self):
        self.check(lambda name, layer: 6 if name in ("output", "ffn_down") else 5, ("q5_k", "q6_k"), 0.22)

    def test_few_bits_are_kept_in_six(self):
        self.check(lambda name, layer: 2 if name in ("attn_q", "attn_k", "ffn_gate") else 3, ("q6_k",), 0.24)


class Quantize(Case):
    """As formats of --quantize: as the interpreter of the same module; and whole texts as in steps."""

    def check(self, fixture, spec, kind, near):
        folder, options = DATA / fixture, ("--config", DATA / fixture / "config.json", "--quantize", kind, "--kv-cache", "f32")  # steps as whole texts
        inputs = {"tokens": read_safetensors(folder / "expected.safetensors")["input_ids"]}
        program = self.compile(spec, *options)
        got = self.evaluate(program, folder / "model.safetensors", inputs)["logits"]
        want = self.interpret(spec, folder / "model.safetensors", inputs, *options, "--after", "narrow-storage")["logits"]
        self.assertLess(relative_error(got, want), near)
        prompt = inputs["tokens"].rows()[0][:5]
        self.assertEqual(self.generate(program, folder, prompt, 12), self.generate(program, folder, prompt, 12, "--no-cache"))
        layouts = run(QUERN, "dump", EXAMPLES / f"{spec}.quern", *options, "--after", "kernels").out
        self.assertRegex(layouts, rf"<{kind}\[[^\]]*\]> #quern.layout<\"packed\"")
        return layouts

    def test_four_bits(self):
        layouts = self.check("llama", "llama", "q4_k", 1e-5)
        self.assertRegex(layouts, r"<q6_k\[[^\]]*\]> #quern.layout<\"packed\"")  # the head

    def test_five_bits_transposed(self):
        self.check("gpt2", "gpt2", "q5_k", 1e-5)

    def test_six_bits_and_a_tied_head(self):
        self.check("qwen2", "qwen2", "q6_k", 1e-5)

    def test_routed_experts(self):
        self.check("mixtral", "mixtral", "q4_k", 1e-5)


if __name__ == "__main__":
    unittest.main()
