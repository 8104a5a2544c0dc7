"""Numbers in few bits: blocks of GGUF, 8-bit floats, GPTQ, AWQ and gpt-oss's MXFP4, each with the values that they stand for.

Writes formats/ggml-quants.safetensors and formats/packed-quants.safetensors, and of the package's grids runtime/formats/GridPoints.inc. What decodes the blocks of GGUF is the package `gguf`, 8-bit floats `ml_dtypes`;
GPTQ, AWQ and MXFP4 are packed here from codes that are known, in the order that their published checkpoints have.
"""
from pathlib import Path

import gguf
import ml_dtypes
import numpy as np
from gguf import GGMLQuantizationType as Q
from safetensors.numpy import save_file

OUT = Path(__file__).resolve().parents[1] / "formats"
POINTS = Path(__file__).resolve().parents[3] / "runtime" / "formats" / "GridPoints.inc"
KINDS = (Q.Q4_0, Q.Q4_1, Q.Q5_0, Q.Q5_1, Q.Q8_0, Q.Q2_K, Q.Q3_K, Q.Q4_K, Q.Q5_K, Q.Q6_K, Q.IQ4_NL, Q.IQ4_XS, Q.MXFP4, Q.TQ2_0,
         Q.IQ2_XXS, Q.IQ2_XS, Q.IQ2_S, Q.IQ3_XXS, Q.IQ3_S, Q.IQ1_S, Q.IQ1_M, Q.TQ1_0, Q.NVFP4)
# Of formats with a grid: which bits of a block are the number of point i, as (first, of how many in a stride, stride, step, width).
NUMBERS = {Q.IQ2_XXS: ((16, 4, 64, 8, 8),), Q.IQ2_XS: ((16, 1, 16, 0, 9),), Q.IQ2_S: ((16, 1, 8, 0, 8), (528, 1, 2, 0, 2)), Q.IQ3_XXS: ((16, 1, 8, 0, 8),),
           Q.IQ3_S: ((16, 1, 8, 0, 8), (528, 1, 1, 0, 1)), Q.IQ1_S: ((16, 1, 8, 0, 8), (272, 4, 16, 3, 3))}


