"""GGUF files: what tests and benchmarks that write or read one share."""
import array
import struct

from tests.e2e.harness import Tensor

TEXT, U32, F32, BOOL, LIST = 8, 4, 6, 7, 9


def text(value):
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def value(item):
    if isinstance(item, bool):
        return struct.pack("<IB", BOOL, item)
    if isinstance(item, int):
        return struct.pack("<II", U32, item)
    if isinstance(item, float):
        return struct.pack("<If", F32, item)
    if isinstance(item, str):
        return struct.pack("<I", TEXT) + text(item)
    for kind, number, form in ((bool, BOOL, "?"), (int, U32, "I"), (float, F32, "f")):
        if item and isinstance(item[0], kind):
            return struct.pack(f"<IIQ{len(item)}{form}", LIST, number, len(item), *item)
    return struct.pack("<IIQ", LIST, TEXT, len(item)) + b"".join(map(text, item))


def header(values, tensors):
    """Everything before the data: `values` by key; of each tensor its name, its shape (outermost first), its type's number and its bytes."""
    infos, at = [], 0
    for name, shape, kind, size in tensors:
        infos.append(text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), kind, at))
        at += size + -size % 32
    begin = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(values)) + b"".join(text(key) + value(item) for key, item in values.items()) + b"".join(infos)
    return begin + b"\0" * (-len(begin) % 32)


def write_gguf(path, architecture, values, tensors):
    """Tensors in float32. `architecture`: None for what is no first part."""
    infos, data = [], b""
    for name, tensor in tensors.items():
        raw = array.array("f", tensor.data).tobytes()
        infos.append((name, tensor.shape, 0, len(raw)))
        data += raw + b"\0" * (-len(raw) % 32)
    path.write_bytes(header({**({"general.architecture": architecture} if architecture else {}), **values}, infos) + data)


def write_parts(folder, architecture, values, tensors, count=3):
    """The same in several parts, as llama-gguf-split cuts it; their paths."""
    folder.mkdir(exist_ok=True)
    paths = [folder / f"model-{i + 1:05}-of-{count:05}.gguf" for i in range(count)]
    for i, path in enumerate(paths):
        split = {"split.no": i, "split.count": count, "split.tensors.count": len(tensors)}
        write_gguf(path, None if i else architecture, split if i else values | split, {name: tensors[name] for name in list(tensors)[i::count]})
    return paths


class Reader:
    """A file of tensors in F32, F16 and Q8_0."""

    FORMATS = {0: ("F32", 1, "f"), 1: ("F16", 1, "e"), 8: ("Q8_0", 32, "e32b")}

    def __init__(self, path):
        self.bytes, self.at = path.read_bytes(), 8
        count, values = self.take("QQ")
        self.values = {}
        for _ in range(values):
            key = self.text()
            self.values[key] = self.value(*self.take("I"))
        self.begin = self.at  # of the tensors' table
        self.tensors = {}
        infos = [(self.text(), list(reversed(self.take(f"{self.take('I')[0]}Q"))), *self.take("IQ")) for _ in range(count)]
        data = self.at + -self.at % 32
        for name, shape, kind, offset in infos:
            self.tensors[name] = (*self.FORMATS[kind], shape, data + offset)

    def take(self, form):
        got = struct.unpack_from("<" + form, self.bytes, self.at)
        self.at += struct.calcsize("<" + form)
        return got

    def text(self):
        (length,) = self.take("Q")
        self.at += length
        return self.bytes[self.at - length : self.at].decode()

    def value(self, kind):
        if kind == TEXT:
            return self.text()
        if kind == LIST:
            of, count = self.take("IQ")
            return [self.value(of) for _ in range(count)]
        return self.take({0: "B", 1: "b", 2: "H", 3: "h", U32: "I", 5: "i", F32: "f", BOOL: "?", 10: "Q", 11: "q", 12: "d"}[kind])[0]

    def numbers(self, name):
        """A tensor in float32, decoded."""
        _, each, form, shape, self.at = self.tensors[name]
        count = 1
        for size in shape:
            count *= size
        blocks = (self.take(form) for _ in range(count // each))
        return Tensor("F32", shape, [block[0] * code for block in blocks for code in block[1:]] if each > 1 else [x for block in blocks for x in block])

    def contents(self):
        """The architecture, the other values, and all tensors in float32, as write_gguf takes them."""
        values = {key: value for key, value in self.values.items() if key != "general.architecture"}
        return self.values["general.architecture"], values, {name: self.numbers(name) for name in self.tensors}


BERT = {"bert.embeddings.word_embeddings": "token_embd", "bert.embeddings.position_embeddings": "position_embd", "bert.embeddings.token_type_embeddings": "token_types",
        "bert.embeddings.LayerNorm": "token_embd_norm", "attention.self.query": "attn_q", "attention.self.key": "attn_k", "attention.self.value": "attn_v",
        "attention.output.dense": "attn_output", "attention.output.LayerNorm": "attn_output_norm", "intermediate.dense": "ffn_up", "output.dense": "ffn_down",
        "output.LayerNorm": "layer_output_norm"}
NOMIC = {"nomic_bert.embeddings.word_embeddings": "token_embd", "nomic_bert.embeddings.token_type_embeddings": "token_types", "nomic_bert.emb_ln": "token_embd_norm",
         "attn.Wqkv": "attn_qkv", "attn.out_proj": "attn_output", "norm1": "attn_output_norm", "mlp.fc11": "ffn_up", "mlp.fc12": "ffn_gate", "mlp.fc2": "ffn_down",
         "norm2": "layer_output_norm"}


def name_of(name, names):
    words = name.split(".")
    ending = words.pop()
    layer = next((i for i, word in enumerate(words) if word.isdigit()), None)
    if layer is None:
        return f"{names['.'.join(words)]}.{ending}"
    return f"blk.{words[layer]}.{names['.'.join(words[layer + 1 :])]}.{ending}"


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
            tensors[name_of(name, names)] = tensor
    return architecture, values, tensors
