#!/usr/bin/env python3
"""What transformers' activations give, in float64: activations.json beside the models' folders. Those with parameters of their own
(prelu, xielu) are left to the specs that have them.

usage: make_activations.py OUTPUT.json"""
import json
import pathlib
import sys

import torch
from transformers.activations import ACT2CLS, ACT2FN

x = [-11.0, -3.0, -1.25, -0.5, 0.0, 0.25, 1.0, 2.5, 6.5, 12.0]
values = {}
for name in ACT2CLS:
    function = ACT2FN[name]
    if not list(function.parameters()):
        values[name] = function(torch.tensor(x, dtype=torch.float64)).tolist()
pathlib.Path(sys.argv[1]).write_text(json.dumps({"x": x, "values": values}, indent=1) + "\n")
