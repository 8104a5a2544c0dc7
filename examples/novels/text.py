#!/usr/bin/env python3
"""Jane Austen's six novels as one text, from Debian's package r-cran-janeaustenr (free; the novels are out of copyright).

    text.py FOLDER OUT.txt      FOLDER: the package, unpacked (dpkg-deb -x); `./dev novels` does all of it

The package keeps each novel as a vector of lines in R's own format (Rdata.rdb: four bytes of length, then zlib), which is read here without
R. Lines become paragraphs, one a line; typographic quotes, dashes and accents become ASCII, so that few symbols are learned; titles and
headings of chapters go. The result is the same to the byte on every machine.
"""
import hashlib
import pathlib
import re
import struct
import sys
import unicodedata
import zlib

SHA256 = "7a5c370e9331d7f8b2c070ac70d9938989015080d37a6e1cf60e481f12e1b866"
PLAIN = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2013": "-", "\u2014": "--", "\u00a3": "L", "\u2026": "...", "_": None})


def vectors(data):
    """The uncompressed chunks of an R lazy-load file."""
    while data:
        (size,) = struct.unpack(">i", data[:4])
        stream = zlib.decompressobj()
        chunk = stream.decompress(data[4:])
        if len(chunk) != size:
            sys.exit(f"text.py: a chunk of {len(chunk)} bytes where {size} were promised")
        yield chunk
        data = stream.unused_data


def strings(chunk):
    """The elements of a serialized character vector (type 16), each a CHARSXP: flags, length, bytes; length -1 is NA."""
    encoding = 14                                        # "X\\n", version, writer, oldest reader: then the native encoding's name
    at = encoding + 4 + struct.unpack_from(">i", chunk, encoding)[0]
    kind, count = struct.unpack_from(">ii", chunk, at)
    if kind & 255 != 16:
        sys.exit(f"text.py: a vector of type {kind & 255}, not of strings")
    at += 8
    for _ in range(count):
        length = struct.unpack_from(">i", chunk, at + 4)[0]
        yield chunk[at + 8:at + 8 + max(length, 0)].decode()
        at += 8 + max(length, 0)


def ascii_only(text):
    decomposed = unicodedata.normalize("NFKD", text.translate(PLAIN))
    return decomposed.encode("ascii", "ignore").decode()


def paragraphs(lines):
    for block in "\n".join(line.strip() for line in lines).split("\n\n"):
        text = re.sub(r"\s+", " ", ascii_only(block)).strip()
        # A paragraph ends with a stop or a quotation mark; titles, names of authors and headings of chapters do not.
        if text and not re.match(r"(CHAPTER|Chapter|VOLUME|Volume|THE END|FINIS|\*|\(18)", text) and re.search(r"[.!?\"':;,)-]$", text):
            yield text


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    folder, out = map(pathlib.Path, sys.argv[1:])
    (path,) = folder.glob("usr/lib/R/site-library/janeaustenr/data/Rdata.rdb")
    novels = ["\n".join(paragraphs(strings(chunk))) for chunk in vectors(path.read_bytes())]
    text = "\n".join(novels) + "\n"
    digest = hashlib.sha256(text.encode()).hexdigest()
    if digest != SHA256:
        sys.exit(f"text.py: another text than the one that is known (SHA-256 {digest}); is the package another version?")
    out.write_text(text, encoding="ascii")
    print(f"{out}: {len(novels)} novels, {len(text):,} characters")


if __name__ == "__main__":
    main()
