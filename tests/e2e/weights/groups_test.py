"""GPTQ, AWQ and compressed-tensors as published, kept in codes of int4, q4_1 or q4_z: a program computes what one computes that decodes them to f32. Scales that are small."""
import json
import random
import struct
import unittest

from tests.e2e.harness import DATA, LESSER_TARGET, QUERN, Case, Tensor, random_tensor, random_tokens, read_safetensors, relative_error, run, write_safetensors

WIDTH, INNER, WORDS, LAYERS, GROUP = 64, 128, 96, 2, 32
SHAPES = {"self_attn.q_proj": (64, WIDTH), "self_attn.k_proj": (32, WIDTH), "self_attn.v_proj": (32, WIDTH), "self_attn.o_proj": (WIDTH, 64),
          "mlp.gate_proj": (INNER, WIDTH), "mlp.up_proj": (INNER, WIDTH), "mlp.down_proj": (WIDTH, INNER)}
AWQ_PLACES = (0, 4, 1, 5, 2, 6, 3, 7)


def words(rows, places=range(8)):
    """Codes of four bits, eight in a word of 32, along each row."""
    packed = []
    for row in rows:
        for at in range(0, len(row), 8):
            word = sum(code << 4 * places[i] for i, code in enumerate(row[at:at + 8]))
            packed.append(word - (word >> 31 << 32))
    return packed


def halves(source, count):
    return [struct.unpack("<H", struct.pack("<e", source.uniform(0.01, 0.03)))[0] for _ in range(count)]


