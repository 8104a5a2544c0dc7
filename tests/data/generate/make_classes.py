"""Makes small SentencePiece models of classes that transformers prepares texts for, and records what its AutoTokenizer does with them.

    python make_classes.py        writes ../tokenizers/classes/

NAME.model   one Unigram model, trained once, with the first pieces that published models of the class have
cases.json   texts, and per folder: class, file, config, other files beside it, rows [number of the text, ids, ids with special tokens, those decoded, decoded without special tokens]

Needs transformers, sentencepiece and protobuf (install.sh), no PyTorch. Deterministic.
"""
import json
import os
import tempfile
from pathlib import Path

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", TOKENIZERS_PARALLELISM="false")

import sentencepiece as spm
from sentencepiece import sentencepiece_model_pb2 as spm_pb
from transformers import AutoTokenizer

DATA = Path(__file__).resolve().parent.parent / "tokenizers"
OUT = DATA / "classes"

# A map of a few rules, as SentencePiece's own of NFKC is 240 KB.
RULES = {"\t": " ", "\n": " ", "\r": " ", "\u00a0": " ", "\u3000": " ", "…": "...", "ﬁ": "fi", "e\u0301": "é", "u\u0308": "ü", "½": "1⁄2", "\u200b": " "}
RULES |= {chr(0xFEE0 + c): chr(c) for c in range(0x21, 0x7F)}

# First pieces; those behind the bar are user-defined.
HEADS = {
    "albert": "<pad> <unk> [CLS] [SEP] [MASK] | ( ) - £",
    "xlnet": "<unk> <s> </s> <cls> <sep> <pad> <mask> <eod> <eop> | . ( ) -",
    "big_bird": "<pad> </s> <s> <unk> [CLS] [SEP] [MASK]",
    "pegasus": "<pad> </s> <unk>",
    "mbart": "<unk> <s> </s>",
}

MASK = dict(__type="AddedToken", content="[MASK]", lstrip=True, rstrip=False, normalized=False, single_word=False)
PLAIN = dict(lstrip=False, rstrip=False, single_word=False)
OLDER = {  # behind the pieces of albert.model: files that came before added_tokens_decoder
    "special_tokens_map.json": dict(mask_token={k: v for k, v in MASK.items() if k != "__type"}, extra_special_tokens=["<new>"]),
    "added_tokens.json": {"other": 364, "<new>": 363},
}
DECODER = {"366": dict(PLAIN, content="<new>", normalized=False, special=True), "367": dict(PLAIN, content="other", normalized=True, special=False)}  # behind those of xlnet.model
FOLDERS = [  # model, class, file, config, every how many-th text, files beside it
    ("classes/albert", "AlbertTokenizer", "spiece.model", {}, 1),
    ("classes/albert", "AlbertTokenizer", "spiece.model", dict(do_lower_case=False, keep_accents=True), 2),
    ("classes/albert", "AlbertTokenizer", "spiece.model", dict(additional_special_tokens=["<new>", "the"], mask_token=MASK), 3),
    ("classes/albert", "AlbertTokenizer", "spiece.model", {}, 6, OLDER),
    ("classes/xlnet", "XLNetTokenizer", "spiece.model", dict(added_tokens_decoder=DECODER), 6),
    ("classes/xlnet", "XLNetTokenizer", "spiece.model", {}, 1),
    ("classes/xlnet", "XLNetTokenizer", "spiece.model", dict(do_lower_case=True, additional_special_tokens=["<eop>", "<eod>"]), 3),
    ("classes/big_bird", "BigBirdTokenizer", "spiece.model", {}, 2),
    ("classes/pegasus", "PegasusTokenizer", "spiece.model", {}, 1),
    ("classes/pegasus", "PegasusTokenizer", "spiece.model", dict(offset=10), 4),
    ("classes/pegasus", "PegasusTokenizer", "spiece.model", dict(additional_special_tokens=["<new>", "<unk_2>"]), 6),
    ("t5-unigram/tokenizer", "PegasusTokenizer", "spiece.model", {}, 2),  # with SentencePiece's whole map
    ("classes/mbart", "MBartTokenizer", "sentencepiece.bpe.model", {}, 1),
    ("classes/mbart", "MBartTokenizer", "sentencepiece.bpe.model", dict(src_lang="de_DE"), 4),
    ("classes/mbart", "MBart50Tokenizer", "sentencepiece.bpe.model", {}, 1),
    ("classes/mbart", "MBart50Tokenizer", "sentencepiece.bpe.model", dict(src_lang="gl_ES", mask_token=dict(MASK, content="<mask>", lstrip=False)), 4),
    ("classes/mbart", "MBart50Tokenizer", "sentencepiece.bpe.model", dict(extra_special_tokens=["<new>", "ar_AR"]), 6),
]

