"""Mixed-script text for tokenizers: `documents(size, seed)` yields strings of about 4 KB until they hold `size` bytes of UTF-8.

A third each: translations and code that lie on this machine (gettext catalogues, licences, Python's and C's sources); characters at random from blocks of Unicode; and what
splits or merges badly: words of thousands of letters, runs of one character, emoji with joiners, marks on marks, every kind of white space, contractions, numbers, URLs.
Without those files (`found=False`) the last two alone. The same size, seed and files give the same text.
"""
import gettext
import random
from pathlib import Path

# First and last character of blocks; some have holes, which is what a tokenizer should see as well.
BLOCKS = [(0x20, 0x7e), (0xa0, 0x17f), (0x180, 0x24f), (0x250, 0x2ff), (0x370, 0x3ff), (0x400, 0x52f), (0x531, 0x58f), (0x590, 0x5ff), (0x600, 0x6ff), (0x700, 0x74f),
          (0x900, 0x97f), (0x980, 0x9ff), (0xa00, 0xa7f), (0xb80, 0xbff), (0xc00, 0xc7f), (0xd00, 0xd7f), (0xe00, 0xe7f), (0xe80, 0xeff), (0xf00, 0xfff), (0x1000, 0x109f), (0x10a0, 0x10ff),
          (0x1100, 0x11ff), (0x1200, 0x137f), (0x13a0, 0x13ff), (0x1400, 0x167f), (0x1780, 0x17ff), (0x1800, 0x18af), (0x1d00, 0x1dbf), (0x1e00, 0x1fff), (0x2000, 0x206f), (0x2070, 0x20cf),
          (0x2100, 0x218f), (0x2190, 0x23ff), (0x2460, 0x25ff), (0x2600, 0x27bf), (0x2c00, 0x2dff), (0x2e80, 0x2fdf), (0x3000, 0x303f), (0x3040, 0x30ff), (0x3100, 0x33ff), (0x3400, 0x4dbf),
          (0x4e00, 0x9fff), (0xa000, 0xa4cf), (0xa640, 0xa69f), (0xa720, 0xa7ff), (0xac00, 0xd7a3), (0xe000, 0xe0ff), (0xf900, 0xfaff), (0xfb00, 0xfdff), (0xfe00, 0xfe6f), (0xff00, 0xffef),
          (0x10000, 0x100ff), (0x10300, 0x1034f), (0x10900, 0x10a7f), (0x10d00, 0x10fff), (0x11000, 0x117ff), (0x11800, 0x11fff), (0x12000, 0x123ff), (0x13000, 0x1342f), (0x16a00, 0x16fff),
          (0x1d100, 0x1d1ff), (0x1d400, 0x1d7ff), (0x1e000, 0x1e9ff), (0x1f000, 0x1f2ff), (0x1f300, 0x1f6ff), (0x1f700, 0x1faff), (0x20000, 0x2a6df), (0x30000, 0x3134f), (0xe0000, 0xe01ef)]
COMMON = [0, 0, 1, 2, 4, 5, 7, 8, 10, 16, 20, 38, 39, 40, 41, 45, 46, 63]
MARKS = "\u0300\u0301\u0302\u0308\u0323\u0327\u0328\u0338\u05b0\u05bc\u064b\u0651\u093c\u094d\u0e31\u0e34\u1ab0\u20dd\ufe0f\u3099"
SPACES = ["  ", "\t", "\n", "\r\n", "\r", "\n\n", " \n", "\n ", "\u00a0", "\u2003", "\u2009", "\u200b", "\u2028", "\u2029", "\u202f", "\u3000", "\ufeff", "\u0085", "\x0b", "\x0c", "   ", " " * 9, "\t\t"]
EMOJI = ["\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f44b\U0001f3fd", "\U0001f3f3\ufe0f\u200d\U0001f308", "\U0001f1eb\U0001f1f7\U0001f1ef\U0001f1f5", "\u2764\ufe0f", "1\ufe0f\u20e3", "\u263a"]
PARTS = ["don't", "I'LL", "we've", "'S", "'\u017f", "they're", "\u2019s", "x's'd'm", "https://example.org/a_b?q=%20#x", "user@host.tld", "0x1F600", "3.14159", "1,000,000", "2024-06-08T12:34:56Z",
         "snake_case", "camelCase", "HTTPServer", "!!!", "...", "--", "==>", "/*", "*/", "{", "};", "()", "[0]", "\\n", "<b>", "&amp;", "\u2026", "\u00ab", "\u00bb", "\u2581", "\u2581\u2581x", "##ing", "\x00", "\x1b[0m", "\x7f",
         "\ufffd", "\ufb01", "\u212b", "\ufdfa", "\u337f", "\u00bd", "\u2167", "\u0130", "\u00df", "\u03c2", "e\u0301", "\uac01", "\u1100\u1161\u11a8", "<s>", "</s>", "<0x41>", "[SEP]", "<|endoftext|>"]


