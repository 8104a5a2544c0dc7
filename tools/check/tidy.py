"""clang-tidy's chosen checks (.clang-tidy) over every source file of the build, in parallel.

    tools/check/tidy.py BUILD [--changed | FILE ...]

--changed: the sources that differ from main, on main itself those of the last commit, at most MOST of them (CI has minutes; ./dev test
nightly looks at all). A file is looked at again only when it, a header of the project that it includes, the checks or clang-tidy changed: results that were
clean are kept in the cache (QUERN_CACHE, else XDG_CACHE_HOME/quern, else ~/.cache/quern). Exit status 1: something was found."""
import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROOMS = ("frontend", "ir", "passes", "codegen", "runtime", "tools", "support")
INCLUDE = re.compile(rb'^#include "([^"]+)"', re.MULTILINE)
# Clang's precompiled header, of one processor; the header itself is named behind it, which is then read.
PRECOMPILED = re.compile(r"-Xclang -include-pch -Xclang \S+\.pch ")
TIDY = "clang-tidy-22"
MOST = 10


def cache_folder():
    base = os.environ.get("QUERN_CACHE") or pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "quern"
    folder = pathlib.Path(base) / "tidy"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@functools.lru_cache(maxsize=None)
def headers(path):
    """The project's headers that `path` includes, itself among them; generated ones follow from the project's own."""
    found = {path}
    for name in INCLUDE.findall(path.read_bytes()):
        header = ROOT / name.decode()
        if header.exists():
            found |= headers(header)
    return frozenset(found)


def key(path, checks):
    digest = hashlib.sha256(checks)
    for name in sorted(headers(path)) + sorted((ROOT / "ir").glob("*.td")):
        digest.update(str(name.relative_to(ROOT)).encode() + b"\0" + name.read_bytes())
    return digest.hexdigest()


def changed():
    def git(*words):
        return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True)

    base = git("merge-base", "HEAD", "main").stdout.strip()
    if not base or base == git("rev-parse", "HEAD").stdout.strip():
        base = "HEAD~1"
    names = [name for name in git("diff", "--name-only", "--diff-filter=d", base).stdout.split() if name.endswith(".cpp")]
    return [ROOT / name for name in names if name.split("/")[0] in ROOMS][:MOST]


def without_precompiled_headers(build):
    """A folder with the build's commands, their precompiled headers as text: a fresh clone is looked at before it has any."""
    folder = build / "tidy"
    folder.mkdir(exist_ok=True)
    commands = (build / "compile_commands.json").read_text()
    (folder / "compile_commands.json").write_text(PRECOMPILED.sub("", commands))
    return folder


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    wanted = changed() if sys.argv[2:] == ["--changed"] else [(ROOT / name).resolve() for name in sys.argv[2:]]
    if sys.argv[2:] and not wanted:
        print("clang-tidy: no source has changed")
        return 0
    folder = without_precompiled_headers(build)
    commands = json.loads((folder / "compile_commands.json").read_text())
    sources = sorted({pathlib.Path(entry["file"]) for entry in commands})
    sources = [path for path in sources if path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] in ROOMS]
    if wanted:
        sources = [path for path in sources if path in wanted]
    version = subprocess.run([TIDY, "--version"], capture_output=True, check=True).stdout
    checks = version + (ROOT / ".clang-tidy").read_bytes()
    cache = cache_folder()
    stamps = {path: cache / key(path, checks) for path in sources}
    waiting = [path for path in sources if not stamps[path].exists()]

    def look(path):
        # Flags of GCC that clang does not know.
        command = [TIDY, "-p", str(folder), "--quiet", "--warnings-as-errors=*", "--extra-arg=-Wno-unknown-warning-option",
                   "--extra-arg=-Wno-ignored-optimization-argument", str(path)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode == 0:
            stamps[path].touch()
        return path, done

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for count, (path, done) in enumerate(pool.map(look, waiting), 1):
            if done.returncode:
                failed += 1
                sys.stdout.write(done.stdout)
                if not done.stdout:
                    sys.stdout.write(done.stderr)
            if sys.stderr.isatty():
                sys.stderr.write(f"\r{count} of {len(waiting)} files")
    if sys.stderr.isatty() and waiting:
        sys.stderr.write("\n")
    print(f"clang-tidy: {len(sources)} files, {len(waiting)} looked at, {failed} with findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
