"""The rules of includes: which room may see which, and which room within a room; sizes of files and folders.

The table below is the map of the house. A unit is a folder, or files of one (`codegen:Targets` is codegen/Targets.*). What a unit
may include is listed; everything else is an error. Includes that still go against the table are listed as EXCEPTIONS with their reason,
and one that no longer occurs must be taken off, so that the list can only shrink.
"""

import os
import pathlib
import re
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SUFFIXES = (".cpp", ".h", ".td")
MOST_FILES, MOST_LINES = 25, 500
README_LINES, README_WIDTH = 60, 150  # a room's README is one page; reasons and reference go to docs/
# What people write by hand, of all kinds, counts: so many files a folder, so many lines a file.
WRITTEN = (".cpp", ".h", ".td", ".py", ".quern", ".mlir", ".test", ".js", ".css", ".html", ".cmake", ".sh", ".in")
SIZED = ("support", "ir", "frontend", "passes", "codegen", "runtime", "tools", "tests", "examples", "cmake")
# Folders that are lists by nature: one file for each thing, which all look alike and are found by their names.
LISTS = {"examples": "a spec for each architecture"}
DATA = "tests/data/"  # made by scripts; the scripts themselves count
SCRIPTS = "tests/data/generate"

# Room -> the rooms (or folders of one) that it may see. Dependencies form a star on ir/; tools/ has the mains and sees all.
ROOMS = {
    "support": [],  # files, JSON, text: for the compiler and for its programs
    "ir": ["support"],
    "frontend": ["support", "ir"],
    "passes": ["support", "ir"],
    "codegen": ["support", "ir", "runtime/abi"],  # the C interface that programs and the runtime share
    "runtime": ["support"],
    "tools": ["support", "ir", "frontend", "passes", "codegen", "runtime"],
}

