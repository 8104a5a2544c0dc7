"""Makes the generated pages of docs/, and checks them and all links between Markdown files.

    python3 tools/docs/docs.py            writes docs/std.md and docs/cli.md (./dev docs)
    python3 tools/docs/docs.py --check    says what differs and which links lead nowhere; exit status 1 if anything does (CTest: docs.generated)
"""
import difflib
import os
import pathlib
import re
import sys

import cli
import std

ROOT = std.ROOT
PAGES = {"docs/std.md": std.make, "docs/cli.md": cli.make}


def without_code(text):
    """Markdown without code blocks and code spans, whose brackets are no links."""
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    lines = [line for line in text.splitlines() if not line.startswith(("    ", "\t"))]
    return re.sub(r"`[^`\n]*`", lambda span: "x" * len(span[0]), "\n".join(lines))


def anchors(text):
    """Names of a page's headings, as GitHub makes them."""
    found, code = set(), False
    for line in text.splitlines():
        code ^= line.startswith("```")
        if not code and (heading := re.match(r"#+ (.*)", line)):
            words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).lower().strip()
            base = name = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
            count = 0
            while name in found:
                count += 1
                name = f"{base}-{count}"
            found.add(name)
    return found


def pages():
    """All Markdown files but those of builds and of Git."""
    for folder, folders, files in os.walk(ROOT):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "build")))
        yield from (pathlib.Path(folder) / name for name in sorted(files) if name.endswith(".md"))


def broken_links():
    """Each relative link of a Markdown file must lead to a file or folder of the repository, and its #name to a heading."""
    broken = []
    for page in pages():
        name = page.relative_to(ROOT)
        for target in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text())):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            there = (page.parent / path).resolve() if path else page
            if not there.exists():
                broken.append(f"{name}: {target} leads nowhere")
            elif not there.is_relative_to(ROOT):
                broken.append(f"{name}: {target} leads out of the repository")
            elif anchor and there.suffix == ".md" and anchor not in anchors(there.read_text()):
                broken.append(f"{name}: {target}: there is no such heading")
    return broken


def main(arguments):
    if arguments not in ([], ["--check"]):
        raise SystemExit(__doc__)
    faults = []
    for name, make in PAGES.items():
        page, text = ROOT / name, make()
        if not arguments:
            page.write_text(text)
        elif not page.exists() or page.read_text() != text:
            old = page.read_text() if page.exists() else ""
            difference = difflib.unified_diff(old.splitlines(), text.splitlines(), name, "generated", lineterm="")
            faults.append("\n".join([f"{name} is not what ./dev docs makes:", *difference]))
    faults += broken_links()
    if faults:
        print("\n".join(faults))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
