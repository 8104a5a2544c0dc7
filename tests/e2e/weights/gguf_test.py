"""GGUF files as checkpoints: the golden models again, from files that this test writes in llama.cpp's conventions.

`convert` does what llama.cpp's converter does to each architecture; it knows nothing of the reader under test. The llama
with a vocabulary is a golden file of the package gguf, which transformers' reader agrees with."""
import array
import json
import math
import struct
import unittest

from tests.e2e.weights.gguf_file import header
from tests.e2e.harness import DATA, QUERN, Case, Tensor, read_safetensors, relative_error, run

FIXTURE = DATA / "formats" / "llama-gguf"
COMPILED = 5e-5


def halves(tensor):
    return struct.pack(f"<{len(tensor.data)}e", *tensor.data)


def q8_0(tensor):
    out = []
    for at in range(0, len(tensor.data), 32):
        row = tensor.data[at : at + 32]
        scale = max(map(abs, row)) / 127
        out.append(struct.pack("<e32b", scale, *(round(x / scale) if scale else 0 for x in row)))
    return b"".join(out)


def write_gguf(path, architecture, values, tensors, coded=False):
    """`coded`: matrices as Q8_0 where their rows allow it, else F16; vectors stay F32."""
    infos, data = [], b""
    for name, tensor in tensors.items():
        kind, raw = 0, array.array("f", tensor.data).tobytes()
        if coded and len(tensor.shape) > 1:
            kind, raw = (8, q8_0(tensor)) if tensor.shape[-1] % 32 == 0 else (1, halves(tensor))
        infos.append((name, tensor.shape, kind, len(raw)))
        data += raw + b"\0" * (-len(raw) % 32)
    path.write_bytes(header({"general.architecture": architecture, **values}, infos) + data)


def rows(tensor, order):
    width = math.prod(tensor.shape[1:])
    return Tensor("F32", tensor.shape, [x for r in order for x in tensor.data[r * width : (r + 1) * width]])


