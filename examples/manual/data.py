#!/usr/bin/env python3
"""Toy data for the worked examples; the same numbers at each run.

    data.py reversal OUT.json        512 rows of 8 digits, labelled with the row backwards (encoder.quern, decoder.quern)
    data.py random OUT.json          100 batches of 32 rows of 20 words of 5000, labels at random too (mini_transformer.quern)
    data.py translation FOLDER       English into French: train.json, held_out.txt, tokenizer.json, config.json (examples/translate.quern)

`quern tensors OUT.json -o OUT.safetensors` makes of it what PROGRAM train reads.
"""
import json
import pathlib
import random
import sys

SUBJECTS = {"I": "je", "you": "tu", "we": "nous", "they": "ils"}
VERBS = {  # in the order of the subjects
    "love": ["aime", "aimes", "aimons", "aiment"],
    "eat": ["mange", "manges", "mangeons", "mangent"],
    "buy": ["achète", "achètes", "achetons", "achètent"],
    "see": ["vois", "vois", "voyons", "voient"],
    "have": ["ai", "as", "avons", "ont"],
}
OBJECTS = {"Apple": "Apple", "apples": "des pommes", "bread": "du pain", "the red house": "la maison rouge", "the cat": "le chat",
           "the black cat": "le chat noir"}
PAD, BEGIN, END = "<pad>", "<bos>", "<eos>"


def reversal(out):
    source = random.Random(1)
    rows = [[source.randrange(10) for _ in range(8)] for _ in range(512)]
    out.write_text(json.dumps({"tokens": rows, "labels": [row[::-1] for row in rows]}))


def noise(out):
    source = random.Random(2)
    rows = lambda: [[[source.randrange(5000) for _ in range(20)] for _ in range(32)] for _ in range(100)]
    out.write_text(json.dumps({"tokens": rows(), "labels": rows()}))


def pairs():
    for i, (subject, french) in enumerate(SUBJECTS.items()):
        for verb, forms in VERBS.items():
            for thing, translated in OBJECTS.items():
                yield f"{subject} {verb} {thing}", f"{french} {forms[i]} {translated}"


def translation(folder):
    folder.mkdir(parents=True, exist_ok=True)
    everything = list(pairs())
    random.Random(3).shuffle(everything)
    held, known = everything[:12], everything[12:]
    words = [PAD, BEGIN, END] + sorted({word for pair in everything for side in pair for word in side.split()})
    number = {word: i for i, word in enumerate(words)}
    sources = [[number[w] for w in english.split()] for english, _ in known]
    targets = [[number[w] for w in french.split()] for _, french in known]
    width, height = max(map(len, sources)), max(map(len, targets)) + 1
    fill = lambda row, size, with_: row + [with_] * (size - len(row))
    (folder / "train.json").write_text(json.dumps({
        "tokens": [fill(row, width, number[PAD]) for row in sources],
        "mask": [fill([True] * len(row), width, False) for row in sources],
        "target": [fill([number[BEGIN]] + row, height, number[PAD]) for row in targets],
        "labels": [fill(row + [number[END]], height, -100) for row in targets],  # -100: no label
    }))
    (folder / "held_out.txt").write_text("".join(f"{english}\t{french}\n" for english, french in held), encoding="utf-8")
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None, "decoder": None,
        "added_tokens": [{"id": number[w], "content": w, "special": True, "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False} for w in (PAD, BEGIN, END)],
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "model": {"type": "WordLevel", "vocab": number, "unk_token": PAD},
    }, ensure_ascii=False), encoding="utf-8")
    (folder / "config.json").write_text(json.dumps({
        "vocab": len(words), "width": 64, "inner": 128, "heads": 4, "layers": 2,
        "decoder_start_token_id": number[BEGIN], "eos_token_id": number[END], "pad_token_id": number[PAD],
    }, indent=1))


def main():
    tasks = {"reversal": reversal, "random": noise, "translation": translation}
    if len(sys.argv) != 3 or sys.argv[1] not in tasks:
        sys.exit(__doc__)
    tasks[sys.argv[1]](pathlib.Path(sys.argv[2]))


if __name__ == "__main__":
    main()