# Unit -> the units of the same room that it may include.
UNITS = {
    "support": [],
    "support/numbers": ["support"],

    "ir": [],
    "ir/analysis": ["ir"],
    "ir/reference": ["ir", "ir/analysis"],
    "ir/rules": ["ir"],

    "frontend": ["frontend/syntax", "frontend/check", "frontend/build"],
    "frontend/syntax": [],
    "frontend/check": ["frontend/syntax"],
    "frontend/build": ["frontend/check", "frontend/syntax"],

    "passes": [],
    "passes:Phases": ["passes"],
    "passes:Without.cpp": ["passes", "passes:Phases"],  # the names that can be left out are those of the table of phases
    "passes/time": ["passes"],
    "passes/weights": ["passes"],
    "passes/raise": ["passes", "passes/weights"],
    "passes/fuse": ["passes"],
    "passes/gradient": ["passes", "passes/weights"],
    "passes/incremental": ["passes", "passes/time", "passes/raise", "passes/weights"],
    "passes/memory": ["passes"],

    "codegen:Targets": [],
    "codegen/kernel": ["codegen:Targets"],
    "codegen/schedule": ["codegen:Targets", "codegen/kernel"],
    "codegen/halide/lowered": [],
    "codegen/halide/words": ["codegen/halide/lowered", "codegen/kernel"],
    "codegen/halide": ["codegen:Targets", "codegen/schedule", "codegen/kernel", "codegen/halide/words", "codegen/halide/lowered", "codegen/llvm:Bitcode"],
    "codegen/halide/attention": ["codegen/halide", "codegen/halide/words", "codegen/kernel"],
    "codegen/halide/contraction": ["codegen/halide", "codegen/halide/words", "codegen/kernel"],
    "codegen/halide/contraction/routed": ["codegen/halide", "codegen/halide/words", "codegen/halide/contraction", "codegen/kernel"],
    "codegen/halide/contraction:TakeContractions": ["codegen/halide", "codegen/halide/contraction", "codegen/halide/contraction/routed", "codegen/kernel"],
    "codegen/halide:HalideProducer": ["codegen:Targets", "codegen/halide", "codegen/halide/attention", "codegen/halide/contraction:TakeContractions", "codegen/kernel"],
    "codegen/halide/gpu": ["codegen:Targets", "codegen/halide", "codegen/halide/contraction:TakeContractions", "codegen/schedule", "codegen/kernel", "codegen/scan:ScanShape"],
    "codegen/scan:ScanShape": ["codegen:Targets", "codegen/kernel"],  # how a recurrence is divided, whoever writes it
    "codegen/llvm:Bitcode": ["codegen:Targets", "codegen/kernel", "codegen/llvm"],  # names no type of LLVM's: Halide's kernels go there
    "codegen/llvm": ["codegen:Targets", "codegen/kernel"],  # what whoever writes LLVM IR shares
    "codegen/scan": ["codegen:Targets", "codegen/schedule", "codegen/kernel", "codegen/llvm", "codegen/scan:ScanShape"],
    "codegen/tile:Program": ["codegen/kernel"],  # what a launch does and how it is begun, whoever writes it
    "codegen/tile:Signature": ["codegen/kernel", "codegen/tile:Program"],
    "codegen/tile/ptx": ["codegen/kernel", "codegen/llvm", "codegen/tile:Program", "codegen/tile:Signature"],
    "codegen/tile:Places": ["codegen/kernel", "codegen/tile:Program"],  # what attention and products are divided and run with
    "codegen/tile:Operands": ["codegen/kernel", "codegen/tile:Program"],
    "codegen/tile:HostValues": ["codegen/kernel", "codegen/tile:Program"],
    "codegen/tile/attend": ["codegen/kernel", "codegen/tile:Program", "codegen/tile:Places", "codegen/tile:Operands", "codegen/tile:HostValues"],
    "codegen/tile/products": ["codegen/kernel", "codegen/tile:Program", "codegen/tile:Places", "codegen/tile:Operands"],
    "codegen/tile": ["codegen:Targets", "codegen/schedule", "codegen/kernel", "codegen/llvm", "codegen/tile:Program", "codegen/tile:Signature", "codegen/tile/ptx", "codegen/tile:Places", "codegen/tile:Operands", "codegen/tile:HostValues", "codegen/tile/attend", "codegen/tile/products"],
    "codegen/link": [],
    "codegen:ReadKernel": ["codegen/kernel"],
    "codegen/host": ["codegen:Targets", "codegen:ReadKernel", "codegen/kernel"],
    "codegen/tuning": ["codegen", "codegen:Targets", "codegen:ReadKernel", "codegen/kernel", "codegen/schedule", "codegen/host", "codegen/link"],
    "codegen": ["codegen:Targets", "codegen:ReadKernel", "codegen/schedule", "codegen/kernel", "codegen/halide:HalideProducer", "codegen/halide/gpu", "codegen/scan", "codegen/tile", "codegen/link", "codegen/host"],

    "runtime": [],
    "runtime/abi": ["runtime"],
    "runtime/files": ["runtime"],
    "runtime/formats": ["runtime", "runtime/files"],
    "runtime/gguf": ["runtime", "runtime/files", "runtime/formats", "runtime/tokenizer/text", "runtime/tokenizer/model"],
    "runtime/sampling:Draw": [],  # a choice as plain numbers, for devices
    "runtime/machine": ["runtime", "runtime/abi", "runtime/sampling:Draw"],
    "runtime/device": ["runtime", "runtime/machine", "runtime/sampling:Draw"],
    "runtime/device/opencl": ["runtime", "runtime/device"],
    "runtime/device/cuda": ["runtime", "runtime/device"],
    "runtime/device/vulkan": ["runtime", "runtime/device"],
    "runtime/unicode": [],
    "runtime/tokenizer/text": ["runtime", "runtime/unicode"],
    "runtime/tokenizer/model": ["runtime", "runtime/tokenizer/text"],
    "runtime/tokenizer/model:TrainBpe": ["runtime", "runtime/tokenizer/text", "runtime/tokenizer/model", "runtime/tokenizer"],
    "runtime/tokenizer": ["runtime", "runtime/tokenizer/text", "runtime/tokenizer/model"],
    "runtime/tokenizer/files": ["runtime", "runtime/tokenizer/text", "runtime/tokenizer/model"],
    "runtime/weights": ["runtime", "runtime/abi", "runtime/files", "runtime/formats", "runtime/gguf", "runtime/machine"],
    "runtime/template": ["runtime", "runtime/tokenizer/text"],
    "runtime/sampling": ["runtime", "runtime/machine", "runtime/sampling:Draw"],
    "runtime/engine": ["runtime", "runtime/abi", "runtime/machine", "runtime/weights", "runtime/files", "runtime/sampling",
                       "runtime/tokenizer"],
    "runtime/cli": ["runtime", "runtime/abi", "runtime/machine", "runtime/weights", "runtime/files", "runtime/sampling", "runtime/tokenizer", "runtime/tokenizer/files",
                    "runtime/tokenizer/text", "runtime/template", "runtime/engine"],
    "runtime/tuning": ["runtime", "runtime/abi", "runtime/machine", "runtime/engine", "runtime/cli"],
    "runtime/library": ["runtime", "runtime/machine", "runtime/weights", "runtime/tokenizer", "runtime/tokenizer/files", "runtime/engine"],
    "runtime/training": ["runtime", "runtime/abi", "runtime/machine", "runtime/weights", "runtime/files", "runtime/sampling",
                         "runtime/tokenizer", "runtime/tokenizer/files", "runtime/tokenizer/text", "runtime/engine", "runtime/cli"],

    "tools:Arguments": [],
    "tools/interpret": [],
    "tools/crash": ["tools:Arguments"],
    "tools/start": [],
    "tools/spec": ["tools:Arguments", "tools/crash", "tools/interpret"],
    "tools/bisect": ["tools/interpret"],
    "tools/doctor": ["tools/interpret"],
    "tools/inspect": ["tools/spec"],
    "tools/reduce": [],
    "tools/report": [],
    "tools/quantize": ["tools/interpret", "tools/report", "tools/spec"],
    "tools/tune": ["tools/report"],
    "tools/cli": ["tools:Arguments", "tools/bisect", "tools/crash", "tools/doctor", "tools/inspect", "tools/interpret", "tools/quantize", "tools/spec", "tools/start", "tools/tune"],
    "tools": ["tools:Arguments", "tools/cli", "tools/crash"],
}

