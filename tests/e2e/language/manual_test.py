"""The seed texts' hand-worked numbers (tests/data/seeds_numeric.json, recomputed in double precision there): every one that is tensor
algebra is computed by a spec of examples/manual, through the interpreter and through a compiled program.

Each row of STEPS names an entry, the function that computes it, and how the entry's inputs become the function's."""
import json
import math
import unittest

from tests.e2e.harness import DATA, EXAMPLES, Case, Tensor, ints, reals, write_safetensors

ENTRIES = {(e["seed"][:3], e["section"], e["name"]): e for e in json.loads((DATA / "seeds_numeric.json").read_text())}
NINE, AI = "9 Numerical worked example, step ", "8.1 Numeric example 'AI loves math', step "
MASKED = "9 Numerical worked example with the mask of section 3.3"
NORM, FFN, CROSS, LAST = "Step 2.2 Norm", "Step 2.3 FFN", "Step 3.2 Cross-Attention", "Phase 4 Output"
EYE = [[1.0, 0.0], [0.0, 1.0]]

# Attention: (seed, section, name, function). The inputs are the words 0, 1, 2; the matrices are the weights.
ATTENTION = [
    ("000", NINE + "1", "Q = X W_Q", "query"),
    ("000", NINE + "2", "K = X W_K", "key"),
    ("000", NINE + "3", "V = X W_V", "value"),
    ("000", NINE + "4", "S = Q K^T", "scores"),
    ("000", NINE + "5", "scaled scores S / sqrt(d_head)", "scaled"),
    ("000", NINE + "6", "scores minus row maximum", "shifted"),
    ("000", NINE + "6", "exponentials", "exponentials"),
    ("000", NINE + "6", "sums of exponentials", "sums"),
    ("000", NINE + "6", "attention matrix A", "weights"),
    ("000", NINE + "7", "output A V", "everywhere"),
    ("000", MASKED, "attention matrix, causal", "causal_weights"),
    ("000", MASKED, "output, causal", "forward"),
    ("004", AI + "1", "Q K^T", "scores"),
    ("004", AI + "2", "scaled scores", "scaled"),
    ("004", AI + "3", "attention weights", "weights"),
    ("004", AI + "4", "output A V", "everywhere"),
]
MATRICES = {
    "000": {"X": ENTRIES["000", NINE + "1", "Q = X W_Q"]["inputs"]["X"], "W_Q": ENTRIES["000", NINE + "1", "Q = X W_Q"]["inputs"]["W_Q"],
            "W_K": ENTRIES["000", NINE + "2", "K = X W_K"]["inputs"]["W_K"], "W_V": ENTRIES["000", NINE + "3", "V = X W_V"]["inputs"]["W_V"]},
    "004": {"X": ENTRIES["004", AI + "1", "Q K^T"]["inputs"]["X"], "W_Q": EYE, "W_K": EYE, "W_V": EYE},
}


def finite(rows):
    """Scores (strings in the file, as JSON has no infinity) with the masked ones, -inf, set to 0."""
    return [[0.0 if math.isinf(float(x)) else float(x) for x in row] for row in rows]


def seen(rows):
    return Tensor("BOOL", [1, len(rows), len(rows[0])], [int(math.isfinite(float(x))) for row in rows for x in row])


# The article: (section, name, function, inputs from the entry's inputs, W_2). One row, so every shape gets a leading 1.
ZERO = [[0.0] * 5] * 2
ARTICLE = [
    ("Step 1.2 Positional Encoding", "embedding + position vector", "add", lambda i: {"a": reals([i["embedding"]]), "b": reals([i["position"]])}, ZERO),
    ("Step 1.2 Positional Encoding", "sinusoidal encoding of position 1, d_model 2", "position", lambda i: {"at": ints([[i["position"]]])}, ZERO),
    ("Step 2.2 Add", "residual sum", "add", lambda i: {"a": reals([i["attention"]]), "b": reals([i["x"]])}, ZERO),
    (NORM, "mean", "mean_of", lambda i: {"x": reals([i["x"]])}, ZERO),
    (NORM, "x - mean", "centred", lambda i: {"x": reals([i["x"]])}, ZERO),
    (NORM, "standard deviation (population)", "deviation", lambda i: {"x": reals([i["x"]])}, ZERO),
    (NORM, "normalised", "normalised", lambda i: {"x": reals([i["x"]])}, ZERO),
    (NORM, "normalised with eps 1e-5", "normalised_eps", lambda i: {"x": reals([i["x"]])}, ZERO),
    (FFN, "ReLU", "rectified", lambda i: {"hidden": reals([i["expanded"]])}, ZERO),
    (FFN, "terms of output 0", "terms", lambda i: {"hidden": reals([[i["relu"]]])}, lambda i: [i["W_2_row_1"], [0.0] * 5]),
    (FFN, "output 0", "narrowed", lambda i: {"hidden": reals([[i["relu"]]])}, lambda i: [i["W_2_row_1"], [0.0] * 5]),
    (FFN, "terms of output 1", "terms", lambda i: {"hidden": reals([[i["relu"]]])}, lambda i: [i["W_2_row_2"], [0.0] * 5]),
    (FFN, "output 1", "narrowed", lambda i: {"hidden": reals([[i["relu"]]])}, lambda i: [i["W_2_row_2"], [0.0] * 5]),
    ("Step 3.1 Masked Self-Attention", "softmax of the masked scores", "masked",
     lambda i: {"score": reals([finite(i["scores"])]), "mask": seen(i["scores"])}, ZERO),
    (CROSS, "Q(Je) . K(I)", "match", lambda i: {"query": reals([[i["q"]]]), "key": reals([[i["k"]]])}, ZERO),
    (CROSS, "Q(Je) . K(love)", "match", lambda i: {"query": reals([[i["q"]]]), "key": reals([[i["k"]]])}, ZERO),
    (CROSS, "exponentials", "raised", lambda i: {"score": reals([i["scores"]])}, ZERO),
    (CROSS, "sum of exponentials", "total", lambda i: {"score": reals([i["scores"]])}, ZERO),
    (CROSS, "weights", "choice", lambda i: {"score": reals([i["scores"]])}, ZERO),
    (CROSS, "output", "mixed", lambda i: {"score": reals([[math.log(w) for w in i["weights"]]]), "value": reals([i["V"]])}, ZERO),
    (CROSS, "weights with the scale 1/sqrt(2)", "choice_scaled", lambda i: {"score": reals([i["scores"]])}, ZERO),
    (LAST, "exponentials of the logits", "raised", lambda i: {"score": reals([i["logits"]])}, ZERO),
    (LAST, "sum", "total", lambda i: {"score": reals([i["logits"]])}, ZERO),
    (LAST, "probabilities", "choice", lambda i: {"score": reals([i["logits"]])}, ZERO),
]


