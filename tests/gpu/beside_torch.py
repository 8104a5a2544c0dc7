"""PyTorch's side of measure.py, run by a Python that has torch. `product`, `attention` or `training` and sizes give a line of JSON, of the
same work as Quern's step: a product by cuBLAS, causal attention and its gradient by scaled_dot_product_attention, a step of training GPT-2
compiled in bf16 (tests/e2e/bench/bench_torch.py's model). On a machine without a GPU PyTorch's processor stands in, to try the script."""
import argparse
import json
import pathlib
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from tests.e2e.bench.bench_torch import Gpt2  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def wait():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def seconds(code, count):
    """Of one of so many, together, after some that are not counted."""
    for _ in range(3):
        code()
    wait()
    begin = time.perf_counter()
    for _ in range(count):
        code()
    wait()
    return (time.perf_counter() - begin) / count


def product(width, count):
    x, w = (torch.randn(width, width, device=DEVICE, dtype=torch.bfloat16) for _ in range(2))
    return {"tflops": 2.0 * width ** 3 / seconds(lambda: x @ w.T, count) / 1e12}


def attention(length, heads, size, count):
    q, k, v = (torch.randn(1, heads, length, size, device=DEVICE, dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    work = 2.0 * heads * size * length * (length + 1)  # two products of pairs that see each other
    forward = seconds(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True), count)
    upstream = torch.randn_like(q)
    both = seconds(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True).backward(upstream), count)
    return {"tflops": work / forward / 1e12, "gradient_tflops": 2.5 * work / max(both - forward, 1e-9) / 1e12}


def training(config, batch, length, count):
    model = Gpt2(config).to(DEVICE)
    compiled = torch.compile(model) if DEVICE == "cuda" else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.1, fused=DEVICE == "cuda")
    tokens, labels = torch.randint(config["vocab_size"], (2, batch, length), device=DEVICE)
    times = []
    for _ in range(count + 3):
        wait()
        begin = time.perf_counter()
        optimizer.zero_grad()
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            loss = compiled(tokens, labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        wait()
        times.append(time.perf_counter() - begin)
    step = statistics.median(times[3:])
    return {"step_s": step, "tokens_per_s": batch * length / step}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("product", "attention", "training"))
    parser.add_argument("--count", type=int, default=20)
    for name in ("width", "length", "heads", "size", "batch"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--config", type=json.loads)
    a = parser.parse_args()
    torch.manual_seed(0)
    found = (product(a.width, a.count) if a.what == "product" else attention(a.length, a.heads, a.size, a.count) if a.what == "attention"
             else training(a.config, a.batch, a.length, a.count))
    print(json.dumps({"device": torch.cuda.get_device_name() if DEVICE == "cuda" else "cpu", "torch": torch.__version__, **found}))


if __name__ == "__main__":
    main()
