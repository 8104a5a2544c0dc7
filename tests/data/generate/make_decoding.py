#!/usr/bin/env python3
"""What transformers' logits processors and beam search give: decoding.json beside the models' folders.

usage: make_decoding.py FOLDER_OF_MODELS OUTPUT.json

Processors: `scores` are one row of numbers, `history` the tokens so far; `result` is what the processor makes of them (-inf
as null), or `kept` the tokens that it leaves. Beams: greedy and sampled choices play no part; every case is one prompt, with
all beams' new tokens (with the one that ended it) and scores."""
import json
import pathlib
import sys

import torch
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM
from transformers.generation import logits_process as processors

folder, output = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
torch.manual_seed(7)


class TopNSigma(processors.LogitsProcessor):
    """As its authors define it (Tang et al. 2024); transformers does not have it."""

    def __init__(self, n):
        self.n = n

    def __call__(self, ids, scores):
        least = scores.amax(-1, keepdim=True) - self.n * scores.std(-1, keepdim=True, correction=0)
        return scores.masked_fill(scores < least, float("-inf"))


def number(x):
    return None if x == float("-inf") else round(x, 9)


def processor_cases():
    scores = [round(x, 4) for x in (3 * torch.randn(24, dtype=torch.float64)).tolist()]
    history = [3, 7, 7, 1, 20, 3, 7, 9, 3]
    row, ids = torch.tensor([scores], dtype=torch.float64), torch.tensor([history])
    adjust = {
        "repeat-penalty=1.3": processors.RepetitionPenaltyLogitsProcessor(1.3),
        "repeat-penalty=0.7": processors.RepetitionPenaltyLogitsProcessor(0.7),
        "no-repeat=2": processors.NoRepeatNGramLogitsProcessor(2),
        "no-repeat=1": processors.NoRepeatNGramLogitsProcessor(1),
        "no-repeat=3": processors.NoRepeatNGramLogitsProcessor(3),
        "top-n-sigma=0.5": TopNSigma(0.5),
        "top-n-sigma=2": TopNSigma(2),
    }
    kept = {f"typical={p}": processors.TypicalLogitsWarper(p) for p in (0.1, 0.3, 0.6, 0.9, 0.99)}
    kept |= {f"top-p={p}": processors.TopPLogitsWarper(p) for p in (0.1, 0.5, 0.95)}
    kept |= {f"min-p={p}": processors.MinPLogitsWarper(p) for p in (0.02, 0.3)}
    kept |= {f"epsilon-cutoff={p}": processors.EpsilonLogitsWarper(p) for p in (0.01, 0.1)}
    kept |= {f"eta-cutoff={p}": processors.EtaLogitsWarper(p) for p in (0.003, 0.02, 0.3)}
    kept |= {f"top-k={k}": processors.TopKLogitsWarper(k) for k in (1, 5)}
    bias = processors.SequenceBiasLogitsProcessor([[[4], 2.5], [[0], -1.25]])
    return {
        "scores": scores,
        "history": history,
        "adjust": [{"rules": name, "result": [number(x) for x in p(ids, row.clone())[0].tolist()]} for name, p in adjust.items()],
        "bias": {"4": 2.5, "0": -1.25, "result": [number(x) for x in bias(ids, row.clone())[0].tolist()]},
        "kept": [{"rules": name, "kept": (p(ids, row.clone())[0] > float("-inf")).nonzero()[:, 0].tolist()} for name, p in kept.items()],
    }


def beam_cases(name, prompts, seq2seq, variants):
    loader = AutoModelForSeq2SeqLM if seq2seq else AutoModelForCausalLM
    model = loader.from_pretrained(folder / name, dtype=torch.float32, attn_implementation="eager").eval()
    for prompt in prompts:
        for variant in variants:
            settings = dict(num_beams=4, num_return_sequences=4, max_new_tokens=12, do_sample=False, pad_token_id=0)
            settings |= {k: v for k, v in variant.items() if v is not None}
            with torch.no_grad():
                made = model.generate(torch.tensor([prompt]), return_dict_in_generate=True, output_scores=True, **settings)
            start = 1 if seq2seq else len(prompt)
            ends = settings["eos_token_id"]
            beams = []
            for row, score in zip(made.sequences.tolist(), made.sequences_scores.tolist()):
                tokens = row[start:]
                if ends in tokens:
                    tokens = tokens[: tokens.index(ends) + 1]
                beams.append({"tokens": tokens, "score": round(score, 7)})
            yield {"model": name, "prompt": prompt, **settings, "beams": beams}


def main():
    variants = lambda end: [
        {"eos_token_id": end},
        {"eos_token_id": end, "length_penalty": 2.0, "early_stopping": True},
        {"eos_token_id": end, "length_penalty": 0.0, "early_stopping": "never"},
        {"eos_token_id": end, "length_penalty": 1.5, "early_stopping": "never"},
        {"eos_token_id": end, "no_repeat_ngram_size": 2, "repetition_penalty": 1.2},
        {"eos_token_id": end, "num_beams": 2, "num_return_sequences": 1},
    ]
    cases = []
    for name, prompts, seq2seq in (
        ("llama", [[17, 3, 99], [5, 60, 61, 8, 2, 40]], False),
        ("mistral", [[17, 3, 99, 4, 4, 50, 31, 30]], False),
        ("t5", [[17, 3, 99, 12, 1], [9, 8, 7, 1]], True),
    ):
        # An end that comes up among the likeliest: the token most often made by a search without ends.
        free = list(beam_cases(name, prompts, seq2seq, [{"eos_token_id": 1, "num_beams": 8, "num_return_sequences": 8}]))
        made = [t for case in free for beam in case["beams"] for t in beam["tokens"]]
        end = max(sorted(set(made) - {0, 1}), key=made.count)
        cases += beam_cases(name, prompts, seq2seq, variants(end))
    output.write_text(json.dumps({"processors": processor_cases(), "beams": cases}, separators=(",", ":")) + "\n")


main()
