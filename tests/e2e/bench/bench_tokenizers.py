"""`./dev bench tokenizers`: how fast one core tokenizes by byte-level BPE, in megabytes a second, best of three.

Makes 10 MB each of real text of this machine (translations, sources) and of mixed text (a third of it real, the rest characters at random and hard cases), 3 MB of three words of
a million letters, and a vocabulary of 32,000 tokens of the former; splits words as GPT-2, Llama 3 and Qwen 2 do."""
import json
import pathlib
import random
import struct
import sys
import tempfile

from tests.e2e.harness import BUILD, QUERN, ROOT, run

sys.path.insert(0, str(ROOT / "tests/data/generate"))
from mixed_text import catalogue_texts, cut, documents, source_texts

CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LLAMA3 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def real(size, rng):
    for text in cut(list(catalogue_texts()) + list(source_texts()), rng):
        data = text.encode("utf-8", "ignore")
        size -= len(data)
        yield data
        if size < 0:
            return


def main():
    rng = random.Random(1)
    texts = {"real": list(real(10_000_000, rng)), "mixed": [text.encode() for text in documents(10_000_000)],
             "long words": [bytes(rng.choice(b"abcdefghijklmnopqrstuvwxyz") for _ in range(1_000_000)), b"a" * 1_000_000, b"donaudampfschifffahrt" * 50_000]}
    with tempfile.TemporaryDirectory(prefix="quern-bench-") as name:
        folder = pathlib.Path(name)
        (folder / "corpus").write_bytes(b"\n".join(texts["real"]))
        run(QUERN, "tokenizer", "train", folder / "corpus", "--vocabulary", "32000", "-o", folder / "gpt2.json")
        gpt2 = json.loads((folder / "gpt2.json").read_text())
        for kind, pattern, normalizer in (("llama3", LLAMA3, None), ("qwen2", LLAMA3.replace("{1,3}", ""), {"type": "NFC"})):
            split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
            level = dict(gpt2["pre_tokenizer"], use_regex=False)
            (folder / f"{kind}.json").write_text(json.dumps(dict(gpt2, normalizer=normalizer, pre_tokenizer={"type": "Sequence", "pretokenizers": [split, level]})))
        result = {}
        for title, some in texts.items():
            (folder / "texts").write_bytes(b"".join(struct.pack("<I", len(data)) + data for data in some))
            result[title] = {kind: run(BUILD / "tests/quern_tokenize", folder / f"{kind}.json", folder / "texts").out.strip() for kind in ("gpt2", "llama3", "qwen2")}
        print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
