"""Writes tests/data/tokenizers/mixed.json: mixed-script texts and checksums of what the reference libraries make of them,

    texts      200 KB of mixed_text.py, without files of this machine
    tokens     for each tokenizer of tests/data and examples: CRC-32 of each text's tokens (int32, little endian) without special ones
    splits     for each pattern that is split by hand: of the lengths of each text's words (int32, in bytes)
    normalized for each normalizer: of all characters below U+20000, three times: alone, between marks, behind a letter and a mark (see PLACES)

    files      for each tokenizer.model: of what sentencepiece, or for ranks tiktoken, makes of the texts without marks of special tokens
               (llama3-ranks is made of llama3-bpe's vocabulary)

and tests/data/tokenizers/splits.json: what the library makes of texts with the normalizers and pre-tokenizers that stand behind the values of GGUF's tokenizer.ggml.pre.

    text       of all kinds, short
    groups     names: the values with these splits; published: what splits, as tokenizer.json has it (of tiktoken's vocabularies, chatglm-bpe, hunyuan and kimi-k2, as their Python has it);
               pieces: those of `text`, in the library's characters for bytes; sum: CRC-32 of the pieces of the texts above

Needs: pip install tokenizers sentencepiece tiktoken.
"""
import array
import base64
import json
import zlib

from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers
from tokenizers.pre_tokenizers import ByteLevel, Digits, Punctuation, Sequence, Split, Whitespace

