"""--profile and --trace: every launch of every call, in order, within its call; sums that are those of the events."""
import json
import unittest

from tests.e2e.harness import DATA, Case, exactly, ints, run, write_safetensors


class Profile(Case):
    target = None  # the processor; devices have classes of this in device_cases.py

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.program = cls.compile("llama", "--config", DATA / "llama" / "config.json", "--train", *(exactly(cls.target) if cls.target else ()))
        cls.weights = DATA / "llama" / "model.safetensors"

    def record(self, *command):
        profile, trace = self.scratch / "profile.json", self.scratch / "trace.json"
        finished = run(self.program, *command, "--profile", profile, "--trace", trace)
        return json.loads(profile.read_text()), json.loads(trace.read_text())["traceEvents"], finished

    def check(self, profile, trace):
        self.assertGreater(profile["calls_ns"], 0)
        self.assertLessEqual(profile["kernels_ns"], profile["calls_ns"])
        self.assertEqual(profile["lost_launches"], 0)
        kernels = {kernel["launch"]: kernel for kernel in profile["kernels"]}
        ends = 0
        times, runs = dict.fromkeys(kernels, 0), dict.fromkeys(kernels, 0)
        for launch, iteration, begin, end in profile["launches"]:
            self.assertLessEqual(ends, begin, "launches follow each other")
            self.assertLessEqual(begin, end)
            self.assertGreaterEqual(iteration, 0)
            ends = end
            times[launch] += end - begin
            runs[launch] += 1
        for number, kernel in kernels.items():
            self.assertEqual(kernel["ns"], times[number])
            self.assertEqual(kernel["runs"], runs[number])
            self.assertEqual(len(kernel["busy_ns"]), profile["threads"])
            self.assertRegex(kernel["at"], r"^\w+\.quern:\d+:\d+$")
            self.assertRegex(kernel["content"], r"^[0-9a-f]{16}$")
            self.assertLess(number, profile["launches_in_code"])
        # Calls by kind, their launches by layer: the same once more.
        self.assertEqual(sum(kind["ns"] for kind in profile["kinds"]), profile["calls_ns"])
        self.assertEqual(sum(kind["calls"] for kind in profile["kinds"]), sum(f["calls"] for f in profile["functions"]))
        for number, kernel in kernels.items():
            parts = [one for kind in profile["kinds"] for one in kind["launches"] if one["launch"] == number]
            for key in ("runs", "flops", "bytes"):
                self.assertEqual(sum(one[key] for one in parts), kernel[key])
            self.assertEqual(sum(sum(one["iterations_ns"]) for one in parts), kernel["ns"])
            self.assertEqual({len(one["iterations_ns"]) for one in parts}, {kernel["iterations"]})
        self.assertEqual(profile["kernels_ns"], sum(times.values()))
        # The Trace Event Format: complete events with times in microseconds, metadata, counters.
        complete = [event for event in trace if event["ph"] == "X"]
        self.assertTrue(complete)
        for event in trace:
            self.assertIn(event["ph"], ("X", "M", "C"))
            self.assertEqual(event["pid"], 1)
            if event["ph"] != "M":
                self.assertGreaterEqual(event["ts"], 0)
        open_until = []
        for event in sorted((e for e in complete if e["tid"] == 0), key=lambda e: (e["ts"], -e["dur"])):
            end = round(1000 * (event["ts"] + event["dur"]))
            while open_until and open_until[-1] <= round(1000 * event["ts"]):
                open_until.pop()
            self.assertTrue(not open_until or end <= open_until[-1], f"{event} overlaps another")
            open_until.append(end)
        return kernels

    def test_generate(self):
        profile, trace, finished = self.record("generate", "--weights", self.weights, "--tokens", "1,2,3,4", "-n", 6, "--threads", 2)
        kernels = self.check(profile, trace)
        titles = {kernel["title"]: kernel for kernel in kernels.values() if kernel["runs"]}
        self.assertIn("q_proj + k_proj + v_proj", titles)
        self.assertIn("gate_proj + up_proj", titles)
        self.assertIn("attention", titles)
        self.assertEqual(sum(f["calls"] for f in profile["functions"]), 6)
        # 2 layers, rows read: 4 and then one a step. D = 48, heads 6 and 2 of 8: (6 + 2 + 2) * 8 rows of 48.
        rows = 4 + 5
        projected = [k for k in kernels.values() if k["title"] == "q_proj + k_proj + v_proj"]
        self.assertEqual(sum(k["flops"] for k in projected), 2 * rows * 2 * 80 * 48)
        # Query t sees t + 1 keys: pairs of 4 rows at once, then 5, 6, ... of one.
        pairs = 10 + 5 + 6 + 7 + 8 + 9
        attention = [k for k in kernels.values() if k["title"] == "attention"]
        self.assertEqual(sum(k["flops"] for k in attention), 2 * pairs * 6 * (2 * 8 + 2 * 8))
        # A prefill of 4 rows, then steps of one after 4, 5 ... 8 others: two kinds of calls.
        prefill, steps = profile["kinds"]
        self.assertEqual((prefill["calls"], prefill["lengths"]["T"], prefill["lengths"]["past"]), (1, 4, 0))
        self.assertEqual((steps["calls"], steps["lengths"]["T"], steps["lengths"]["past"]), (5, 1, 6))
        self.assertEqual({kernel["iterations"] for kernel in projected}, {2})
        self.assertIn("gate_proj + up_proj", finished.err)
        self.assertIn("between launches", finished.err)
        layers = [event for event in trace if event["name"].startswith("layer ")]
        self.assertEqual(len(layers), 2 * 6)
        self.assertEqual({event["args"]["bytes"] > 0 for event in trace if event["ph"] == "C"}, {True})

    def test_other_commands(self):
        source, result = self.scratch / "in.safetensors", self.scratch / "out.safetensors"
        write_safetensors(source, {"tokens": ints([[1, 2, 3, 4, 5, 6]])})
        self.check(*self.record("eval", "--weights", self.weights, "--input", source, "--output", result)[:2])
        profile, trace, _ = self.record("bench", "-p", 16, "-n", 4)
        self.check(profile, trace)
        self.assertGreater(profile["limits"]["flops"], 0)
        self.assertGreater(profile["limits"]["bytes"], 0)
        self.check(*self.record("grad", "--weights", self.weights, "--input", source, "--output", result)[:2])

    def test_steps_take_no_less_than_their_launches(self):
        profile, _, finished = self.record("bench", "-p", 8, "-n", 6, "--json")
        steps = next(kind for kind in profile["kinds"] if kind["lengths"]["T"] == 1)
        launches = profile["launches"][-6 * sum(one["runs"] for one in steps["launches"]) // steps["calls"]:]  # a first step may touch memory
        self.assertGreater(len(launches), 64, "more than a device has marks")
        taken = sum(end - begin for _, _, begin, end in launches)
        self.assertGreaterEqual(json.loads(finished.out)["decode"]["seconds"] * 1e9 * (1 + 1e-5), taken)

    def test_numbers_do_not_change(self):
        command = (self.program, "generate", "--weights", self.weights, "--tokens", "5,6", "-n", 12)
        self.assertEqual(run(*command).out, run(*command, "--profile", self.scratch / "same.json").out)

    def test_a_file_that_cannot_be_written(self):
        made = run(self.program, "generate", "--weights", self.weights, "--tokens", "5", "-n", 1, "--profile", "/nowhere/profile.json", status=1)
        self.assert_refused(made, "/nowhere/profile.json")


if __name__ == "__main__":
    unittest.main()