# Includes that go against the table, and why they still do.
EXCEPTIONS = {}

# What makes machine code of kernels is the key of its cache: it sees no MLIR, and of ir/ only plain headers.
KERNELS = ("codegen:Targets", "codegen/schedule", "codegen/kernel", "codegen/halide", "codegen/halide:HalideProducer", "codegen/halide/attention", "codegen/halide/contraction",
           "codegen/halide/contraction/routed", "codegen/halide/contraction:TakeContractions", "codegen/halide/gpu", "codegen/halide/words", "codegen/halide/lowered")
PLAIN = ("ir/Size.h",)
MLIR = re.compile(r"(mlir|llvm)/")
# Includes of the outside that a unit (and the folders below it) must not have: pattern, what it is.
OUTSIDE = {
    **{unit: [(MLIR, "MLIR")] for unit in KERNELS},
    "frontend/syntax": [(MLIR, "MLIR")],
    "frontend/check": [(MLIR, "MLIR")],
    "runtime": [(MLIR, "MLIR"), (re.compile(r"Halide\.h$"), "Halide"), (re.compile(r"(iostream|fstream|sstream)$"), "iostreams")],
}
HALIDE = re.compile(r"Halide\.h$")
SEES_HALIDE = "codegen/halide"

LONG = {}

INCLUDE = re.compile(r'^[ \t]*#?[ \t]*include[ \t]+(?:"([^"]+)"|<([^>]+)>)', re.M)


