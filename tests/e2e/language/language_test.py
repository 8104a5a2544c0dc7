"""The language's own examples with random weights: compiled against interpreted, and step by step against the whole at once."""
import json
import pathlib
import random
import unittest

from tests.e2e.harness import QUERN, ROOT, Case, Tensor, ints, random_tensor, random_tokens, read_safetensors, relative_error, run, write_safetensors

WIDTH, INNER, WORDS = 32, 64, 64


def norm(name, bias=True):
    return {f"{name}.weight": [WIDTH], **({f"{name}.bias": [WIDTH]} if bias else {})}


def feed_forward(name, inner):
    return {f"{name}in.weight": [inner, WIDTH], f"{name}in.bias": [inner], f"{name}out.weight": [WIDTH, inner], f"{name}out.bias": [WIDTH]}


def sparse():
    shapes = {"words": [WORDS, WIDTH], "relative": [33, 4], **norm("norm", False)}
    for i in range(2):
        layer = f"layer.{i}."
        shapes |= norm(layer + "norm1", False) | norm(layer + "norm2", False)
        shapes |= {layer + "qkv.weight": [3 * WIDTH, WIDTH], layer + "o.weight": [WIDTH, WIDTH], layer + "in.weight": [8 * WIDTH, WIDTH],
                   layer + "out.weight": [WIDTH, 4 * WIDTH]}
    return shapes


def linear_attention():
    shapes = {"words": [WORDS, WIDTH], **norm("norm")}
    for i in range(2):
        layer = f"layer.{i}."
        shapes |= norm(layer + "norm1") | norm(layer + "norm2") | feed_forward(layer, 4 * WIDTH)
        shapes |= {f"{layer}{part}.weight": [WIDTH, WIDTH] for part in "qkvo"}
    return shapes


def translate():
    shapes = {"words": [WORDS, WIDTH]}
    for side, parts in (("encoder", ["self"]), ("decoder", ["self", "cross"])):
        for i in range(2):
            layer = f"{side}.{i}."
            for n in range(len(parts) + 1):
                shapes |= norm(f"{layer}norm{n + 1}")
            shapes |= {f"{layer}{part}.{matrix}.weight": [WIDTH, WIDTH] for part in parts for matrix in "qkvo"}
            shapes |= feed_forward(layer + "ffn.", INNER)
    return shapes


def gpt_oss():
    """Attention sinks, and experts that are together in one tensor."""
    shapes = {"model.embed_tokens.weight": [WORDS, WIDTH], "model.norm.weight": [WIDTH], "lm_head.weight": [WORDS, WIDTH]}
    for i in range(3):
        layer = f"model.layers.{i}."
        attention, experts = layer + "self_attn.", layer + "mlp.experts."
        shapes |= {layer + "input_layernorm.weight": [WIDTH], layer + "post_attention_layernorm.weight": [WIDTH], attention + "sinks": [4]}
        for part, size in (("q", 32), ("k", 16), ("v", 16), ("o", 32)):
            shapes |= {f"{attention}{part}_proj.weight": [size, WIDTH], f"{attention}{part}_proj.bias": [size]}
        shapes |= {layer + "mlp.router.weight": [4, WIDTH], layer + "mlp.router.bias": [4], experts + "gate_up_proj": [4, WIDTH, 32],
                   experts + "gate_up_proj_bias": [4, 32], experts + "down_proj": [4, 16, WIDTH], experts + "down_proj_bias": [4, WIDTH]}
    return shapes


def mixer():
    shapes = {"words": [WORDS, 24], "places": [1, 64, 24]}
    for i in range(3):
        layer = f"l.{i}."
        shapes |= {layer + "mix": [24], layer + "wq": [3, 24, 8], layer + "wk": [24, 3, 8], layer + "wv": [24, 24], layer + "wo": [3, 8, 24],
                   layer + "in.weight": [96, 24], layer + "out.weight": [24, 48], layer + "out.bias": [24]}
    return shapes


def heads():
    shapes = {"words": [WORDS, WIDTH]}
    for i in range(2):
        layer = f"l.{i}."
        shapes |= {layer + "norm.weight": [WIDTH], layer + "up": [128, 4, 8], layer + "down": [128, WIDTH]}
        shapes |= {layer + name: [4, 8, WIDTH] for name in ("wq", "wk", "wv", "wo")}
    return shapes