def blocks_of_gguf():
    """Random blocks of each type with the float32 values they stand for, and rows with their quantised bytes where the package quantises."""
    rng, save = np.random.default_rng(5), {}
    rows = (rng.standard_normal((4, 512)) * np.array([[1.0], [0.01], [30.0], [0.3]])).astype(np.float32)
    rows[3, :64] = 0
    save["quantize.input"] = rows
    for kind in KINDS:
        block, size = gguf.GGML_QUANT_SIZES[kind]
        if kind in (Q.Q4_0, Q.Q8_0):
            save[f"quantize.{kind.name}.bytes"] = np.ascontiguousarray(gguf.quants.quantize(rows, kind)).view(np.uint8)
        blocks = []
        while len(blocks) < max(3, 256 // block):
            one = rng.integers(0, 256, (1, size), dtype=np.uint8)
            with np.errstate(all="ignore"):
                value = gguf.quants.dequantize(one, kind)
            if np.isfinite(value).all() and 1e-3 < np.abs(value).max() < 1e4:
                blocks.append(one)
        raw = np.concatenate(blocks)
        save[f"decode.{kind.name}.bytes"], save[f"decode.{kind.name}.values"] = raw, gguf.quants.dequantize(raw, kind).astype(np.float32)
    for kind in NUMBERS:
        save[f"points.{kind.name}.bytes"] = raw = every_point(rng, kind)
        save[f"points.{kind.name}.hash"] = np.array([fnv(gguf.quants.dequantize(raw, kind).astype(np.float32).tobytes())], np.int64)
    for name, kind in (("F8_E4M3", ml_dtypes.float8_e4m3fn), ("F8_E5M2", ml_dtypes.float8_e5m2)):
        save[f"decode.{name}.values"] = np.arange(256, dtype=np.uint8).view(kind).astype(np.float32)
    save_file({k: np.ascontiguousarray(v) for k, v in save.items()}, OUT / "ggml-quants.safetensors")


def every_point(rng, kind):
    """Blocks whose points are all of the grid, in its order; signs and scales of groups are random."""
    grid = gguf.quants._type_traits[kind]
    _, size = gguf.GGML_QUANT_SIZES[kind]
    count, length = grid.grid_shape
    each = 256 // length
    raw = rng.integers(0, 256, (count // each, size), dtype=np.uint8)
    raw[:, :2] = np.array([1], np.float16).view(np.uint8)
    bits = np.unpackbits(raw, axis=1, bitorder="little")
    for number in range(count):
        left = number
        for first, several, stride, step, width in NUMBERS[kind]:
            i = number % each
            for bit in range(width):
                bits[number // each, first + i // several * stride + i % several * step + bit] = left & 1
                left >>= 1
    return np.packbits(bits, axis=1, bitorder="little")


def fnv(data):
    """64 bits of FNV-1a, as a number with a sign."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value - 2**64 if value >= 2**63 else value


def points():
    """A grid is a set of points whose coordinates are digits, in the order of the numbers that they spell: a bit for each number."""
    lines = ["// Which points a grid has: a bit for each, by the number that its digits spell, the first digit the lowest.",
             "// Written by tests/data/generate/make_quants.py out of the package gguf."]
    for kind in NUMBERS:
        grid = gguf.quants._type_traits[kind]
        grid.init_grid()
        digits = np.vectorize(list(grid.grid_map).index)(grid.grid.reshape(grid.grid_shape).astype(int))
        radix, (_, length) = len(grid.grid_map), grid.grid_shape
        spelled = [int(x) for x in (digits * radix ** np.arange(length)).sum(1)]
        assert spelled == sorted(set(spelled))
        words = [0] * (-(-(radix**length) // 64))
        for number in spelled:
            words[number // 64] |= 1 << number % 64
        lines.append(f"constexpr uint64_t points{kind.name.replace('_', '')}[] = {{")
        lines += ["    " + " ".join(f"{word:#x}," for word in words[i : i + 5]) for i in range(0, len(words), 5)]
        lines[-1] = lines[-1][:-1] + "};"
    POINTS.write_text("\n".join(lines) + "\n")


def nibbles(codes, order):
    """Eight 4-bit codes along the last axis as one int32: order[i] is the code in bits 4i .. 4i+3."""
    groups = codes.reshape(*codes.shape[:-1], -1, 8)[..., order].astype(np.uint32)
    return np.bitwise_or.reduce(groups << (4 * np.arange(8, dtype=np.uint32)), axis=-1).astype(np.uint32).view(np.int32)


def packed():
    rng, save, group, inner, outer = np.random.default_rng(6), {}, 32, 64, 24
    codes = rng.integers(0, 16, (inner, outer), dtype=np.uint8)
    zeros = rng.integers(1, 16, (inner // group, outer), dtype=np.uint8)
    scales = (rng.random((inner // group, outer)) * 0.02 + 0.001).astype(np.float16)
    straight, awq = list(range(8)), [0, 2, 4, 6, 1, 3, 5, 7]
    for name, order in (("gptq", np.arange(inner) // group), ("gptq_act", rng.permutation(np.arange(inner) // group))):
        order = order.astype(np.int32)  # which group a row of codes has; not sorted where quantisation went by activation
        save |= {f"{name}.qweight": np.ascontiguousarray(nibbles(codes.T, straight).T), f"{name}.qzeros": nibbles(zeros - 1, straight), f"{name}.scales": scales, f"{name}.g_idx": order}
        save[f"expected.{name}"] = ((codes.astype(np.float32) - zeros[order].astype(np.float32)) * scales[order].astype(np.float32)).T
    save |= {"awq.qweight": nibbles(codes, awq), "awq.qzeros": nibbles(zeros, awq), "awq.scales": scales}
    save["expected.awq"] = ((codes.astype(np.float32) - np.repeat(zeros, group, 0)) * np.repeat(scales, group, 0).astype(np.float32)).T
    # As DeepSeek-V3 is published: a scale for each 128 x 128, the last ones smaller. decode.F8_E4M3 says what the codes are.
    save |= {"f8.weight": rng.integers(0, 127, (130, 132), dtype=np.uint8).view(ml_dtypes.float8_e4m3fn), "f8.weight_scale_inv": (rng.random((2, 2)) + 0.5).astype(np.float32)}
    values = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
    codes = rng.integers(0, 16, (2, 6, 2, 32), dtype=np.uint8)  # experts, outputs, groups, inputs of a group
    exponents = rng.integers(120, 130, (2, 6, 2), dtype=np.uint8)
    save |= {"experts_blocks": codes[..., 0::2] | codes[..., 1::2] << 4, "experts_scales": exponents}
    save["expected.experts"] = np.ldexp(values[codes], exponents.astype(np.int32)[..., None] - 127).reshape(2, 6, 64).swapaxes(1, 2)
    save_file({k: np.ascontiguousarray(v) for k, v in save.items()}, OUT / "packed-quants.safetensors")


if __name__ == "__main__":
    blocks_of_gguf()
    packed()
    points()
