"""Matrices as compressed-tensors stores them, and what it decodes. Writes ../formats/compressed.safetensors: of each case the stored tensors CASE.weight..., and
expected.CASE. Needs PyPI's compressed-tensors 0.20.1 (pip install --no-deps compressed-tensors loguru pydantic); ModelOpt's NVFP4 has the same codes, and a scale that multiplies.
"""
from pathlib import Path

import torch
from compressed_tensors.compressors.mxfp4.base import MXFP4PackedCompressor
from compressed_tensors.compressors.naive_quantized.base import NaiveQuantizationCompressor
from compressed_tensors.compressors.nvfp4.base import NVFP4PackedCompressor
from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
from compressed_tensors.compressors.pack_quantized.base import PackedQuantizationCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from compressed_tensors.quantization.utils.helpers import calculate_qparams, generate_gparam
from safetensors.torch import save_file

OUT = Path(__file__).resolve().parents[1] / "formats" / "compressed.safetensors"
# Case: compressor, shape, arguments.
CASES = {
    "int4_groups": (PackedQuantizationCompressor, (24, 128), dict(num_bits=4, strategy="group", group_size=32, symmetric=True)),
    "int4_zeros": (PackedQuantizationCompressor, (20, 128), dict(num_bits=4, strategy="group", group_size=64, symmetric=False)),
    "int4_rows": (PackedQuantizationCompressor, (24, 100), dict(num_bits=4, strategy="channel", symmetric=True)),
    "int8_packed": (PackedQuantizationCompressor, (24, 64), dict(num_bits=8, strategy="channel", symmetric=True)),
    "int3_groups": (PackedQuantizationCompressor, (16, 96), dict(num_bits=3, strategy="group", group_size=32, symmetric=True)),
    "int6_zeros": (PackedQuantizationCompressor, (18, 64), dict(num_bits=6, strategy="group", group_size=32, symmetric=False)),
    "int8_rows": (NaiveQuantizationCompressor, (24, 64), dict(num_bits=8, strategy="channel", symmetric=True)),
    "int8_zeros": (NaiveQuantizationCompressor, (24, 64), dict(num_bits=8, strategy="channel", symmetric=False)),
    "int8_all": (NaiveQuantizationCompressor, (24, 64), dict(num_bits=8, strategy="tensor", symmetric=True)),
    "float8_rows": (NaiveQuantizationCompressor, (24, 64), dict(num_bits=8, type="float", strategy="channel", symmetric=True)),
    "float8_all": (NaiveQuantizationCompressor, (24, 64), dict(num_bits=8, type="float", strategy="tensor", symmetric=True)),
    "nvfp4": (NVFP4PackedCompressor, (24, 64), dict(num_bits=4, type="float", strategy="tensor_group", group_size=16, symmetric=True)),
    "mxfp4": (MXFP4PackedCompressor, (24, 64), dict(num_bits=4, type="float", strategy="group", group_size=32, symmetric=True, scale_dtype=torch.uint8)),
}


def parameters(weight, args):
    """Scales and zeros of the least and most of each group, and a scale of all for NVFP4."""
    size = {"tensor": weight.numel(), "channel": weight.shape[1]}.get(args.strategy, args.group_size)
    groups = weight.reshape(1, 1, -1) if args.strategy == "tensor" else weight.reshape(weight.shape[0], -1, size)
    least, most = groups.amin(-1), groups.amax(-1)
    if args.strategy == "tensor":
        least, most = least.reshape(1), most.reshape(1)
    whole = generate_gparam(weight.min(), weight.max()).reshape(1) if args.strategy == "tensor_group" else None
    scale, zero = calculate_qparams(least, most, args, whole)
    return scale, zero, whole


def main():
    generator, stored = torch.Generator().manual_seed(5), {}
    for case, (compressor, shape, values) in CASES.items():
        weight = torch.randn(shape, generator=generator) * 0.1 + (0.05 if not values["symmetric"] else 0)
        args = QuantizationArgs(**values)
        scheme = QuantizationScheme(targets=["Linear"], weights=args)
        scale, zero, whole = parameters(weight, args)
        state = {"weight": weight, "weight_scale": scale.float() if whole is not None or case == "mxfp4" else scale.bfloat16()}
        if not args.symmetric:
            state["weight_zero_point"] = zero.to(torch.int8)
        if whole is not None:
            state["weight_global_scale"] = whole
        packed = compressor.compress(dict(state), scheme)
        wide = packed["weight_scale"].float() if packed["weight_scale"].dtype == torch.bfloat16 else packed["weight_scale"]
        decoded = dict(packed, weight_scale=wide)  # in float32, as the runtime does
        stored[f"expected.{case}"] = compressor.decompress(decoded, scheme)["weight"].float().contiguous()
        if case == "nvfp4":  # which the package decodes in bf16
            codes = unpack_fp4_from_uint8(packed["weight_packed"], *shape, dtype=torch.float32)
            stored[f"expected.{case}"] = codes * (packed["weight_scale"].float() / whole).repeat_interleave(16, dim=1)
        stored |= {f"{case}.{key}": value.contiguous() for key, value in packed.items()}
        if case == "nvfp4":
            stored["modelopt.weight"], stored["modelopt.weight_scale"] = packed["weight_packed"].clone(), packed["weight_scale"].clone()
            stored["modelopt.weight_scale_2"] = (1 / whole[0]).clone()
            stored["modelopt.input_scale"] = torch.tensor(0.5)
        print(case, {key: (str(value.dtype), tuple(value.shape)) for key, value in packed.items()})
    save_file(stored, OUT)


main()
