"""Programs for CUDA, with a driver of the tests' own (tests/gpu/FakeCuda.cpp), which executes the PTX of each launch: golden
models, what a step copies, and what is said where a driver or a device is missing, fails or is full.

One class a fixture (`python3 cuda_test.py llama`). QUERN_CUDA_LIBRARY=libcuda.so.1 runs them on a card."""
import os
import unittest

import device_cases
import precision_test
import recurrences_test
from harness import BUILD

os.environ.setdefault("QUERN_CUDA_LIBRARY", str(BUILD / "lib" / "libquern_fake_cuda.so"))

globals().update(device_cases.models("cuda", __module__=__name__))


class Steps(device_cases.Steps):
    target = "cuda"


class Formats(device_cases.Formats):
    target = "cuda"


class Training(device_cases.Training):
    target = "cuda"


class TrainingSteps(device_cases.TrainingSteps):
    target = "cuda"


class TwoBytes(precision_test.Fixture):
    target = "cuda"


class Recurrences(recurrences_test.Recurrences):
    target = "cuda"


class Gradients(device_cases.Gradients):
    target = "cuda"


class Refusals(device_cases.Refusals):
    target = "cuda"

    def test_no_library(self):
        self.assert_refused(self.generate_with(QUERN_CUDA_LIBRARY="/nowhere/libcuda.so.1"), "no driver can be opened", "/nowhere", "install", "native")

    def test_a_library_that_is_none(self):
        self.assert_refused(self.generate_with(QUERN_CUDA_LIBRARY="libm.so.6"), "too old", "cuinit")

    def test_no_device(self):
        self.assert_refused(self.generate_with(QUERN_FAKE_CUDA="none"), "the driver offers none", "nvidia-smi", "native")

    def test_no_such_device(self):
        self.assert_refused(self.generate_with(QUERN_DEVICE="no such device"), "no cuda device fits", "no such device", "fake device")

    def test_an_old_device(self):
        self.assert_refused(self.generate_with(QUERN_FAKE_CUDA="old"), "no cuda device fits", "3.7", "7.0")

    def test_no_memory(self):
        self.assert_refused(self.generate_with(QUERN_FAKE_CUDA="full"), "memory", "fake device")

    def test_a_device_that_is_lost(self):
        self.assert_refused(self.generate_with(QUERN_FAKE_CUDA="lost"), "cuda driver failed", "unspecified launch failure")


if __name__ == "__main__":
    unittest.main()
