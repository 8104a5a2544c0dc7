"""PyTorch's side of bench_train.py, run by a Python that has torch. Takes lines "eager 4", "compiled 4" or "autocast 4" on standard input; gives for each a JSON line
with the medians of so many training steps: `seconds` (loss and gradient), `update_seconds` (clipping and AdamW).

The model is GPT-2 as PyTorch computes it best: linear layers, scaled_dot_product_attention, no dropout, tied output, fused AdamW. All ways share the
parameters; one uncounted step comes first. `autocast` is eager with matrix products in bf16 and everything else as PyTorch chooses; parameters,
gradients and moments stay f32."""
import argparse
import json
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self.c_attn(self.ln_1(x)).split(width, dim=2))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, length, width)
        x = x + self.c_proj(a)
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config["n_embd"]
        self.wte, self.wpe = nn.Embedding(config["vocab_size"], width), nn.Embedding(config["n_positions"], width)
        self.h = nn.ModuleList(Block(width, config["n_head"]) for _ in range(config["n_layer"]))
        self.ln_f = nn.LayerNorm(width)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens, labels):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.h:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=json.loads)
    for name in ("batch", "length", "threads"):
        parser.add_argument(f"--{name}", type=int)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    model = Gpt2(arguments.config)
    ways = {"eager": model, "compiled": torch.compile(model), "autocast": model}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.1, fused=True)
    tokens, labels = torch.randint(arguments.config["vocab_size"], (2, arguments.batch, arguments.length))
    for line in sys.stdin:
        kind, count = line.split()
        gradients, updates = [], []
        for _ in range(int(count) + 1):
            optimizer.zero_grad()
            begin = time.perf_counter()
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=kind == "autocast"):
                loss = ways[kind](tokens, labels)
            loss.backward()
            middle = time.perf_counter()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            gradients.append(middle - begin)
            updates.append(time.perf_counter() - middle)
        print(json.dumps({"seconds": statistics.median(gradients[1:]), "update_seconds": statistics.median(updates[1:]), "loss": loss.item(),
                          "parameters": sum(p.numel() for p in model.parameters())}), flush=True)


if __name__ == "__main__":
    main()
