"""The head of a GGUF file: what tests and benchmarks that write one share."""
import struct

TEXT, U32, F32, BOOL, LIST = 8, 4, 6, 7, 9


def text(value):
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def value(item):
    if isinstance(item, bool):
        return struct.pack("<IB", BOOL, item)
    if isinstance(item, int):
        return struct.pack("<II", U32, item)
    if isinstance(item, float):
        return struct.pack("<If", F32, item)
    if isinstance(item, str):
        return struct.pack("<I", TEXT) + text(item)
    if item and isinstance(item[0], int):
        return struct.pack(f"<IIQ{len(item)}I", LIST, U32, len(item), *item)
    return struct.pack("<IIQ", LIST, TEXT, len(item)) + b"".join(map(text, item))


def header(values, tensors):
    """Everything before the data: `values` by key; of each tensor its name, its shape (outermost first), its type's number and its bytes."""
    infos, at = [], 0
    for name, shape, kind, size in tensors:
        infos.append(text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), kind, at))
        at += size + -size % 32
    begin = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(values)) + b"".join(text(key) + value(item) for key, item in values.items()) + b"".join(infos)
    return begin + b"\0" * (-len(begin) % 32)