TEXTS = [
    "", " ", "   ", "a", "Hello, World!", "  leading and trailing  ", "two  spaces   three    four", "\n", "\t", "a\nb\n\nc \n d\r\n", "tab\tand\t\ttabs", "no\u00a0break \u3000 wide \u2003 em",
    "The LICENSE grants You Rights", "İstanbul ıI ß ẞ Σς ǅ", "café naïve Zürich Ça coûte", "cafe\u0301 nai\u0308ve Zu\u0308rich e\u0301\u0323", "Z̸a̵l̷g̶o̶", "``quoted'' 'single' ```three''' '' `` \"plain\"",
    "ﬁne ｆｕｌｌ １２ ½ … ² Ⅷ", "人人生而自由，在尊严和权利上", "カタカナﾊﾝｶｸ 平等", "모든 인간은 한글", "Все люди рождаются", "नमस्ते दुनिया", "ذهب الولد", "😀 👩‍👩‍👧‍👦 👋🏽", "unknown ☃☃ ☃x☃ 𝕳𝖊", "zero\u200bwidth\u00adsoft",
    "(a) b-c £5. d.e ... (()) --", "1,000,000 3.14 2024-06-08", "[CLS] text [SEP] and [MASK] , [MASK][PAD] [mask]", "<s>hello</s> <unk> <pad> <mask>, x  <mask>", "<cls> a <sep> b <eod> c <eop>", "<mask_1> is <mask_2>. <unk_2><unk_102> <unk_103>",
    "en_XX hello de_DE ar_AR xx_XX gl_ES", "▁ ▁▁word a▁b", "a<new>b the <new>other", "word </s>", "don't WE'LL it''s `x`", "\x00 nul \x01\x1b \x7f \ufffd \ufeff", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "a  b <s>  c   </s>  d",
]


def train():
    with tempfile.TemporaryDirectory() as folder:
        rules, prefix = Path(folder, "rules.tsv"), Path(folder, "base")
        codes = lambda text: " ".join(f"{ord(c):X}" for c in text)
        rules.write_text("".join(f"{codes(a)}\t{codes(b)}\n" for a, b in RULES.items()))
        spm.SentencePieceTrainer.train(input=str(DATA / "corpus.txt"), model_prefix=str(prefix), vocab_size=360, character_coverage=0.993, num_threads=1, minloglevel=2, max_sentence_length=20000, normalization_rule_tsv=str(rules))
        return prefix.with_suffix(".model").read_bytes()


def with_head(base, head):
    model = spm_pb.ModelProto()
    model.ParseFromString(base)
    control, _, own = (part.split() for part in head.partition("|"))
    rest = [piece for piece in model.pieces[3:] if piece.piece not in own]
    del model.pieces[:]
    for text in control + own:
        kind = spm_pb.ModelProto.SentencePiece
        model.pieces.add(piece=text, score=0.0, type=kind.UNKNOWN if text == "<unk>" else kind.USER_DEFINED if text in own else kind.CONTROL)
    model.pieces.extend(rest)
    spec, ids = model.trainer_spec, {text: i for i, text in enumerate(control)}
    spec.unk_id, spec.bos_id, spec.eos_id, spec.pad_id = (ids.get(text, -1) for text in ("<unk>", "<s>", "</s>", "<pad>"))
    for field in ("input", "model_prefix"):
        spec.ClearField(field)
    model.normalizer_spec.ClearField("normalization_rule_tsv")
    return model.SerializeToString()


def main():
    OUT.mkdir(exist_ok=True)
    base, rows = train(), []
    for name, head in HEADS.items():
        (OUT / f"{name}.model").write_bytes(with_head(base, head))
    for model, cls, file, config, step, *more in FOLDERS:
        beside = more[0] if more else {}
        config = dict(tokenizer_class=cls, **config)
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, file).write_bytes((DATA / f"{model}.model").read_bytes())
            Path(folder, "tokenizer_config.json").write_text(json.dumps(config))
            for name, content in beside.items():
                Path(folder, name).write_text(json.dumps(content))
            tokenizer = AutoTokenizer.from_pretrained(folder)
        assert type(tokenizer).__name__ == cls
        cases = []
        for i in range(0, len(TEXTS), step):
            ids, special = (tokenizer(TEXTS[i], add_special_tokens=add).input_ids for add in (False, True))
            cases.append([i, ids, special, tokenizer.decode(special), tokenizer.decode(special, skip_special_tokens=True)])
        rows.append(dict(model=model, file=file, config=config, beside=beside, cases=cases))
    lines = ",\n".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows)
    (OUT / "cases.json").write_text(f'{{"texts":{json.dumps(TEXTS, ensure_ascii=False, separators=(",", ":"))},\n"folders":[\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