def flat(value):
    return [x for v in value for x in flat(v)] if isinstance(value, list) else [value]


class Manual(Case):
    def check(self, entry, spec, program, function, inputs, width=None):
        """Both ways against the entry. `width`: how many leading numbers of the result the text works out."""
        want = flat(entry["recomputed"])
        interpreted = self.interpret(spec, self.weights, inputs, *self.options, "--function", function)
        compiled = self.evaluate(program, self.weights, inputs, "--function", function)
        for how, result in (("interpreted", interpreted), ("compiled", compiled)):
            (got,) = result.values()
            self.assertEqual(len(got.data) if width is None else width, len(want), how)
            for x, y in zip(got.data, want):
                self.assertLess(abs(x - y), 2e-6 * max(1, abs(y)), f"{how}: {entry['name']}")

    def attention(self, seed):
        spec, matrices = EXAMPLES / "manual" / "attention.quern", MATRICES[seed]
        self.weights = self.scratch / f"{seed}.safetensors"
        write_safetensors(self.weights, {name: reals(rows) for name, rows in matrices.items()})
        self.options = ["--set", f"width={len(matrices['X'][0])}"]
        program = self.compile(spec, *self.options, name=f"attention{seed}")
        for of, section, name, function in ATTENTION:
            if of == seed:
                with self.subTest(name):
                    words = ints([[0, 1, 2]])
                    inputs = {"tokens": words, "keys": words}
                    if function in ("query", "key", "value", "everywhere", "forward"):
                        del inputs["keys"]
                    self.check(ENTRIES[seed, section, name], spec, program, function, inputs)

    def test_zero_to_hero(self):
        self.attention("000")

    def test_ai_loves_math(self):
        self.attention("004")

    def test_article(self):
        spec = EXAMPLES / "manual" / "article.quern"
        self.options = []
        program = self.compile(spec, name="article")
        self.weights = self.scratch / "article.safetensors"
        for section, name, function, inputs, matrix in ARTICLE:
            with self.subTest(name):
                entry = ENTRIES["003", section, name]
                rows = matrix(entry["inputs"]) if callable(matrix) else matrix
                write_safetensors(self.weights, {"W_2": reals(rows), "logits": reals([4.5, 2.1, 1.2])})
                width = len(flat(entry["recomputed"])) if function in ("terms", "narrowed") else None
                self.check(entry, spec, program, function, inputs(entry["inputs"]), width)

    def test_even_guess(self):
        """ln 5000 is the loss of a model that knows nothing: mini_transformer with all weights zero has it at every position."""
        entry = ENTRIES["004", "Build your own mini transformer, step 7", "loss of an even guess, ln 5000"]
        parameters = {"embed.weight": [5000, 128], "norm.weight": [128], "norm.bias": [128], "head.weight": [5000, 128], "head.bias": [5000]}
        for i in range(2):
            for part in ("q", "k", "v", "out"):
                parameters[f"layers.{i}.attn.{part}.weight"], parameters[f"layers.{i}.attn.{part}.bias"] = [128, 128], [128]
            parameters[f"layers.{i}.ff.net.0.weight"], parameters[f"layers.{i}.ff.net.0.bias"] = [256, 128], [256]
            parameters[f"layers.{i}.ff.net.2.weight"], parameters[f"layers.{i}.ff.net.2.bias"] = [128, 256], [128]
            for norm in ("norm1", "norm2"):
                parameters[f"layers.{i}.{norm}.weight"], parameters[f"layers.{i}.{norm}.bias"] = [128], [128]
        count = ENTRIES["004", "Build your own mini transformer, step 6", "parameters of MiniTransformer(vocab_size=5000)"]["recomputed"]
        self.assertEqual(sum(math.prod(shape) for shape in parameters.values()), count)
        weights = self.scratch / "zero.safetensors"
        write_safetensors(weights, {n: Tensor("F32", shape, [0.0] * math.prod(shape)) for n, shape in parameters.items()})
        program = self.compile(EXAMPLES / "manual" / "mini_transformer.quern", name="mini")  # accepts exactly these tensors
        logits = self.evaluate(program, weights, {"tokens": ints([[1, 2, 3]])})["logits"]
        row = logits.data[:5000]
        self.assertAlmostEqual(math.log(sum(math.exp(x) for x in row)) - row[7], entry["recomputed"], 5)


if __name__ == "__main__":
    unittest.main()