from compare_tokenizers import LLAMA3, O200K, QWEN2, ROOT, unmarked
from mixed_text import documents

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
QWEN35 = QWEN2.replace(r"?\p{L}+", r"?[\p{L}\p{M}]+").replace(r"[^\s\p{L}\p{N}]", r"[^\s\p{L}\p{M}\p{N}]")
TEKKEN = O200K.replace("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "").replace("{1,3}", "")
PLACES = ["\n{}\n", "a{}\u0301\u0334", "\u1100\u0345{}"]
NORMALIZERS = {"NFD": normalizers.NFD(), "NFKD": normalizers.NFKD(), "NFC": normalizers.NFC(), "NFKC": normalizers.NFKC(), "Lowercase": normalizers.Lowercase(),
               "BertNormalizer": normalizers.BertNormalizer(), "Nmt": normalizers.Nmt(), "StripAccents": normalizers.StripAccents()}

TEXT = ("I'LL say: \"don't\" ('\u017f)  we've123 12345678 3.14\u00bd\u2167 \u0662\u0663\u0664\u0665\n\n  x = a[0]; // \u00e9e\u0301 $5+`2`~\r\n\t\tHTTPServer/camelCase_snake \u00c9T\u00c9 "
        "\u4e2d\u65877\u65e5\u672c\u8a9e\u306e\u30ab\u30bf\u30ab\u30ca\uff0c\u3002\ud55c\uad6d\uc5b4 1000\uc6d0 \u3105\u3131 \u0e44\u0e17\u0e22 \u092e\u094b\u0926\u0940\u0964 \u060c\u0627\u0644\u06d4 <sentinel:12> IMGIMGABZ\u2026!!! \n \n  ...\n"
        "\u0410\u0431\u0432 \u01c5\u02b0 \U00010428\ua7c2 \U0001f44b\U0001f3fd\u200d \u00a0\u2003\u2003z   ab's'S  0000000\n    end   ")
IDEOGRAPHS = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
# Cased letters, as DeepSeek's pattern lists them.
CASED = ("\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481"
         "\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57"
         "\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d"
         "\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787"
         "\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2"
         "\U000118a0-\U000118df\U0001e900-\U0001e943")
BLOOM = " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"
DEEPSEEK3 = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^""" + "\r\n" + r"""\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[""" + "\r\n" + r"""]*|\s*[""" + "\r\n" + r"""]+|\s+(?!\S)|\s+"""
CJK = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
UPPER, LOWER, CONTRACTION = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]", "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
KIMI = "|".join([r"[\p{Han}]+", rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{CONTRACTION}", rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{CONTRACTION}", r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n]*",
                 r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
YOUTU = ["[\uac00-\ud7a3\u3131-\u318e]+|[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c\u3001-\u303f\ufe30-\ufe4f]+|[\u3105-\u312f]+|" + CJK, O200K.replace("{1,3}", "")]
SPACES = "|".join(rf"\s{{{2 ** i}}}(?!\S)" for i in range(9, 1, -1)) + r"|\s{1,2}(?!\S)|\s{1}"
BLOCKS = ("[\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f\u2f00-\u2fdf\u0e40-\u0e7f\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af"
          "\u1100-\u11ff]+")
GPT2_BYTES = ByteLevel(add_prefix_space=False, use_regex=True)
ONES = Digits(individual_digits=True)
NFC = normalizers.NFC()
# The names, the normalizer, what splits: patterns and pre-tokenizers. ByteLevel comes last where none of these is one, or Whitespace.
GROUPS = [
    ("gpt-2 phi-2 gigachat a.x-4.0 mellum exaone4 jais trillion granite-docling jina-v2-es jina-v2-de jina-v1-en jina-v2-code roberta-bpe", None, [GPT2_BYTES]),
    ("mpt olmo modern-bert", NFC, [GPT2_BYTES]),
    ("starcoder refact smollm codeshell exaone minerva-7b mellum2", None, [ONES, GPT2_BYTES]),
    ("command-r", NFC, [ONES, GPT2_BYTES]),
    ("llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano dbrx smaug-bpe chatglm-bpe glm4 glm5", None, [LLAMA3]),
    ("qwen2 deepseek-r1-qwen f2llmv2 hunyuan", NFC, [QWEN2]),
    ("stablelm2 kormo megrez grok-2 solar-open", None, [QWEN2]),
    ("qwen35", NFC, [QWEN35]),
    ("tekken", None, [TEKKEN]),
    ("gpt-4o llama4 kanana2 talkie minimax-m2 granite-embed-multi-97m", None, [O200K]),
    ("tiny_aya cohere2moe", NFC, [r"\d{1,3}(?=(?:\d{3})*\b)", O200K]),
    ("bloom gpt3-finnish poro-chat", None, [BLOOM]),
    ("viking", None, [BLOOM, ONES]),
    ("deepseek-llm", None, ["[\r\n]", "\\s?[A-Za-z" + CASED + "]+", "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+", r"\s+$", IDEOGRAPHS, ONES]),
    ("deepseek-coder", None, ["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", IDEOGRAPHS, ONES]),
    ("deepseek-v3 hunyuan-dense joyai-llm hy_v4", None, [r"\p{N}{1,3}", CJK, DEEPSEEK3]),
    ("spark2_5", None, [r"\p{N}{1,3}", CJK, DEEPSEEK3.replace("+[\r\n]*|\\s*[\r\n]+", "+|[\r\n]"), ONES]),
    ("youtu", None, YOUTU),
    ("falcon", None, [Punctuation("contiguous"), GPT2_BYTES, Digits(individual_digits=False), "[0-9][0-9][0-9]"]),
    ("chameleon", None, ["<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\\t\\n]|    |  )", ONES, Punctuation("isolated"), GPT2_BYTES]),
    ("kimi-k2", None, [KIMI]),
    ("superbpe", None, [r"\p{N}+", r"(?=(\d{3})+(?!\d))"]),
    ("bailingmoe bailingmoe2 llada-moe", None, [r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"]),
    ("seed-coder", None, ["(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\r\n]+|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"]),
    ("ufakzeka", None, [QWEN2.split("|", 7)[7]]),
    ("minicpm5", None, [r"\p{N}{1,3}", LLAMA3.replace("{1,3}", "+")]),
    ("jais-2", None, [LLAMA3.replace(r"\s+(?!\S)|\s+", SPACES)]),
    ("exaone-moe", NFC, [r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"]),
    ("laguna", None, [r"[^\n]+|[\n]+", QWEN2]),
    ("afmoe", None, [r"\p{N}+", r"(?=(\p{N}{3})+(?!\p{N}))", BLOCKS, DEEPSEEK3]),
    ("gemma4 granite-embed-multi-311m sarvam-moe", normalizers.Replace(" ", "\u2581"), None),
    ("whitespace", None, [Whitespace()]),
]


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


def pieces(normalizer, splitter, text):
    text = normalizer.normalize_str(text) if normalizer else text
    return [piece for piece, _ in splitter.pre_tokenize_str(text)] if splitter else [text]


def write_splits(texts):
    groups = []
    for names, normalizer, steps in GROUPS:
        made = [Split(Regex(step), "isolated") if isinstance(step, str) else step for step in steps or []]
        own = any(isinstance(step, (ByteLevel, Whitespace)) for step in made)
        splitter = Sequence(made if own else made + [ByteLevel(add_prefix_space=False, use_regex=False)]) if steps else None
        every = [piece for text in texts for piece in pieces(normalizer, splitter, text)]
        published = json.loads(splitter.__getstate__()) if splitter else None
        groups.append({"names": names.split(), "published": published, "pieces": pieces(normalizer, splitter, TEXT), "sum": zlib.crc32("\n".join(every).encode())})
    lines = ",\n".join(json.dumps(group, ensure_ascii=False, separators=(",", ":")) for group in groups)
    (ROOT / "tests/data/tokenizers/splits.json").write_text(f'{{"text":{json.dumps(TEXT)},\n"groups":[\n{lines}\n]}}\n', encoding="utf-8")


def main():
    texts = list(documents(200_000, seed=3, found=False))
    write_splits(texts)
    result = {"texts": texts, "tokens": {}, "splits": {}, "normalized": {}}
    for path in sorted(ROOT.glob("tests/data/*/tokenizer.json")) + sorted(ROOT.glob("tests/data/tokenizers/*/tokenizer.json")) + sorted(ROOT.glob("examples/**/tokenizer.json")):
        tokenizer = Tokenizer.from_file(str(path))
        tokenizer.no_truncation()
        result["tokens"][str(path.relative_to(ROOT))] = [checksum(tokenizer.encode(text, add_special_tokens=False).ids) for text in texts]
    for pattern in (GPT2, LLAMA3, QWEN2, QWEN35, O200K, TEKKEN):
        split = pre_tokenizers.Split(Regex(pattern), "isolated")
        result["splits"][pattern] = [checksum(len(word.encode()) for word, _ in split.pre_tokenize_str(text)) for text in texts]
    result["files"] = dict(own_files([unmarked(text) for text in texts]))
    every = [chr(c) for c in range(1, 0x20000) if not 0xd800 <= c < 0xe000]
    for name, normalizer in NORMALIZERS.items():
        result["normalized"][name] = [zlib.crc32(normalizer.normalize_str("".join(place.replace("{}", c) for c in every)).encode()) for place in PLACES]
    (ROOT / "tests/data/tokenizers/mixed.json").write_text(json.dumps(result, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
