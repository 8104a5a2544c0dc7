"""What transformers makes of rotary scalings: rope.json, frequencies and the factor that lengthens vectors, for tests/e2e/models/rope_test.py.

    python3 make_rope.py          (transformers 5.23, torch)"""
import json
import pathlib

from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

WIDTH, THETA, CONTEXT, MOST = 16, 10000.0, 32, 128
SCALINGS = {
    "linear": {"rope_type": "linear", "factor": 3.0},
    "proportional": {"rope_type": "proportional", "partial_rotary_factor": 0.45, "factor": 2.0},
    "llama3": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": CONTEXT},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": CONTEXT},
    "yarn with betas": {"rope_type": "yarn", "factor": 4.0, "beta_fast": 16.0, "beta_slow": 2.0, "truncate": False, "original_max_position_embeddings": CONTEXT},
    "yarn with both mscales": {"rope_type": "yarn", "factor": 4.0, "mscale": 0.707, "mscale_all_dim": 1.1, "original_max_position_embeddings": CONTEXT},
    "yarn with its factor": {"rope_type": "yarn", "factor": 4.0, "attention_factor": 1.3, "original_max_position_embeddings": CONTEXT},
    "longrope": {"rope_type": "longrope", "factor": 4.0, "short_factor": [1.0 + j / 8 for j in range(WIDTH // 2)],
                 "long_factor": [1.5 + j / 2 for j in range(WIDTH // 2)], "original_max_position_embeddings": CONTEXT},
}

cases = []
for name, scaling in SCALINGS.items():
    for length in (CONTEXT, CONTEXT + 8):
        config = LlamaConfig(hidden_size=WIDTH, num_attention_heads=1, head_dim=WIDTH, max_position_embeddings=MOST,
                             rope_parameters={"rope_theta": THETA, **scaling})
        frequencies, longer = ROPE_INIT_FUNCTIONS[scaling["rope_type"]](config, "cpu", seq_len=length)
        cases.append({"name": name, "scaling": scaling, "length": length, "frequencies": frequencies.tolist(), "longer": longer})
target = pathlib.Path(__file__).parent.parent / "rope.json"
target.write_text(json.dumps({"width": WIDTH, "theta": THETA, "cases": cases}, indent=1) + "\n")