def deepseek():
    """Keys and values made of one latent, which is what is remembered; experts in groups."""
    def gated(layer, inner):
        return {f"{layer}gate_proj.weight": [inner, WIDTH], f"{layer}up_proj.weight": [inner, WIDTH], f"{layer}down_proj.weight": [WIDTH, inner]}
    shapes = {"model.embed_tokens.weight": [WORDS, WIDTH], "model.norm.weight": [WIDTH], "lm_head.weight": [WORDS, WIDTH]}
    for i in range(3):
        layer = f"model.layers.{i}."
        shapes |= {layer + "input_layernorm.weight": [WIDTH], layer + "post_attention_layernorm.weight": [WIDTH]}
        for part, shape in (("q_proj", [48, WIDTH]), ("kv_a_proj_with_mqa", [20, WIDTH]), ("kv_a_layernorm", [16]), ("kv_b_proj", [64, 16]), ("o_proj", [WIDTH, 32])):
            shapes[f"{layer}self_attn.{part}.weight"] = shape
        if i == 0:
            shapes |= gated(layer + "mlp.", 24)
            continue
        shapes |= {layer + "mlp.gate.weight": [8, WIDTH], layer + "mlp.gate.e_score_correction_bias": [8]} | gated(layer + "mlp.shared_experts.", 12)
        for expert in range(8):
            shapes |= gated(f"{layer}mlp.experts.{expert}.", 12)
    return shapes


