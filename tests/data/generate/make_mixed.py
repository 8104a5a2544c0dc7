"""Writes tests/data/tokenizers/mixed.json: mixed-script texts and checksums of what the reference libraries make of them.

    texts      200 KB of mixed_text.py, without files of this machine
    tokens     for each tokenizer of tests/data and examples: CRC-32 of each text's tokens (int32, little endian) without special ones
    splits     for each pattern that is split by hand: of the lengths of each text's words (int32, in bytes)
    normalized for each normalizer: of all characters below U+20000, three times: alone, between marks, behind a letter and a mark (see PLACES)

    files      for each tokenizer.model: of what sentencepiece, or for ranks tiktoken, makes of the texts without marks of special tokens
               (llama3-ranks is made of llama3-bpe's vocabulary)

Needs: pip install tokenizers sentencepiece tiktoken.
"""
import array
import base64
import json
import zlib

from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers

from compare_tokenizers import LLAMA3, O200K, QWEN2, ROOT, unmarked
from mixed_text import documents

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
TEKKEN = O200K.replace("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "").replace("{1,3}", "")
PLACES = ["\n{}\n", "a{}\u0301\u0334", "\u1100\u0345{}"]
NORMALIZERS = {"NFD": normalizers.NFD(), "NFKD": normalizers.NFKD(), "NFC": normalizers.NFC(), "NFKC": normalizers.NFKC(), "Lowercase": normalizers.Lowercase(),
               "BertNormalizer": normalizers.BertNormalizer(), "Nmt": normalizers.Nmt(), "StripAccents": normalizers.StripAccents()}


def checksum(numbers):
    return zlib.crc32(array.array("i", numbers).tobytes())


def byte_of():
    """GPT-2's characters that stand for bytes."""
    plain = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + i): byte for i, byte in enumerate(others)}


def own_files(texts):
    import sentencepiece
    import tiktoken

    folder = ROOT / "tests/data/tokenizers"
    for name in ("llama2-spm", "t5-unigram"):
        library = sentencepiece.SentencePieceProcessor(model_file=str(folder / name / "tokenizer.model"))
        yield name, [checksum(library.encode(text)) for text in texts]
    vocabulary = json.loads((folder / "llama3-bpe/tokenizer.json").read_text())["model"]["vocab"]
    ranks = {bytes(map(byte_of().get, token)): rank for token, rank in vocabulary.items() if token != "\u0120Emoji"}
    (folder / "llama3-ranks").mkdir(exist_ok=True)
    (folder / "llama3-ranks/config.json").write_text('{"model_type": "llama"}\n')
    (folder / "llama3-ranks/tokenizer.model").write_text("".join(f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in sorted(ranks.items(), key=lambda item: item[1])))
    library = tiktoken.Encoding("llama3", pat_str=LLAMA3, mergeable_ranks=ranks, special_tokens={})
    yield "llama3-ranks", [checksum(library.encode_ordinary(text)) for text in texts]


def main():
    texts = list(documents(200_000, seed=3, found=False))
    result = {"texts": texts, "tokens": {}, "splits": {}, "normalized": {}}
    for path in sorted(ROOT.glob("tests/data/*/tokenizer.json")) + sorted(ROOT.glob("tests/data/tokenizers/*/tokenizer.json")) + sorted(ROOT.glob("examples/**/tokenizer.json")):
        tokenizer = Tokenizer.from_file(str(path))
        tokenizer.no_truncation()
        result["tokens"][str(path.relative_to(ROOT))] = [checksum(tokenizer.encode(text, add_special_tokens=False).ids) for text in texts]
    for pattern in (GPT2, LLAMA3, QWEN2, O200K, TEKKEN):
        split = pre_tokenizers.Split(Regex(pattern), "isolated")
        result["splits"][pattern] = [checksum(len(word.encode()) for word, _ in split.pre_tokenize_str(text)) for text in texts]
    result["files"] = dict(own_files([unmarked(text) for text in texts]))
    every = [chr(c) for c in range(1, 0x20000) if not 0xd800 <= c < 0xe000]
    for name, normalizer in NORMALIZERS.items():
        result["normalized"][name] = [zlib.crc32(normalizer.normalize_str("".join(place.replace("{}", c) for c in every)).encode()) for place in PLACES]
    (ROOT / "tests/data/tokenizers/mixed.json").write_text(json.dumps(result, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