class Checker:
    def __init__(self, root, units=UNITS, rooms=ROOMS, exceptions=EXCEPTIONS, long=LONG):
        self.root, self.units, self.rooms, self.exceptions, self.long = root, units, rooms, exceptions, long
        self.errors, self.used = [], set()
        self.files = self.listed(rooms)

    def listed(self, folders, suffixes=SUFFIXES):
        return sorted(
            os.path.relpath(os.path.join(folder, name), self.root)
            for top in folders
            for folder, _, names in os.walk(os.path.join(self.root, top))
            for name in names
            if name.endswith(suffixes))

    def unit(self, file):
        """The unit of a file; nothing if the table does not know its folder."""
        folder, name = os.path.split(file)
        for own in (folder + ":" + name, folder + ":" + name.split(".")[0], folder):
            if own in self.units:
                return own
        return None

    def run(self):
        self.check_table()
        for file in self.files:
            self.check_file(file)
        for (file, other), _ in self.exceptions.items():
            if (file, other) not in self.used:
                self.errors.append(f"{file} no longer includes {other}: take it off the exceptions")
        self.check_sizes()
        return self.errors

    def check_table(self):
        state = {}

        def visit(unit, path):
            if state.get(unit) == "open":
                self.errors.append("the table has a circle: " + " -> ".join(path[path.index(unit):] + [unit]))
            if unit in state:
                return
            state[unit] = "open"
            for other in self.units[unit]:
                visit(other, path + [unit])
            state[unit] = "done"

        for unit in self.units:
            visit(unit, [])

    def check_file(self, file):
        unit = self.unit(file)
        if unit is None:
            self.errors.append(f"{file}: the folder is not in the table of tests/rooms_test.py")
            return
        with open(os.path.join(self.root, file), encoding="utf-8") as opened:
            text = opened.read()
        for match in INCLUDE.finditer(text):
            ours, outside = match.groups()
            target = ours or outside
            if ours and (beside := os.path.join(os.path.dirname(file), target)) in self.files:
                target = beside
            at = f"{file}:{text.count(chr(10), 0, match.start()) + 1}"
            if target.split("/")[0] in self.rooms and "/" in target:
                self.check_inside(at, file, unit, target)
            else:
                self.check_outside(at, unit, target)

    def check_outside(self, at, unit, target):
        for within, patterns in OUTSIDE.items():
            for pattern, what in patterns:
                if (unit == within or unit.startswith(within + "/")) and pattern.match(target):
                    self.errors.append(f"{at}: {within} must not see {what}: {target}")
        if HALIDE.match(target) and unit.startswith("codegen") and not unit.startswith(SEES_HALIDE):
            self.errors.append(f"{at}: only {SEES_HALIDE} sees Halide")

    def check_inside(self, at, file, unit, target):
        if unit in KERNELS and target.startswith("ir/") and target not in PLAIN:
            self.errors.append(f"{at}: {unit} sees of ir/ only {', '.join(PLAIN)}, not {target}")
            return
        other = self.unit(target)
        if other is None:
            self.errors.append(f"{at}: {target} is in no folder of the table")
            return
        room, other_room = unit.split("/")[0].split(":")[0], other.split("/")[0].split(":")[0]
        if room != other_room:
            allowed = any(other == seen or other.startswith((seen + "/", seen + ":")) for seen in self.rooms[room])
        else:
            allowed = other == unit or other in self.units[unit]
        if allowed:
            return
        if (file, target) in self.exceptions:
            self.used.add((file, target))
            return
        sees = self.rooms[room] if room != other_room else self.units[unit]
        self.errors.append(f"{at}: {unit} must not include {target}; it sees {', '.join(sees) or 'nothing else'}")

    def check_sizes(self):
        count = {}
        for file in self.listed(SIZED, WRITTEN):
            folder = os.path.dirname(file)
            if file.startswith(DATA) and folder != SCRIPTS:
                continue
            count[folder] = count.get(folder, 0) + 1
            with open(os.path.join(self.root, file), encoding="utf-8") as opened:
                lines = sum(1 for _ in opened)
            if lines > MOST_LINES and file not in self.long:
                self.errors.append(f"{file} has {lines} lines, of at most {MOST_LINES}")
            if lines <= MOST_LINES and file in self.long:
                self.errors.append(f"{file} has only {lines} lines: take it off the list of long files")
        for room in self.rooms:
            readme = pathlib.Path(self.root, room, "README.md")
            text = readme.read_text(encoding="utf-8").splitlines() if readme.exists() else []
            if len(text) > README_LINES:
                self.errors.append(f"{room}/README.md has {len(text)} lines, of at most {README_LINES}")
            self.errors += [f"{room}/README.md:{number}: {len(line)} characters, of at most {README_WIDTH}"
                            for number, line in enumerate(text, 1) if len(line) > README_WIDTH]
        for folder, files in count.items():
            if files > MOST_FILES and folder not in LISTS:
                self.errors.append(f"{folder} has {files} files, of at most {MOST_FILES}")


class Rooms(unittest.TestCase):
    def test_house(self):
        errors = Checker(ROOT).run()
        self.assertFalse(errors, "\n" + "\n".join(errors))

    def test_every_source_of_a_test_is_built(self):
        """A test that no CMakeLists.txt names would never run."""
        tests = pathlib.Path(ROOT) / "tests"
        lists = {path.parent: path.read_text() for path in tests.glob("**/CMakeLists.txt")}
        whole = [folder for folder, text in lists.items() if re.search(r"GLOB.* \*(Test)?\.cpp", text)]
        named = "".join(lists.values())
        unlisted = [str(path) for path in tests.glob("**/*.cpp") if path.parent not in whole and not re.search(rf"\b{path.stem}\b", named)]
        self.assertFalse(unlisted)


