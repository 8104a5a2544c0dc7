"""Takes a checkpoint of `PROGRAM train`. Gives the same model in 16 bits (F16), half as large: model.safetensors, config.json, tokenizer.json.

    python3 examples/novels/half.py CHECKPOINT OUTPUT
"""
import array
import json
import pathlib
import shutil
import struct
import sys


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, output = map(pathlib.Path, sys.argv[1:])
    raw = (source / "model.safetensors").read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    header, parts, offset, worst = {}, [], 0, 0.0
    for name, entry in json.loads(raw[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        if entry["dtype"] != "F32":
            sys.exit(f"half.py: {name} is {entry['dtype']}, not F32")
        values = array.array("f", raw[8 + size + begin : 8 + size + end])
        part = struct.pack(f"<{len(values)}e", *values)
        worst = max(worst, max(abs(a - b) for a, b in zip(values, struct.unpack(f"<{len(values)}e", part))))
        header[name] = {"dtype": "F16", "shape": entry["shape"], "data_offsets": [offset, offset + len(part)]}
        offset += len(part)
        parts.append(part)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    output.mkdir(parents=True, exist_ok=True)
    (output / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))
    config = {"model_type": "gpt2"} | json.loads((source / "config.json").read_text())
    (output / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    shutil.copy(source / "tokenizer.json", output / "tokenizer.json")
    print(f"{output}: {offset / 1e6:.1f} MB; no number moved by more than {worst:.1g}")


if __name__ == "__main__":
    main()