class Examples(Case):
    def check(self, spec, shapes, *options):
        source = random.Random("weights")
        weights = self.scratch / "weights.safetensors"
        write_safetensors(weights, {name: random_tensor(source, shape, 0.5 if len(shape) == 1 else None) for name, shape in shapes.items()})
        program = self.compile(spec, *options)
        pair = spec == "translate"
        for rows, length in ((1, 1), (2, 12), (3, 40)):
            inputs = {"tokens": random_tokens(length, rows, length, WORDS)}
            if pair:
                inputs["target"] = random_tokens(length + 1, rows, length // 2 + 1, WORDS)
            want = self.interpret(spec, weights, inputs, *options)["logits"]
            got = self.evaluate(program, weights, inputs)["logits"]
            self.assertLess(relative_error(got, want), 5e-5, f"{spec}: batch {rows}, length {length}")
        prompt = list(random_tokens(7, 1, 6, WORDS).data)
        written = self.generate(program, weights, prompt, 20)
        self.assertEqual(len(written), 20)
        self.assertEqual(self.generate(program, weights, prompt, 20, "--no-cache"), written)
        if not pair:  # beside a shorter and a longer one
            prompts = [list(random_tokens(seed, 1, length, WORDS).data) for seed, length in ((8, 2), (9, 11))]
            alone = [self.generate(program, weights, prompts[0], 20), written, self.generate(program, weights, prompts[1], 20)]
            for count in (2, 3):  # two rows are few, where there is a form for few
                several = [word for tokens in (prompts[0], prompt, prompts[1])[:count] for word in ("--tokens", ",".join(map(str, tokens)))]
                made = run(program, "generate", "--weights", weights, "-n", 20, "--temp", 0, "--json", *several).out.splitlines()
                self.assertEqual([json.loads(line)["tokens"] for line in made], alone[:count])
        if not pair:  # each new token is the best by the full evaluation of what stands before it
            logits = self.evaluate(program, weights, {"tokens": ints([prompt + written])})["logits"].row(0)
            for i, token in enumerate(written):
                row = logits.row(len(prompt) - 1 + i).data
                self.assertAlmostEqual(row[token], max(row), 4)

    def test_sparse(self):
        self.check("sparse", sparse())

    def test_linear_attention(self):
        self.check("linear_attention", linear_attention())

    def test_sinks_and_experts_in_one_tensor(self):
        self.check(ROOT / "tests" / "frontend" / "specs" / "gpt_oss.quern", gpt_oss())

    def test_latents(self):
        self.check(ROOT / "tests" / "frontend" / "specs" / "deepseek_v3.quern", deepseek())

    def test_unusual_algebra(self):
        self.check(pathlib.Path(__file__).with_name("mixer.quern"), mixer())

    def test_weights_of_three_dimensions(self):
        self.check(pathlib.Path(__file__).with_name("heads.quern"), heads())

    def test_translate(self):
        config = self.scratch / "config.json"
        config.write_text(json.dumps({"decoder_start_token_id": 1, "vocab": WORDS, "width": WIDTH, "inner": INNER, "heads": 4, "layers": 2}))
        self.check("translate", translate(), "--config", config)


class Absent(Case):
    """A parameter that a checkpoint may lack is zeros or ones: compiled, interpreted, packed and trained."""

    TEXT = """quern 1
model absent {
  dim V = 16, D = 8
  forward(tokens: int[B, T]) -> [B, T, V] {
    param words: [V, D] @ "words"
    x = words[V = tokens]
    repeat i in 2 @ "layers.{i}" {
      param gain: [D] @ "gain" ~ ones if absent
      param shift: [D] @ "shift" ~ zeros if absent
      x = gain * x + shift + index(D)
    }
    return sum[D](x * words)
  }
}
"""

    def test_absent(self):
        spec = self.write_spec("absent", self.TEXT)
        run(QUERN, "fmt", "--check", spec)
        source = random.Random("absent")
        have = {"words": random_tensor(source, [16, 8]), "layers.0.shift": random_tensor(source, [8]), "layers.1.gain": random_tensor(source, [8])}
        whole = have | {"layers.0.gain": Tensor("F32", [8], [1.0] * 8), "layers.1.shift": Tensor("F32", [8], [0.0] * 8)}
        some, all_ = self.scratch / "some.safetensors", self.scratch / "all.safetensors"
        write_safetensors(some, have)
        write_safetensors(all_, whole)
        inputs = {"tokens": random_tokens(1, 2, 5, 16)}
        program = self.compile(spec, "--train", name="absent")
        want = self.interpret(spec, all_, inputs)["logits"]
        self.assertEqual(self.interpret(spec, some, inputs)["logits"].data, want.data)
        got = self.evaluate(program, some, inputs)["logits"]
        self.assertLess(relative_error(got, want), 1e-5)
        self.assertEqual(list(got.data), list(self.evaluate(program, all_, inputs)["logits"].data))
        run(program, "pack", "--weights", some, "-o", self.scratch / "packed")
        self.assertEqual(list(self.evaluate(program, self.scratch / "packed", inputs)["logits"].data), list(got.data))
        with_labels = inputs | {"labels": random_tokens(2, 2, 5, 16)}
        file = self.scratch / "batch.safetensors"
        write_safetensors(file, with_labels)
        gradients = []
        for weights in (some, all_):
            run(program, "grad", "--weights", weights, "--input", file, "--output", self.scratch / "grads.safetensors")
            gradients.append({name: list(tensor.data) for name, tensor in read_safetensors(self.scratch / "grads.safetensors").items()})
        self.assertEqual(*gradients)
        self.assertIn("grad.layers.0.gain", gradients[0])
        # What may not be absent is missed as ever.
        write_safetensors(some, {name: tensor for name, tensor in have.items() if name != "words"})
        self.assert_refused(run(program, "grad", "--weights", some, "--input", file, "--output", self.scratch / "grads.safetensors", status=1), "missing tensors (1)", "words")


class NothingToAttend(Case):
    """REFERENCE section 6: a softmax over nothing but -inf gives zeros. Interpreter and kernels, one query and many."""

    TEXT = """quern 1
model nothing {
  dim G = 2, K = 8
  forward(q: [B, T, G, K], k: [B, M, G, K], v: [B, M, G, K], keep: bool[B, M]) -> [B, T, G, K] {
    return attention[M, K](q, k, v, mask: keep)
  }
  early(q: [B, T, G, K], k: [B, T, G, K], v: [B, T, G, K]) -> [B, T, G, K] {
    dim S = T
    return attention[S, K](q, k[T -> S], v[T -> S], mask: index(S) < index(T))
  }
  sink(q: [B, T, G, K], k: [B, T, G, K], v: [B, T, G, K]) -> [B, T, G, K] {
    dim S = T
    return attention[S, K](q, k[T -> S], v[T -> S], mask: index(S) + 1000 < index(T), sink: index(G) * 0.5)
  }
  finite(q: [B, T, G, K], k: [B, M, G, K], v: [B, M, G, K], keep: bool[B, M]) -> [B, T, G, K] {
    return sum[M](softmax[M](where(keep, sum[K](q * k), -1e9)) * v)
  }
}
"""

    def test_zeros(self):
        spec, weights = self.scratch / "nothing.quern", self.scratch / "none.safetensors"
        spec.write_text(self.TEXT)
        write_safetensors(weights, {})
        program = self.compile(spec)
        source = random.Random("nothing")
        for queries in (1, 5, 60):
            def both(function, keys, **more):
                shape = {"q": queries, "k": keys, "v": keys}
                inputs = {name: random_tensor(source, [2, n, 2, 8]) for name, n in shape.items()} | more
                got = self.evaluate(program, weights, inputs, "--function", function)
                want = self.interpret(spec, weights, inputs, "--function", function)
                (got,), (want,) = got.values(), want.values()
                self.assertLess(relative_error(got, want), 1e-5, f"{function}, {queries} queries")
                return got, inputs["v"]

            keep = Tensor("BOOL", [2, 7], [0] * 7 + [1] * 7)
            masked, _ = both("forward", 7, keep=keep)
            self.assertEqual(set(masked.row(0).data), {0.0})
            self.assertNotIn(0.0, masked.row(1).data)
            first, _ = both("early", queries)  # the first query sees nothing
            self.assertEqual(set(first.row(1).row(0).data), {0.0})
            sunk, _ = both("sink", queries)  # all goes to the sink, which has no value
            self.assertEqual(set(sunk.data), {0.0})
            # A finite mask is a number: where all is masked by it, all keys count alike.
            finite, values = both("finite", 7, keep=keep)
            mean = [sum(values.data[i * 16 + c] for i in range(7)) / 7 for c in range(16)]
            for got, want in zip(finite.data[:16], mean):
                self.assertAlmostEqual(got, want, places=5)


if __name__ == "__main__":
    unittest.main()
