"""Nothing that is built depends on the processor of the machine that builds it. What is carried by programs uses instructions beyond the oldest
x86-64 only where it asks for the processor first."""
import importlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import unittest

from tests.e2e.harness import BUILD, DATA, EXAMPLES, QUERN, ROOT, Case, run
from tools.check.tidy import PRECOMPILED

FLAG = re.compile(r"(^|\s)-m(arch|cpu|tune|avx|fma|f16c|sse|ssse|bmi|popcnt|lzcnt|movbe)")
CHOOSES = {"Probe.cpp.o"}  # its functions carry their own target, and it asks which of them the processor has


def listed_tests():
    """All that CTest knows, of every tier."""
    text = subprocess.run(["ctest", "--test-dir", BUILD, "--show-only=json-v1"], capture_output=True, text=True, check=True).stdout
    return json.loads(text)["tests"]


def cases_of(suite):
    return set().union(*map(cases_of, suite)) if isinstance(suite, unittest.TestSuite) else {suite.id()}


class Flags(Case):
    def test_no_file_asks_for_a_processor(self):
        commands = json.loads((BUILD / "compile_commands.json").read_text())
        self.assertGreater(len(commands), 100)
        asking = [c["file"] for c in commands if FLAG.search(c.get("command") or " ".join(c["arguments"]))]
        self.assertEqual(asking, [])

    def test_it_is_compiled_for_other_processors(self):
        """What the compiler is told of the processor can matter only where a file asks for it or has instructions of its own: those are compiled for
        x86-64-v2 and -v3, whatever the machine, and no text is left out for one."""
        own = re.compile(r"__asm__|\basm volatile|__attribute__\(\(target|immintrin\.h|target_clones")
        compiled = set()
        for one in json.loads((BUILD / "compile_commands.json").read_text()):
            path = pathlib.Path(one["file"])
            if ROOT not in path.parents or BUILD in path.parents:
                continue
            text = path.read_text()
            self.assertNotRegex(text, r"#\s*(el)?if.*__(AVX|SSE|FMA|F16C|BMI)", path)
            if own.search(text) and path not in compiled:
                compiled.add(path)
                words = [*shlex.split(PRECOMPILED.sub("", one["command"])), "-w", "-O0"]
                words[words.index("-o") + 1] = str(self.scratch / "object.o")
                for level in ("x86-64-v2", "x86-64-v3"):
                    subprocess.run([*words, f"-march={level}"], cwd=one["directory"], check=True, env=dict(os.environ, CCACHE_DISABLE="1"))
        self.assertIn("Probe.cpp", {path.name for path in compiled})

    def test_would_notice(self):
        for flag in ("-march=native", "-O2 -mavx2 -c", "-mfma"):
            self.assertTrue(FLAG.search(flag), flag)
        self.assertFalse(FLAG.search("-Wall -model x-march"))

    def test_the_runtime_runs_anywhere(self):
        wide = set()
        for name in ("libquern_runtime.a", "libquern_training.a"):
            member = ""
            text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", BUILD / "lib" / name], capture_output=True, text=True, check=True).stdout
            for line in text.splitlines():
                if "file format" in line:
                    member = line.split(":")[0]
                elif "%ymm" in line or "%zmm" in line:
                    wide.add(member)
        self.assertEqual(wide, CHOOSES)

    def test_sanitizers_run_what_they_build(self):
        """Each preset of a sanitizer selects tests of every room whose tests it builds, and of no other."""
        presets = json.loads((ROOT / "CMakePresets.json").read_text())
        names = [test["name"] for test in listed_tests()]
        built = {preset["name"]: preset["targets"] for preset in presets["buildPresets"] if "targets" in preset}
        self.assertEqual(sorted(built), ["asan", "tsan"])
        for preset in presets["testPresets"]:
            if preset["name"] not in built:
                continue
            self.assertEqual(preset["execution"]["noTestsAction"], "error")
            chosen = {name.split(".")[0] for name in names if re.search(preset["filter"]["include"]["name"], name)}
            self.assertEqual({f"quern_{room}_tests" for room in chosen}, set(built[preset["name"]]))

    def test_every_case_is_in_a_tier(self):
        """CMakeLists.txt chooses some cases of a file by their names: none is left out."""
        loader, there, chosen = unittest.TestLoader(), set(), set()
        for command in (test.get("command", []) for test in listed_tests()):
            if "-m" in command:
                module, *names = command[command.index("-m") + 1:]
                module = importlib.import_module(module)
                everything = loader.loadTestsFromModule(module)
                there |= cases_of(everything)
                chosen |= cases_of(loader.loadTestsFromNames(names, module) if names else everything)
        self.assertGreater(len(there), 500)
        self.assertEqual(sorted(there - chosen), [])

    def test_programs_are_hardened(self):
        """Position-independent, tables of functions read-only, data not executable, the runtime's functions with stack protectors."""
        for target in ("native", "opencl"):
            program = self.compile("linear_attention", "--target", target, name=target)
            header = subprocess.run(["readelf", "-hldW", program], capture_output=True, text=True, check=True).stdout
            self.assertRegex(header, r"Type:\s+DYN")
            self.assertRegex(header, r"FLAGS_1\b.*PIE")
            self.assertIn("GNU_RELRO", header)
            self.assertRegex(header, r"GNU_STACK .* RW ")
            self.assertNotIn(" RWE ", header)
            self.assertEqual("INTERP" in header, target == "opencl")  # no library is needed, but that of a device's driver
        names = subprocess.run(["nm", "--undefined-only", BUILD / "lib" / "libquern_runtime.a"], capture_output=True, text=True, check=True).stdout
        self.assertIn("__stack_chk_fail", names)

    def test_no_compiler_is_needed(self):
        """A program for the processor, one for a device, one with names and a library are linked where no other program is found."""
        bare = ["env", "PATH=/nonexistent"]
        for name, options in {"cpu": [], "device": ["--target", "opencl"], "named": ["--symbols"], "lib.a": ["--emit", "lib"]}.items():
            with self.subTest(name):
                run(*bare, QUERN, "compile", EXAMPLES / "gpt2.quern", "--config", DATA / "gpt2" / "config.json", *options, "-o", self.scratch / name)
                if name != "lib.a":
                    self.assertIn("usage: ", run(*bare, self.scratch / name, "--help").out)

    def test_the_folder_of_the_spec_does_not_matter(self):
        programs = []
        for name in ("here", "there"):
            folder = self.scratch / name
            folder.mkdir(exist_ok=True)
            shutil.copy(EXAMPLES / "gpt2.quern", folder)
            for emit, output in (("exe", "program"), ("lib", "lib.a")):
                run(QUERN, "compile", folder / "gpt2.quern", "--config", DATA / "gpt2" / "config.json", *(("--emit", emit) if emit != "exe" else ()), "-o", folder / output)
            programs.append([(folder / output).read_bytes() for output in ("program", "lib.a")])
        for here, there in zip(*programs):
            self.assertTrue(here == there)


if __name__ == "__main__":
    unittest.main()
