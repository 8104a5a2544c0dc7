"""Programs for Vulkan: golden models on whatever device the system's driver offers (Mesa's lavapipe offers the processor), what a
step copies, and what is said where a driver or a device is missing, lacks something, fails or is full (tests/gpu/FakeVulkan.cpp,
a layer before the driver).

One class a fixture (`python3 -m tests.e2e.devices.vulkan_test llama`)."""
import os
import subprocess
import unittest

from tests.e2e.devices import device_cases
from tests.e2e.training import precision_test
from tests.e2e.models import recurrences_test
from tests.e2e.harness import BUILD, random_tokens, relative_error, write_safetensors

os.environ.setdefault("MESA_SHADER_CACHE_DIR", str(BUILD / "e2e" / "mesa"))  # what lavapipe makes of kernels: built once for all tests
FAKE = str(BUILD / "lib" / "libquern_fake_vulkan.so")

globals().update(device_cases.models("vulkan", __module__=__name__))


class Steps(device_cases.Steps):
    target = "vulkan"


class Profiled(device_cases.Profiled):
    target = "vulkan"


class Formats(device_cases.Formats):
    target = "vulkan"


class Caches(device_cases.Caches):
    target = "vulkan"


class Training(device_cases.Training):
    target = "vulkan"


class TrainingSteps(device_cases.TrainingSteps):
    target = "vulkan"


class Lost(device_cases.Lost):
    target = "vulkan"

    def lost_after(self, launches):
        return {"QUERN_VULKAN_LIBRARY": FAKE, "QUERN_FAKE_VULKAN": f"lost:{launches}"}


class TwoBytes(precision_test.Fixture):
    target = "vulkan"


class Recurrences(recurrences_test.Scans):
    """Short texts. lavapipe ends the loops of a work-item after 65,535 steps together; a program notices, and says so."""
    target = "vulkan"

    def test_as_interpreted_or_refused(self):
        for rows, length in [(1, 1), (2, 2), (1, 33)]:
            inputs = {"tokens": random_tokens(length, rows, length, 40)}
            if length > 2:
                source = self.scratch / "long.safetensors"
                write_safetensors(source, inputs)
                done = subprocess.run([str(self.program), "eval", "--weights", str(self.weights), "--input", str(source), "--output",
                                       str(self.scratch / "out.safetensors")], capture_output=True, text=True)
                if done.returncode == 2:
                    self.assertRegex(done.stderr, "llvmpipe.*65,535 steps.*--target native")
                    continue
            want = self.interpret(recurrences_test.SPEC, self.weights, inputs)["logits"]
            self.assertLess(relative_error(self.evaluate(self.program, self.weights, inputs)["logits"], want), 5e-5, (rows, length))


class Tuning(device_cases.Tuning):
    target, library = "vulkan", "QUERN_VULKAN_LIBRARY"


class Gradients(device_cases.Gradients):
    target = "vulkan"


class Aligned(device_cases.Model):
    """On a device whose buffers begin at multiples of 256 bytes: kernels get how far behind that theirs are."""
    target, fixture = "vulkan", "llama"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.saved = dict(os.environ)
        os.environ.update(QUERN_VULKAN_LIBRARY=FAKE, QUERN_FAKE_VULKAN="aligned")

    @classmethod
    def tearDownClass(cls):
        os.environ.clear()
        os.environ.update(cls.saved)
        super().tearDownClass()


class Refusals(device_cases.Refusals):
    target = "vulkan"

    def refused(self, kind, *words):
        self.assert_refused(self.generate_with(QUERN_VULKAN_LIBRARY=FAKE, QUERN_FAKE_VULKAN=kind), *words)

    def test_no_library(self):
        self.assert_refused(self.generate_with(QUERN_VULKAN_LIBRARY="/nowhere/libvulkan.so.1"), "no driver can be opened", "/nowhere", "libvulkan1",
                            "mesa-vulkan-drivers", "native")

    def test_a_library_that_is_none(self):
        self.assert_refused(self.generate_with(QUERN_VULKAN_LIBRARY="libm.so.6"), "too old", "vkgetinstanceprocaddr")

    def test_no_driver(self):
        self.assert_refused(self.generate_with(VK_ICD_FILENAMES="/nowhere", VK_DRIVER_FILES="/nowhere"), "no driver offers", "mesa-vulkan-drivers", "native")

    def test_no_device(self):
        self.refused("none", "no driver offers", "mesa-vulkan-drivers", "native")

    def test_no_such_device(self):
        self.assert_refused(self.generate_with(QUERN_DEVICE="no such device"), "no vulkan device fits", "no such device")

    def test_an_old_device(self):
        self.refused("old", "no vulkan device fits", "has no vulkan 1.2")

    def test_a_device_without_doubles(self):
        self.refused("narrow", "lacks what a kernel needs", "double precision", "native")

    def test_a_device_that_binds_little(self):
        self.refused("few", "lacks what a kernel needs", "buffers at once", "native")
        self.refused("small", "a tensor of", "can bind 1", "native")

    def test_no_memory(self):
        self.refused("full", "memory")

    def test_a_device_that_is_lost(self):
        self.refused("lost", "vulkan driver failed", "lost")


if __name__ == "__main__":
    unittest.main()
