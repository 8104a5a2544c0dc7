"""No test is there that nothing runs: every case of Python's files is part of some CTest test, every C++ file is compiled, every check of lit's files
belongs to a command."""
import importlib
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

TESTS = pathlib.Path(__file__).resolve().parent
ROOT = TESTS.parent
sys.path.insert(0, str(ROOT))
BUILD = pathlib.Path(os.environ.get("QUERN_BUILD", ROOT / "build"))


def cases(suite):
    """The names of a suite's cases."""
    for one in suite:
        if isinstance(one, unittest.TestSuite):
            yield from cases(one)
        else:
            yield one.id()


class Registered(unittest.TestCase):
    def commands(self):
        listed = subprocess.run(["ctest", "--test-dir", BUILD, "--show-only=json-v1"], capture_output=True, text=True, check=True).stdout
        return [test.get("command", []) for test in json.loads(listed)["tests"]]

    def test_cases_of_python(self):
        given = {}  # by script: the words of each command
        for command in self.commands():
            for at, word in enumerate(command):
                if word.endswith("_test.py") or (at and command[at - 1] == "-m" and word.endswith("_test")):
                    script = pathlib.Path(word) if word.endswith(".py") else ROOT / (word.replace(".", "/") + ".py")
                    given.setdefault(script, []).append(command[at + 1:])
        loader = unittest.defaultTestLoader
        for script in sorted(TESTS.rglob("*_test.py")):
            with self.subTest(script.name):
                self.assertIn(script, given)
                module = importlib.import_module(".".join(script.relative_to(ROOT).with_suffix("").parts))
                every = set(cases(loader.loadTestsFromModule(module)))
                run = set()
                for words in given[script]:
                    run |= set(cases(loader.loadTestsFromNames(words, module) if words else loader.loadTestsFromModule(module)))
                self.assertGreater(len(every), 0)
                self.assertEqual(sorted(every - run), [])

    def test_files_of_cpp(self):
        compiled = {pathlib.Path(one["file"]).resolve() for one in json.loads((BUILD / "compile_commands.json").read_text())}
        left = [str(path.relative_to(TESTS)) for path in TESTS.rglob("*.cpp") if path not in compiled and not path.stem.endswith("Fuzz") and "data" not in path.parts]
        self.assertEqual(left, [])

    def test_checks_of_lit(self):
        for path in sorted((TESTS / "lit").rglob("*")):
            if path.suffix not in (".mlir", ".quern", ".test") or "Inputs" in path.parts:
                continue
            text = path.read_text()
            commands = " ".join(re.findall(r"RUN: (.*)", text))
            asked = {name for names in re.findall(r"--check-prefix(?:es)?=(\S+)", commands) for name in names.split(",")}
            asked |= {"CHECK" for use in commands.split("FileCheck")[1:] if "--check-prefix" not in use.split("|")[0].split("RUN:")[0]}
            written = set(re.findall(r"^\s*(?://|#) *([A-Z0-9_]+)(?:-(?:NEXT|NOT|DAG|LABEL|SAME|EMPTY|COUNT-\d+))?:", text, re.MULTILINE)) - {"RUN"}
            with self.subTest(path.name):
                self.assertEqual(written, asked)
                self.assertTrue(asked or "-verify-diagnostics" in commands)


if __name__ == "__main__":
    unittest.main()
