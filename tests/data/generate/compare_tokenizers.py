"""Quern's tokenizers beside Hugging Face's `tokenizers` on mixed-script text (mixed_text.py): prints the differences, which should be none.

    python compare_tokenizers.py [--bytes 10000000] [--seed 1] [--program build/tests/quern_tokenize] [--trained FOLDER] [TOKENIZER.json ...]

Without names: those of tests/data and examples. A .model is compared with the sentencepiece library, a .tiktoken with tiktoken (special tokens in the text left out, as these
libraries do not look for them); tokenizer_config.json lies beside it. --trained also makes larger ones of that text in FOLDER (byte-level BPE of 32,000 tokens with the splitting of GPT-2, Llama 3, Qwen 2
and o200k, Unigram, WordPiece) and compares those. Needs: pip install tokenizers sentencepiece tiktoken.
"""
import argparse
import array
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("RAYON_NUM_THREADS", "1")

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from mixed_text import documents

ROOT = Path(__file__).resolve().parents[3]
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace("{1,3}", "")
O200K = "|".join([r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
                  r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?", r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
                  r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])


def trained(folder, texts):
    """Paths of tokenizers that are larger than the fixtures, made of the text once."""
    folder.mkdir(parents=True, exist_ok=True)

    def make(name, model, trainer, splitter, normalizer=None, decoder=None, texts=texts):
        path = folder / f"{name}.json"
        if not path.exists():
            t = Tokenizer(model)
            t.pre_tokenizer = splitter
            if normalizer:
                t.normalizer = normalizer
            t.decoder = decoder or decoders.ByteLevel()
            t.train_from_iterator(texts, trainer)
            t.save(str(path))
        return path

    split = lambda pattern: pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    bytes_of = lambda size: trainers.BpeTrainer(vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=["<|endoftext|>"], show_progress=False, max_token_length=64)
    yield make("gpt2", models.BPE(), bytes_of(32000), pre_tokenizers.ByteLevel(add_prefix_space=False))
    yield make("llama3", models.BPE(ignore_merges=True), bytes_of(32000), split(LLAMA3))
    yield make("qwen2", models.BPE(), bytes_of(32000), split(QWEN2), normalizers.NFC())
    yield make("o200k", models.BPE(), bytes_of(32000), split(O200K))
    low = ["".join(c for c in text if c < "\u0600") for text in texts]  # every character needs a piece
    metaspace = dict(splitter=pre_tokenizers.Metaspace(), decoder=decoders.Metaspace())
    yield make("unigram", models.Unigram(), trainers.UnigramTrainer(vocab_size=8000, unk_token="<unk>", special_tokens=["<unk>"], show_progress=False), normalizer=normalizers.NFKC(), texts=low, **metaspace)
    yield make("wordpiece", models.WordPiece(unk_token="[UNK]"), trainers.WordPieceTrainer(vocab_size=30000, special_tokens=["[UNK]", "[CLS]", "[SEP]"], show_progress=False),
               pre_tokenizers.BertPreTokenizer(), normalizers.BertNormalizer(), decoders.WordPiece())


def results(path):
    data, at = path.read_bytes(), 0
    while at < len(data):
        (count,) = struct.unpack_from("<I", data, at)
        ids = array.array("i", data[at + 4:at + 4 + 4 * count]).tolist()
        at += 4 + 4 * count
        (length,) = struct.unpack_from("<I", data, at)
        yield ids, data[at + 4:at + 4 + length].decode("utf-8")
        at += 4 + length


def unmarked(text):
    """Without the special tokens that mixed_text.py writes."""
    return re.sub(r"</?(s|pad|unk)>|<.endoftext.>", "", text)


class Own:
    """The library of a vocabulary file, with the calls of `tokenizers` that are needed here."""

    def __init__(self, path):
        if path.suffix == ".model":
            import sentencepiece
            self.library = sentencepiece.SentencePieceProcessor(model_file=str(path))
            self.ids, self.id_to_token = self.library.encode, self.library.id_to_piece
        else:
            from tiktoken import Encoding
            from tiktoken.load import load_tiktoken_bpe
            pattern = json.loads((path.parent / "tokenizer_config.json").read_text())["pat_str"]
            self.library = Encoding(path.stem, pat_str=pattern, mergeable_ranks=load_tiktoken_bpe(str(path)), special_tokens={})
            self.ids, self.id_to_token = self.library.encode_ordinary, self.library.decode_single_token_bytes

    def encode(self, text, add_special_tokens=False):
        return argparse.Namespace(ids=self.ids(text))

    def decode(self, ids, skip_special_tokens=False):
        return self.library.decode(ids) if hasattr(self.library, "encode_ordinary") else None  # SentencePiece shows unknown pieces as " \u2047 "

    def no_truncation(self):
        pass

    no_padding = no_truncation


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", type=Path)
    parser.add_argument("--bytes", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--program", type=Path, default=ROOT / "build/tests/quern_tokenize")
    parser.add_argument("--trained", type=Path)
    options = parser.parse_args()
    texts = list(documents(options.bytes, options.seed))
    names = options.names or sorted(ROOT.glob("tests/data/**/tokenizer.json")) + sorted(ROOT.glob("examples/**/tokenizer.json")) + sorted(ROOT.glob("build/minilm/*/model/tokenizer.json"))
    names += trained(options.trained, texts) if options.trained else []
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        given, plain, got = Path(folder, "texts"), Path(folder, "unmarked"), Path(folder, "result")
        bare = [unmarked(text) for text in texts]
        for path, some in ((given, texts), (plain, bare)):
            path.write_bytes(b"".join(struct.pack("<I", len(data)) + data for data in (text.encode() for text in some)))
        for name in names:
            subprocess.run([options.program, name, plain if name.suffix in (".model", ".tiktoken") else given, got], check=True)
            own = name.suffix in (".model", ".tiktoken")
            reference = Own(name) if own else Tokenizer.from_file(str(name))
            reference.no_truncation()
            reference.no_padding()
            ids = decoded = tokens = 0
            for text, (ours, back) in zip(bare if own else texts, results(got), strict=True):
                theirs = reference.encode(text, add_special_tokens=False).ids
                tokens += len(theirs)
                if ours != theirs:
                    ids += 1
                    if ids <= 3:
                        at = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
                        show = lambda ids: [reference.id_to_token(i) for i in ids[max(0, at - 2):at + 6]]
                        print(f"    at token {at}: quern {show(ours)}, tokenizers {show(theirs)}; before: {[reference.id_to_token(i) for i in theirs[max(0, at - 8):at]]}")
                elif (want := reference.decode(theirs, skip_special_tokens=False)) is not None and back != want:
                    decoded += 1
                    if decoded <= 2:
                        at = next((i for i, (a, b) in enumerate(zip(back, want)) if a != b), min(len(back), len(want)))
                        print(f"    decoded, at {at}: quern {back[max(0, at - 10):at + 20]!r}, tokenizers {want[max(0, at - 10):at + 20]!r}")
            wrong += ids + decoded
            print(f"{name}: {len(texts)} texts, {tokens} tokens; {ids} texts differ in tokens, {decoded} when decoded", flush=True)
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
