"""Programs for OpenCL: golden models on whatever device the system's driver offers (PoCL offers the processor), what a step
copies, and what is said where there is no driver.

One class a fixture (`python3 -m tests.e2e.devices.opencl_test llama`)."""
import os
import unittest

from tests.e2e.devices import device_cases
from tests.e2e.training import precision_test
from tests.e2e.models import recurrences_test
from tests.e2e.harness import BUILD

os.environ.setdefault("POCL_CACHE_DIR", str(BUILD / "e2e" / "pocl"))  # what PoCL makes of kernels: built once for all tests
os.makedirs(os.environ["POCL_CACHE_DIR"], exist_ok=True)

globals().update(device_cases.models("opencl", __module__=__name__))


class Steps(device_cases.Steps):
    target = "opencl"


class Profiled(device_cases.Profiled):
    target = "opencl"


class Formats(device_cases.Formats):
    target = "opencl"


class Caches(device_cases.Caches):
    target = "opencl"


class Training(device_cases.Training):
    target = "opencl"


class TrainingSteps(device_cases.TrainingSteps):
    target = "opencl"


class Lost(device_cases.Lost):
    target = "opencl"

    def lost_after(self, launches):
        return {"QUERN_OPENCL_LIBRARY": str(BUILD / "lib" / "libquern_fake_opencl.so"), "QUERN_FAKE_OPENCL": f"lost:{launches}"}


class TwoBytes(precision_test.Fixture):
    target = "opencl"


class Recurrences(recurrences_test.Recurrences):
    target = "opencl"


class Tuning(device_cases.Tuning):
    target, library = "opencl", "QUERN_OPENCL_LIBRARY"


class Gradients(device_cases.Gradients):
    target = "opencl"


class Refusals(device_cases.Refusals):
    target = "opencl"

    def refused(self, kind, *words):
        self.assert_refused(self.generate_with(QUERN_OPENCL_LIBRARY=str(BUILD / "lib" / "libquern_fake_opencl.so"), QUERN_FAKE_OPENCL=kind), *words)

    def test_no_library(self):
        self.assert_refused(self.generate_with(QUERN_OPENCL_LIBRARY="/nowhere/libOpenCL.so"), "no driver can be opened", "/nowhere", "install", "native")

    def test_a_library_that_is_none(self):
        self.assert_refused(self.generate_with(QUERN_OPENCL_LIBRARY="libm.so.6"), "too old", "clGetPlatformIDs")

    def test_another_device(self):
        self.refused("none", "no driver offers", "install", "native")
        self.refused("old", "no opencl device fits", "no shared virtual memory")
        self.refused("narrow", "no opencl device fits", "no double precision")

    def test_no_memory(self):
        self.refused("full", "memory", "opencl")

    def test_a_device_that_is_lost(self):
        self.refused("lost", "opencl driver failed", "launching", "status -5")

    def test_no_device(self):
        self.assert_refused(self.generate_with(OCL_ICD_VENDORS="/nowhere"), "no driver offers", "install", "native")

    def test_no_such_device(self):
        self.assert_refused(self.generate_with(QUERN_DEVICE="no such device"), "no opencl device fits", "no such device")


if __name__ == "__main__":
    unittest.main()
