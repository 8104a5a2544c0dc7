# Configuration of lit: which files are tests and which names RUN lines may use.
#
# A test's first lines say how it runs, for example:
#   // RUN: quern-opt %s | FileCheck %s
#   # RUN: not quern check %s 2>&1 | FileCheck %s          (%examples: the examples folder, %data: tests/data)
import os

import lit.formats

config.name = "quern"
config.test_format = lit.formats.ShTest(True)
config.suffixes = [".mlir", ".quern", ".test"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.join(config.quern_source, "tests", "lit")
config.test_exec_root = os.path.join(config.quern_build, "tests", "lit")
config.substitutions.append(("%examples", os.path.join(config.quern_source, "examples")))
config.substitutions.append(("%data", os.path.join(config.quern_source, "tests", "data")))
config.environment["PATH"] = os.pathsep.join([os.path.join(config.quern_build, "bin"), config.llvm_tools, os.environ["PATH"]])
config.environment["XDG_CACHE_HOME"] = os.path.join(config.quern_build, "e2e", "cache")
config.environment["NO_COLOR"] = "1"