def pairs(tensor, heads):
    """Rows (half, j) of a head become (j, half)."""
    width = tensor.shape[0] // heads
    return rows(tensor, [h * width + half * (width // 2) + j for h in range(heads) for j in range(width // 2) for half in range(2)])


def thirds(tensor, heads):
    """A query, key and value a head become all queries, all keys, all values."""
    width = tensor.shape[0] // heads // 3
    return rows(tensor, [h * 3 * width + part * width + j for part in range(3) for h in range(heads) for j in range(width)])


def transposed(tensor):
    height, width = tensor.shape
    return Tensor("F32", [width, height], [tensor.data[i * width + j] for j in range(width) for i in range(height)])


def plus_one(tensor):
    return Tensor("F32", tensor.shape, [x + 1 for x in tensor.data])


LLAMA = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output", "input_layernorm": "attn_norm",
         "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "self_attn.qkv_proj": "attn_qkv", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "mlp.gate_up_proj": "ffn_up", "mlp.c_fc": "ffn_up",
         "mlp.c_proj": "ffn_down", "block_sparse_moe.gate": "ffn_gate_inp", "w1": "ffn_gate_exps", "w2": "ffn_down_exps", "w3": "ffn_up_exps"}
GEMMA3 = LLAMA | {"post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm"}
GPT2 = {"transformer.wte": "token_embd", "transformer.wpe": "position_embd", "transformer.ln_f": "output_norm", "ln_1": "attn_norm", "ln_2": "ffn_norm",
        "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}
BLOOM = {"transformer.word_embeddings": "token_embd", "transformer.word_embeddings_layernorm": "token_embd_norm", "transformer.ln_f": "output_norm",
         "input_layernorm": "attn_norm", "self_attention.query_key_value": "attn_qkv", "self_attention.dense": "attn_output",
         "post_attention_layernorm": "ffn_norm", "mlp.dense_h_to_4h": "ffn_up", "mlp.dense_4h_to_h": "ffn_down"}
NEOX = BLOOM | {"gpt_neox.embed_in": "token_embd", "gpt_neox.final_layer_norm": "output_norm", "embed_out": "output",
                "attention.query_key_value": "attn_qkv", "attention.dense": "attn_output"}
MPT = {"transformer.wte": "token_embd", "transformer.norm_f": "output_norm", "norm_1": "attn_norm", "norm_2": "ffn_norm", "attn.Wqkv": "attn_qkv",
       "attn.out_proj": "attn_output", "ffn.up_proj": "ffn_up", "ffn.down_proj": "ffn_down"}
BERT = {"bert.embeddings.word_embeddings": "token_embd", "bert.embeddings.position_embeddings": "position_embd", "bert.embeddings.token_type_embeddings": "token_types",
        "bert.embeddings.LayerNorm": "token_embd_norm", "attention.self.query": "attn_q", "attention.self.key": "attn_k", "attention.self.value": "attn_v",
        "attention.output.dense": "attn_output", "attention.output.LayerNorm": "attn_output_norm", "intermediate.dense": "ffn_up", "output.dense": "ffn_down",
        "output.LayerNorm": "layer_output_norm"}
NOMIC = {"nomic_bert.embeddings.word_embeddings": "token_embd", "nomic_bert.embeddings.token_type_embeddings": "token_types", "nomic_bert.emb_ln": "token_embd_norm",
         "attn.Wqkv": "attn_qkv", "attn.out_proj": "attn_output", "norm1": "attn_output_norm", "mlp.fc11": "ffn_up", "mlp.fc12": "ffn_gate", "mlp.fc2": "ffn_down",
         "norm2": "layer_output_norm"}
# Fixture: spec, architecture in GGUF, names, what is not in the file.
MODELS = {
    "llama": ("llama", "llama", LLAMA, []),
    "llama3-rope-scaling": ("llama", "llama", LLAMA, []),
    "mistral": ("mistral", "llama", LLAMA, ["--set", "sliding_window=6"]),
    "mixtral": ("mixtral", "llama", LLAMA, []),
    "qwen2": ("qwen2", "qwen2", LLAMA, []),
    "smollm3": ("smollm3", "smollm3", LLAMA, []),
    "cohere": ("cohere", "command-r", LLAMA, []),
    "gemma": ("gemma", "gemma", LLAMA, []),
    "gemma3-text": ("gemma", "gemma3", GEMMA3, ["--set", "sliding_window_pattern=3", "--set", "query_pre_attn_scalar=20"]),
    "phi3": ("phi3", "phi3", LLAMA, []),
    "phi3-longrope": ("phi3", "phi3", LLAMA, []),
    "stablelm": ("stablelm", "stablelm", LLAMA, []),
    "starcoder2": ("starcoder2", "starcoder2", LLAMA, ["--set", "sliding_window=7"]),
    "gpt2": ("gpt2", "gpt2", GPT2, []),
    "gpt-bigcode": ("gpt_bigcode", "starcoder", GPT2, []),
    "bloom": ("bloom", "bloom", BLOOM, []),
    "gpt-neox": ("gpt_neox", "gptneox", NEOX, []),
    "mpt": ("mpt", "mpt", MPT, []),
}


def name_of(name, names):
    """GGUF's name; for experts also which."""
    words = name.split(".")
    ending = words.pop()
    layer = next((i for i, word in enumerate(words) if word.isdigit()), None)
    if layer is None:
        return f"{names['.'.join(words)]}.{ending}", None
    number, words = words[layer], words[layer + 1 :]
    if "experts" in words:
        return f"blk.{number}.{names[words[-1]]}.{ending}", int(words[-2])
    return f"blk.{number}.{names['.'.join(words)]}.{ending}", None


def convert(fixture):
    """The values and tensors of the golden model as llama.cpp's converter writes them."""
    _, architecture, names, _ = MODELS[fixture]
    config = json.loads((DATA / fixture / "config.json").read_text())
    read = lambda *keys: next((config[k] for k in keys if config.get(k) is not None), None)
    heads = read("num_attention_heads", "n_head", "n_heads")
    keys = read("num_key_value_heads") or (1 if read("multi_query") else heads)
    width = read("hidden_size", "n_embd", "d_model")
    inner = read("intermediate_size", "n_inner", "ffn_dim") or width * (read("expansion_ratio") or 4)
    rope = read("rope_parameters") or {}
    layered = rope.get("full_attention", rope)
    values = {"context_length": read("max_position_embeddings", "n_positions", "max_seq_len") or 64, "embedding_length": width, "feed_forward_length": inner,
              "block_count": read("num_hidden_layers", "n_layer", "n_layers"), "attention.head_count": heads}
    if architecture not in ("gpt2", "bloom", "mpt", "gptneox"):
        values["attention.head_count_kv"] = keys
    if read("rms_norm_eps"):
        values["attention.layer_norm_rms_epsilon"] = read("rms_norm_eps")
    else:
        values["attention.layer_norm_epsilon"] = read("layer_norm_eps", "norm_epsilon", "layer_norm_epsilon") or 1e-5
    head = read("head_dim") or width // heads
    if read("head_dim"):
        values["attention.key_length"] = head
    tensors, stacks = {}, {}
    if layered:
        values["rope.freq_base"] = float(layered["rope_theta"])
        part = layered.get("partial_rotary_factor") or read("partial_rotary_factor") or 1
        values["rope.dimension_count"] = int(head * part)
    kind = layered.get("rope_type", "default")
    if kind == "linear":
        values |= {"rope.scaling.type": "linear", "rope.scaling.factor": float(layered["factor"])}
    if kind == "longrope":
        values["rope.scaling.original_context_length"] = layered.get("original_max_position_embeddings") or read("original_max_position_embeddings")
        for length in ("long", "short"):
            factors = layered[f"{length}_factor"]
            tensors[f"rope_factors_{length}.weight"] = Tensor("F32", [len(factors)], factors)
    if kind == "llama3":
        divisors = []
        for i in range(head // 2):
            wave = 2 * math.pi * layered["rope_theta"] ** (i / (head // 2))
            smooth = (layered["original_max_position_embeddings"] / wave - layered["low_freq_factor"]) / (layered["high_freq_factor"] - layered["low_freq_factor"])
            smooth = min(1, max(0, smooth))
            divisors.append(1 / ((1 - smooth) / layered["factor"] + smooth))
        tensors["rope_freqs.weight"] = Tensor("F32", [len(divisors)], divisors)
    if architecture == "gemma3":
        values |= {"attention.sliding_window": read("sliding_window")}
    if read("num_local_experts"):
        values |= {"expert_count": read("num_local_experts"), "expert_used_count": read("num_experts_per_tok")}
    if read("logit_scale"):
        values["logit_scale"] = read("logit_scale")
    if "use_parallel_residual" in config:
        values["use_parallel_residual"] = config["use_parallel_residual"]
    if architecture == "mpt":
        values["attention.max_alibi_bias"] = float(config["attn_config"]["alibi_bias_max"])
    for name, tensor in read_safetensors(DATA / fixture / "model.safetensors").items():
        if architecture in ("llama", "smollm3") and ".q_proj." in name:
            tensor = pairs(tensor, heads)
        if architecture in ("llama", "smollm3") and ".k_proj." in name:
            tensor = pairs(tensor, keys)
        if architecture in ("bloom", "gptneox") and ".query_key_value." in name:
            tensor = thirds(tensor, heads)
        if architecture.startswith("gemma") and name.endswith("norm.weight"):
            tensor = plus_one(tensor)
        if architecture == "gpt2" and len(tensor.shape) == 2 and ".h." in name:
            tensor = transposed(tensor)
        stored, expert = name_of(name, names)
        if expert is None:
            tensors[stored] = tensor
        else:
            stacks.setdefault(stored, {})[expert] = tensor
    for stored, experts in stacks.items():
        ordered = [experts[i] for i in range(len(experts))]
        tensors[stored] = Tensor("F32", [len(ordered), *ordered[0].shape], [x for e in ordered for x in e.data])
    return architecture, {f"{architecture}.{k}": v for k, v in values.items()}, tensors


def sentence_encoder(config, weights, words, pooling):
    """The values and tensors of a BERT without its head, as llama.cpp's converter writes a sentence encoder."""
    values = {"context_length": config["max_position_embeddings"], "embedding_length": config["hidden_size"], "feed_forward_length": config["intermediate_size"],
              "block_count": config["num_hidden_layers"], "attention.head_count": config["num_attention_heads"], "attention.layer_norm_epsilon": config["layer_norm_eps"],
              "attention.causal": False, "pooling_type": pooling}
    nomic = config["model_type"] == "nomic_bert"
    architecture, prefix, names = ("nomic-bert", "nomic_bert.", NOMIC) if nomic else ("bert", "bert.", BERT)
    if nomic:
        values["rope.freq_base"] = float(config["rope_parameters"]["rope_theta"])
    values = {f"{architecture}.{k}": v for k, v in values.items()}
    if words:  # the mark of a word's begin instead of one of its continuation
        special = [word.startswith("[") and word.endswith("]") for word in words]
        values |= {"tokenizer.ggml.model": "bert", "tokenizer.ggml.token_type": [3 if s else 1 for s in special],
                   "tokenizer.ggml.tokens": [w if s else w[2:] if w.startswith("##") else "\u2581" + w for w, s in zip(words, special)]}
    tensors = {}
    for name, tensor in weights.items():
        name = name if name.startswith((prefix, "cls.")) else prefix + name
        if not name.startswith("cls.") and "pooler" not in name and not name.endswith("position_ids"):
            tensors[name_of(name, names)[0]] = tensor
    return architecture, values, tensors


class Architectures(Case):
    def check(self, fixture):
        spec, *_, options = MODELS[fixture]
        path = self.scratch / f"{fixture}.gguf"
        write_gguf(path, *convert(fixture))
        expected = read_safetensors(DATA / fixture / "expected.safetensors")
        program = self.compile(spec, "--weights", path, *options, name=fixture)
        got = self.evaluate(program, path, {"tokens": expected["input_ids"]})["logits"]
        self.assertLess(relative_error(got, expected["logits"]), COMPILED)


for fixture in MODELS:
    setattr(Architectures, f"test_{fixture.replace('-', '_')}", lambda self, fixture=fixture: self.check(fixture))


class Codes(Case):
    """Blocks of codes: what a program computes is what the interpreter computes of the same file."""

    def check(self, fixture):
        spec, *_, options = MODELS[fixture]
        path = self.scratch / "coded.gguf"
        write_gguf(path, *convert(fixture), coded=True)
        inputs = {"tokens": read_safetensors(DATA / fixture / "expected.safetensors")["input_ids"]}
        program = self.compile(spec, "--weights", path, *options)
        want = self.interpret(spec, path, inputs, "--config", path, *options)["logits"]
        got = self.evaluate(program, path, inputs)["logits"]
        self.assertLess(relative_error(got, want), COMPILED)

    def test_rows_as_they_lie(self):
        self.check("phi3")

    def test_rows_in_pairs_and_stacked_experts(self):
        self.check("mixtral")

    def test_transposed(self):
        self.check("gpt2")


class Golden(Case):
    """A llama with a vocabulary, as the package gguf writes it."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.expected = read_safetensors(FIXTURE / "expected.safetensors")
        cls.program = cls.compile("llama", "--weights", FIXTURE / "model-f16.gguf")

    def test_logits_and_greedy_tokens(self):
        for kind in ("f16", "q8_0"):
            weights = FIXTURE / f"model-{kind}.gguf"
            got = self.evaluate(self.program, weights, {"tokens": self.expected["input_ids"]})["logits"]
            self.assertLess(relative_error(got, self.expected[f"logits.{kind}"]), COMPILED, kind)
            for row, want in zip(self.expected["input_ids"].rows(), self.expected[f"generated.{kind}"].rows()):
                self.assertEqual(self.generate(self.program, weights, row[:5], len(want), "--eos", "ignore"), want, kind)

    def test_text_by_the_file_s_own_vocabulary(self):
        """The prompt's tokens are those of the same vocabulary as tokenizer.json."""
        weights, words = FIXTURE / "model-q8_0.gguf", DATA / "tokenizers" / "llama2-spm" / "tokenizer.json"
        own = run(self.program, "generate", "--weights", weights, "-p", "The compiler", "-n", 12, "--temp", 0, "--json").out
        given = run(self.program, "generate", "--weights", weights, "--tokenizer", words, "-p", "The compiler", "-n", 12, "--temp", 0, "--json").out
        self.assertEqual(json.loads(own)["tokens"], json.loads(given)["tokens"])
        self.assertEqual(json.loads(own)["text"], json.loads(given)["text"])

    def test_embedded(self):
        program = self.compile("llama", "--weights", FIXTURE / "model-q8_0.gguf", "--embed-weights", name="whole")
        self.assertTrue(json.loads(run(program, "info", "--json").out)["carries_tokenizer"])
        beside = run(self.program, "generate", "--weights", FIXTURE / "model-q8_0.gguf", "-p", "The compiler", "-n", 8, "--temp", 0).out
        self.assertEqual(run(program, "generate", "-p", "The compiler", "-n", 8, "--temp", 0).out, beside)

    def test_refusals(self):
        cut = self.scratch / "cut.gguf"
        cut.write_bytes((FIXTURE / "model-f16.gguf").read_bytes()[:-1000])
        self.assert_refused(run(self.program, "generate", "--weights", cut, "-p", "x", status=1), "cut.gguf", "cut short")
        self.assert_refused(self.compile("gpt2", "--weights", cut, status=1), "cut.gguf", "cut short")
        other = self.scratch / "other.gguf"
        write_gguf(other, "klingon", {}, {})
        self.assert_refused(run(self.program, "generate", "--weights", other, "--tokens", "1", status=1), "klingon", "llama")


if __name__ == "__main__":
    unittest.main()
