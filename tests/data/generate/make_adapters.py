#!/usr/bin/env python3
"""Random low-rank adapters of golden models, as PEFT writes them: OUTPUT/<case>/{adapter_config.json, adapter_model.safetensors,
expected.safetensors}.

usage: make_adapters.py FOLDER_OF_MODELS OUTPUT

`expected`: input_ids, logits and 12 greedy tokens after the first five, of the model with the adapter beside it (not merged), in float64."""
import json
import pathlib
import sys

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

folder, output = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
CASES = {
    "llama": ("llama", dict(r=4, lora_alpha=10, target_modules=["q_proj", "v_proj", "o_proj", "gate_proj", "down_proj"], alpha_pattern={"q_proj": 3, "layers.1.self_attn.v_proj": 7}, rank_pattern={"down_proj": 2})),
    "llama-head": ("llama", dict(r=3, lora_alpha=6, use_rslora=True, target_modules=["k_proj", "embed_tokens"], modules_to_save=["lm_head"])),
    "gpt2": ("gpt2", dict(r=4, lora_alpha=8, fan_in_fan_out=True, target_modules=["c_attn", "c_fc"], bias="lora_only")),
}

for case, (name, settings) in CASES.items():
    torch.manual_seed(len(case))
    ids = load_file(folder / name / "expected.safetensors")["input_ids"]
    base = AutoModelForCausalLM.from_pretrained(folder / name, dtype=torch.float64, attn_implementation="eager").eval()
    before = base(ids).logits
    model = get_peft_model(base, LoraConfig(task_type="CAUSAL_LM", **settings)).eval()
    for key, parameter in model.named_parameters():
        if parameter.requires_grad:
            parameter.data = (parameter.data if "lora_" not in key else 0) + 0.3 * torch.randn(parameter.shape, dtype=torch.float64)
    model.to(torch.float32).save_pretrained(output / case)
    model.to(torch.float64)  # the numbers that were stored
    with torch.no_grad():
        logits = model(ids).logits
        tokens = ids[:, :5]
        for _ in range(12):
            tokens = torch.cat([tokens, model(tokens).logits[:, -1:].argmax(-1)], 1)
    save_file({"input_ids": ids, "logits": logits.to(torch.float32), "generated": tokens[:, 5:].contiguous()}, output / case / "expected.safetensors")
    (output / case / "README.md").unlink(missing_ok=True)
    config = output / case / "adapter_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"base_model_name_or_path": f"../../{name}"}, indent=2, sort_keys=True) + "\n")
    print(case, "moves logits by", float((logits - before).abs().max()))