def catalogue_texts():
    for path in sorted(Path("/usr/share").glob("**/*.mo")):
        try:
            with path.open("rb") as file:
                texts = gettext.GNUTranslations(file)._catalog
        except (OSError, UnicodeError, ValueError, LookupError):
            continue
        yield "\n".join(text for key, text in texts.items() if key and isinstance(text, str))


def source_texts():
    paths = sorted(Path("/usr/lib/python3.11").glob("*.py")) + sorted(Path("/usr/include").glob("*.h")) + sorted(Path("/usr/share/common-licenses").glob("*")) + sorted(Path("/usr/share/i18n/locales").glob("*"))
    for path in paths:
        try:
            yield path.read_text(encoding="utf-8")
        except (OSError, UnicodeError):
            continue


def cut(texts, rng):
    """Pieces of 2 to 6 KB of them, mixed."""
    pieces = []
    for text in texts:
        at = 0
        while at < len(text):
            step = rng.randrange(1000, 4000)
            pieces.append(text[at:at + step])
            at += step
    rng.shuffle(pieces)
    return pieces


def random_block(rng):
    return BLOCKS[rng.choice(COMMON) if rng.random() < 0.6 else rng.randrange(len(BLOCKS))]


def of_blocks(rng):
    words = []
    for _ in range(rng.randrange(60, 160)):
        first, last = random_block(rng)
        word = "".join(chr(rng.randint(first, last)) for _ in range(min(int(rng.expovariate(0.2)) + 1, 40)))
        words.append(word if rng.random() < 0.9 else word + chr(rng.choice([0x10fffd, 0xfdd0, 0xffff, 0x378, 0x2fe0, 0x1ffff])))
    return "".join(word + (" " if rng.random() < 0.85 else rng.choice(SPACES)) for word in words)


def long_word(rng):
    kind, length = rng.randrange(5), int(10 ** rng.uniform(1.5, 3.7))
    if kind == 0:
        return rng.choice("a=- \n\u00e9\u4e2d\u0301'1<") * length
    if kind == 1:
        return "".join(rng.choice("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/") for _ in range(length))
    if kind == 2:
        return "".join(rng.choice(["ge", "fahr", "schiff", "ung", "donau", "kapit\u00e4n", "an", "ti", "lich"]) for _ in range(length // 4))
    if kind == 3:
        return (rng.choice(["ab", "the", "\U0001f600", "\u0e01\u0e32", "xyzzy"]) * length)[:length]
    first, last = random_block(rng)
    return "".join(chr(rng.randint(first, last)) for _ in range(length // 3))


def hard(rng):
    words = []
    for _ in range(rng.randrange(80, 200)):
        kind = rng.random()
        if kind < 0.5:
            words.append(rng.choice(PARTS))
        elif kind < 0.6:
            words.append(rng.choice(EMOJI) * rng.randrange(1, 3))
        elif kind < 0.7:
            words.append("".join(rng.choice("aeo\u0438\u3042\u05d0") + "".join(rng.choice(MARKS) for _ in range(rng.randrange(4))) for _ in range(rng.randrange(1, 8))))
        elif kind < 0.8:
            words.append(str(rng.randrange(10 ** rng.randrange(1, 12))))
        elif kind < 0.99:
            words.append("".join(rng.choice("etaoinshrdlu") for _ in range(rng.randrange(1, 12))))
        else:
            words.append(long_word(rng))
    return "".join(word + rng.choice([" ", " ", " ", " ", "", rng.choice(SPACES)]) for word in words)


def documents(size, seed=1, found=True):
    rng = random.Random(seed)
    real = cut(list(catalogue_texts()) + list(source_texts()), rng) if found else []
    while size > 0:
        kind = rng.randrange(3)
        text = real.pop() if kind == 0 and real else of_blocks(rng) if kind == 1 else hard(rng)
        text = text.encode("utf-8", "ignore").decode("utf-8")  # no lone surrogates
        size -= len(text.encode("utf-8"))
        yield text