def integers(source, outer, inner, symmetric, group, order=None, awq=False):
    """The parts of one weight, [outer, inner]."""
    count = inner // group
    codes = [[source.randrange(16) for _ in range(outer)] for _ in range(inner)]
    zeros = [[8 if symmetric else source.randrange(1, 16) for _ in range(outer)] for _ in range(count)]
    scales = halves(source, count * outer)
    if awq:
        parts = {"qweight": Tensor("I32", [inner, outer // 8], words(codes, AWQ_PLACES)), "qzeros": Tensor("I32", [count, outer // 8], words(zeros, AWQ_PLACES))}
    else:
        columns = words([[codes[i][o] for i in range(inner)] for o in range(outer)])  # [outer, inner / 8]
        parts = {"qweight": Tensor("I32", [inner // 8, outer], [columns[o * (inner // 8) + i] for i in range(inner // 8) for o in range(outer)]),
                 "qzeros": Tensor("I32", [count, outer // 8], words([[zero - 1 for zero in row] for row in zeros]))}
    parts["scales"] = Tensor("F16", [count, outer], scales)
    if order is not None:
        parts["g_idx"] = Tensor("I32", [inner], order)
    return parts


def rows_of_codes(source, outer, inner, symmetric, group):
    """The same as compressed-tensors has them: along each row."""
    count = inner // group
    parts = {"weight_packed": Tensor("I32", [outer, inner // 8], words([[source.randrange(16) for _ in range(inner)] for _ in range(outer)])),
             "weight_shape": Tensor("I64", [2], [outer, inner]),
             "weight_scale": Tensor("F16", [outer, count], halves(source, outer * count)),
             "input_scale": Tensor("F32", [1], [0.5])}  # of activations, which are not quantised
    if not symmetric:
        zeros = words([[source.randrange(1, 16) for _ in range(outer)] for _ in range(count)])  # [count, outer / 8]
        parts["weight_zero_point"] = Tensor("I32", [outer // 8, count], [zeros[g * (outer // 8) + o] for o in range(outer // 8) for g in range(count)])
    return parts


class Groups(Case):
    def write_model(self, method="gptq", group=GROUP, **odd):
        """A llama of such weights; of those that `odd` names zeros may be anywhere ("zeros") or neighbours have other groups ("order")."""
        folder, source = self.scratch / "model", random.Random(3)
        folder.mkdir(exist_ok=True)
        config = json.loads((DATA / "llama" / "config.json").read_text())
        config |= {"hidden_size": WIDTH, "intermediate_size": INNER, "vocab_size": WORDS, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
                   "quantization_config": {"quant_method": method, "bits": 4, "group_size": group}}
        (folder / "config.json").write_text(json.dumps(config))
        tensors = {"model.embed_tokens.weight": random_tensor(source, [WORDS, WIDTH], 1), "lm_head.weight": random_tensor(source, [WORDS, WIDTH]),
                   "model.norm.weight": Tensor("F32", [WIDTH], [1] * WIDTH)}
        for i in range(LAYERS):
            for name in ("input_layernorm", "post_attention_layernorm"):
                tensors[f"model.layers.{i}.{name}.weight"] = Tensor("F32", [WIDTH], [source.uniform(0.5, 1.5) for _ in range(WIDTH)])
            for name, (outer, inner) in SHAPES.items():
                kind = odd.get(name.split(".")[1])
                order = source.sample([g for g in range(inner // GROUP) for _ in range(GROUP)], inner) if kind == "order" else None
                if method == "compressed-tensors":
                    parts = rows_of_codes(source, outer, inner, kind != "zeros", min(group, inner))
                else:
                    parts = integers(source, outer, inner, kind != "zeros", min(group, inner), order, method == "awq")
                for part, tensor in parts.items():
                    tensors[f"model.layers.{i}.{name}.{part}"] = tensor
        write_safetensors(folder / "model.safetensors", tensors)
        return folder

    def check(self, folder, wanted):
        """`wanted`: what is stored of each weight, as the module says it."""
        inputs = {"tokens": random_tokens(1, 2, 9, WORDS)}
        logits, said, sizes = {}, {}, {}
        for name, options in {"f32": (), "stored": ("--precision", "stored")}.items():
            program = self.compile("llama", "--config", folder / "config.json", "--weights", folder, *options, name=name)
            logits[name] = self.evaluate(program, folder, inputs)["logits"]
            said[name] = self.generate(program, folder, inputs["tokens"].rows()[0], 20)
            run(program, "pack", "--weights", folder, "-o", self.scratch / f"{name}-packed")
            sizes[name] = sum(file.stat().st_size for file in (self.scratch / f"{name}-packed").glob("*.safetensors"))
        self.assertLess(relative_error(logits["stored"], logits["f32"]), 1e-5)
        self.assertEqual(said["stored"], said["f32"])
        self.assertLess(sizes["stored"], 0.75 * sizes["f32"])
        raised = self.scratch / "raised.mlir"
        run(QUERN, "compile", folder, "--precision", "stored", "-q", "--compile-to", "raised", "-o", raised)
        for word in wanted:
            self.assertRegex(raised.read_text(), word)

    def test_gptq(self):
        self.check(self.write_model(), (r"quern.quantize .*int4\[D = 64, F = 128\]|quern.quantize .*int4\[F = 128, D = 64\]",))

    def test_zeros_and_orders(self):
        """Zeros that are anywhere are kept beside the codes; changed orders f32."""
        self.check(self.write_model(v_proj="zeros", down_proj="order"), (r"quern.quantize .*q4_1\[", r"quern.quantize .*int4\["))

    def test_awq(self):
        self.check(self.write_model("awq", gate_proj="zeros", up_proj="zeros"), (r"quern.quantize .*q4_1\[", r"quern.quantize .*int4\["))

    def test_compressed_tensors(self):
        folder = self.write_model("compressed-tensors", gate_proj="zeros", up_proj="zeros")
        self.check(folder, (r"quern.quantize .*q4_1\[", r"quern.quantize .*int4\["))
        config = json.loads((folder / "config.json").read_text())
        config["quantization_config"]["sparsity_config"] = {"format": "sparse-24-bitmask"}
        (folder / "config.json").write_text(json.dumps(config))
        self.assert_refused(run(QUERN, "run", folder, "--", "info", status=1), "sparse-24-bitmask", "dense")

    def test_zeros_of_long_groups(self):
        """Groups of 128, as AWQ has by default: 4.75 bits instead of 6."""
        everywhere = {name.split(".")[1]: "zeros" for name in SHAPES}
        self.check(self.write_model("awq", group=128, **everywhere), (r"quern.quantize .*q4_z\[",))


class SmallScales(Case):
    def test_below_the_least_normal_number_of_f16(self):
        """Values are small, and what multiplies them is large: their scales are such that an f32 of the same exponent would be taken for 0."""
        stories = DATA / "stories260K"
        tensors = read_safetensors(stories / "model.safetensors")
        for name, tensor in tensors.items():
            factor = {"v_proj": 2.0**-12, "o_proj": 2.0**12}.get(name.split(".")[-2], 1)
            tensors[name] = Tensor(tensor.dtype, tensor.shape, [x * factor for x in tensor.data])
        weights, inputs = self.scratch / "small.safetensors", {"tokens": random_tokens(1, 2, 9, 500)}
        write_safetensors(weights, tensors)
        for kind in ("int8", "int4"):
            options = ("--config", stories / "config.json", "--quantize", f"f32,*v_proj*={kind}")
            want = self.interpret("llama", weights, inputs, *options, "--after", "narrow-storage")["logits"]
            for target in ((), ("--target", LESSER_TARGET)):
                got = self.evaluate(self.compile("llama", *options, *target), weights, inputs)["logits"]
                self.assertLess(relative_error(got, want), 1e-5, kind)


if __name__ == "__main__":
    unittest.main()