class TheCheckerItself(unittest.TestCase):
    """Each rule is broken once, in a house of a few files."""

    UNITS = {"ir": [], "ir/deep": ["ir"], "passes": [], "passes:Top": ["passes"], "codegen/kernel": [], "codegen/halide": ["codegen/kernel"], "runtime": []}
    ROOMS = {"ir": [], "passes": ["ir"], "codegen": ["ir"], "runtime": []}

    def errors(self, files, units=None, exceptions=None, long=None):
        import tempfile
        with tempfile.TemporaryDirectory() as root:
            for name, text in files.items():
                os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
                with open(os.path.join(root, name), "w", encoding="utf-8") as file:
                    file.write(text)
            return Checker(root, units or self.UNITS, self.ROOMS, exceptions or {}, long or {}).run()

    def assertOne(self, errors, part):
        self.assertEqual(len(errors), 1, errors)
        self.assertIn(part, errors[0])

    def test_what_is_allowed(self):
        self.assertEqual(self.errors({"passes/A.cpp": '#include "ir/B.h"\n#include "passes/A.h"\n#include "mlir/IR/Block.h"\n',
                                      "passes/Top.cpp": '#include "passes/A.h"\n', "ir/deep/C.h": '#include "ir/B.h"\n#include <vector>\n',
                                      "codegen/kernel/K.h": '#include "ir/Size.h"\n', "codegen/halide/H.cpp": "#include <Halide.h>\n"}), [])

    def test_upwards(self):
        self.assertOne(self.errors({"ir/B.h": '\n#include "passes/A.h"\n'}), "ir/B.h:2: ir must not include passes/A.h; it sees nothing else")
        self.assertOne(self.errors({"ir/B.h": '#include "ir/deep/C.h"\n'}), "ir must not include ir/deep/C.h")
        self.assertOne(self.errors({"passes/A.h": '#include "passes/Top.h"\n'}), "passes must not include passes/Top.h")
        self.assertOne(self.errors({"passes/A.h": '#include "Top.h"\n', "passes/Top.h": ""}), "passes must not include passes/Top.h")

    def test_exceptions_shrink(self):
        exception = {("ir/B.h", "passes/A.h"): "why"}
        self.assertEqual(self.errors({"ir/B.h": '#include "passes/A.h"\n'}, exceptions=exception), [])
        self.assertOne(self.errors({"ir/B.h": ""}, exceptions=exception), "take it off the exceptions")

    def test_circles(self):
        self.assertOne(self.errors({}, units={"ir": ["ir/deep"], "ir/deep": ["ir"]}), "circle: ir -> ir/deep -> ir")

    def test_outside(self):
        self.assertOne(self.errors({"codegen/kernel/K.h": '#include "mlir/IR/Block.h"\n'}), "must not see MLIR")
        self.assertOne(self.errors({"codegen/kernel/K.h": '#include "ir/Dialect.h"\n'}), "sees of ir/ only ir/Size.h")
        self.assertOne(self.errors({"codegen/kernel/K.h": "#include <Halide.h>\n"}), "only codegen/halide sees Halide")
        self.assertOne(self.errors({"runtime/R.cpp": "#include <iostream>\n"}), "must not see iostreams")

    def test_sizes(self):
        self.assertOne(self.errors({"ir/B.h": "\n" * 501}), "ir/B.h has 501 lines, of at most 500")
        self.assertEqual(self.errors({"ir/B.h": "\n" * 501}, long={"ir/B.h": "why"}), [])
        self.assertOne(self.errors({"ir/B.h": "\n"}, long={"ir/B.h": "why"}), "take it off the list")
        self.assertOne(self.errors({f"ir/B{i}.h": "" for i in range(26)}), "ir has 26 files, of at most 25")
        self.assertOne(self.errors({f"tests/ir/B{i}.h": "" for i in range(26)}), "tests/ir has 26 files, of at most 25")
        self.assertOne(self.errors({f"tests/e2e/b{i}.py": "" for i in range(26)}), "tests/e2e has 26 files, of at most 25")
        self.assertOne(self.errors({"tests/lit/passes/long.mlir": "\n" * 501}), "tests/lit/passes/long.mlir has 501 lines")
        self.assertOne(self.errors({f"tests/data/generate/b{i}.py": "" for i in range(26)}), "tests/data/generate has 26 files")
        self.assertEqual(self.errors({f"tests/data/gpt2/b{i}.py": "" for i in range(26)}), [])
        self.assertOne(self.errors({"ir/new/B.h": ""}), "not in the table")
        self.assertOne(self.errors({"ir/README.md": "\n" * 61}), "ir/README.md has 61 lines, of at most 60")
        self.assertOne(self.errors({"ir/README.md": "\n" + "a" * 151}), "ir/README.md:2: 151 characters, of at most 150")


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
