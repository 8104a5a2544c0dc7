"""Checkpoints of `PROGRAM train` under kills and full disks: whatever is killed while it saves, or finds no room, no unreadable checkpoint is
left under a name that counts, and what goes on from there gives the bits of a run that nothing happened to.

The runs' folder is on a disk of its own (a tmpfs in a mount namespace), so that it can be filled to the last byte; where mounting is not
allowed, a limit on the size of files plays the full disk. QUERN_KILLS=100 kills more often than the dozen of every day."""
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from tests.e2e.harness import Case, no_file_over, read_safetensors, run
from tests.e2e.training.train_test import SHAKESPEARE, log

KILLS = int(os.environ.get("QUERN_KILLS", "12"))
# A long table of positions: little to compute, a checkpoint of 12 MB, so that most of a step is saving.
LARGE = ["--set", "n_layer=1", "--set", "n_embd=64", "--set", "n_head=2", "--set", "n_positions=15000", "--set", "vocab_size=256"]
CHECKPOINT = 3 * 4 * 1_050_000
ROOM = 4 * CHECKPOINT  # two that are kept, one that is written, one that is removed


def log_lines(folder):
    path = folder / "train.jsonl"
    return path.read_text().splitlines() if path.exists() else []


class SmallDisk:
    """A tmpfs of ROOM bytes in a mount namespace of its own, seen through /proc; `path` is None where that is not allowed."""

    def __init__(self):
        place = tempfile.mkdtemp(prefix="quern-disk-")
        script = f"mount -t tmpfs -o size={ROOM} none {place} && echo mounted && exec sleep 100000"
        self.place, self.path = pathlib.Path(place), None
        for flags in ("-m", "-Urm"):
            try:
                self.keeper = subprocess.Popen(["unshare", flags, "sh", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8")
            except OSError:
                return
            if self.keeper.stdout.readline() == "mounted\n":
                self.path = pathlib.Path(f"/proc/{self.keeper.pid}/root{place}")
                return
            self.keeper.wait()

    def close(self):
        if self.path:
            self.keeper.kill()
            self.keeper.wait()
        self.place.rmdir()

    def free(self):
        left = os.statvfs(self.path)
        return left.f_bavail * left.f_frsize

    def fill(self, left):
        """All but `left` bytes."""
        with open(self.path / "filler", "wb") as file:
            try:
                while (more := min(1 << 20, self.free() - left)) > 0:
                    file.write(bytes(more))
                    file.flush()
            except OSError:
                pass

    def empty(self):
        (self.path / "filler").unlink(missing_ok=True)


class Kills(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.program = cls.compile("gpt2", "--train", *LARGE, name="gpt2")
        cls.text = cls.scratch / "text.txt"
        cls.text.write_text(SHAKESPEARE.read_text()[:20000])
        cls.disk = SmallDisk()

    @classmethod
    def tearDownClass(cls):
        cls.disk.close()
        super().tearDownClass()

    def command(self, folder, steps):
        return [self.program, "train", "--data", self.text, "--tokenizer", "bytes", "--output", folder, "--batch", 4, "--length", 16, "--sample-every", 0,
                "--schedule", "constant", "--eval-every", 1_000_000, "--save-every", 1, "--steps", steps, "--quiet"]

    def checkpoints(self, folder):
        return sorted(int(path.name.split("-")[1]) for path in folder.glob("checkpoint-*") if not path.name.endswith(".tmp"))

    def check_all(self, folder):
        """Every checkpoint is whole and of the step that its name says."""
        for step in self.checkpoints(folder):
            place = folder / f"checkpoint-{step}"
            model, state = (read_safetensors(place / f"{file}.safetensors") for file in ("model", "optimizer"))
            self.assertEqual(state["step"].data[0], step)
            self.assertEqual(len(state), 2 * len(model) + 1)
            for name, tensor in model.items():
                for moment in ("m.", "v."):
                    self.assertEqual(state[moment + name].shape, tensor.shape)
                    self.assertEqual(len(state[moment + name].data), len(tensor.data))
            json.loads((place / "train.json").read_text())
            json.loads((place / "config.json").read_text())

    def wait_while(self, process, condition, seconds=60):
        end = time.monotonic() + seconds
        while process.poll() is None and condition() and time.monotonic() < end:
            time.sleep(0.0005)

    def test_kills_and_full_disks(self):
        source = random.Random(5)
        folder = (self.disk.path or self.scratch) / "run"
        torn = filled = refused = 0
        for number in range(KILLS):
            last = self.checkpoints(folder)[-1] if number else 0
            full = number > 1 and source.random() < 0.5
            # No room from the start (the run may not even begin), or from some byte of a later file on.
            room = int(source.choice([source.uniform(0, 5000), source.uniform(0, 2 * CHECKPOINT)]))
            limit = no_file_over(room) if full and not self.disk.path else None
            if full and self.disk.path:
                self.disk.fill(room)
            command = self.command(folder, 1_000_000) if number == 0 else [self.program, "train", "--resume", "--output", folder, "--quiet"]
            process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=limit)
            if full:
                filled += 1
                lines = (folder / "train.jsonl").stat().st_size
                self.wait_while(process, lambda: (folder / "train.jsonl").stat().st_size <= lines + 400, seconds=5)
            else:
                self.wait_while(process, lambda: not folder.exists() or self.checkpoints(folder)[-1:] <= [last])
                self.assertIsNone(process.poll(), "the run ended by itself")
            time.sleep(source.uniform(0, 0.1))
            # Most kills shall fall into the saving itself.
            self.wait_while(process, lambda: not list(folder.glob("*.tmp")), seconds=1)
            time.sleep(source.uniform(0, 0.02))
            process.kill()
            refused += process.wait() == 1
            torn += bool(list(folder.glob("*.tmp")))
            if self.disk.path:
                self.disk.empty()
            self.check_all(folder)
            self.assertTrue(self.checkpoints(folder))
        reached = self.checkpoints(folder)[-1] + 2
        run(self.program, "train", "--resume", "--output", folder, "--steps", reached, "--quiet")
        run(*self.command(self.scratch / "whole", reached))
        for key in ("loss", "grad_norm", "rate"):
            values = log(folder, key)
            self.assertEqual(list(values), list(range(1, reached + 1)))
            self.assertEqual(values, log(self.scratch / "whole", key))
        for file in ("model.safetensors", "optimizer.safetensors"):
            self.assertEqual(*((place / f"checkpoint-{reached}" / file).read_bytes() for place in (folder, self.scratch / "whole")))
        self.assertGreater(torn, 0, "no kill fell into saving")
        print(f"{KILLS} kills over {reached} steps: {torn} left a checkpoint half written, {filled} met a full disk "
              f"({'tmpfs' if self.disk.path else 'limited files'}), of which {refused} ended by themselves")

    def test_killed_before_the_first_checkpoint(self):
        folder = self.scratch / "early"
        command = [str(word) for word in self.command(folder, 3)]
        command[command.index("--save-every") + 1] = "1000"
        process = subprocess.Popen([*command[:-3], "--steps", "1000000", "--quiet"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.wait_while(process, lambda: not log_lines(folder))
        process.kill()
        process.wait()
        self.assertEqual(self.checkpoints(folder), [])
        self.assert_refused(run(self.program, "train", "--resume", "--output", folder, status=1), "no checkpoint", "without --resume")
        run(*command)
        self.assertEqual(self.checkpoints(folder), [3])
        self.assertEqual(list(log(folder, "loss")), [1, 2, 3])

    def test_one_training_in_a_folder(self):
        folder = self.scratch / "shared"
        process = subprocess.Popen([str(word) for word in self.command(folder, 1_000_000)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.wait_while(process, lambda: not folder.exists() or not self.checkpoints(folder))
        for other in (self.command(folder, 3), [self.program, "train", "--resume", "--output", folder]):
            self.assert_refused(run(*other, status=1), "shared", "in use")
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGHUP)  # a terminal that is closed: the last steps are kept
        self.assertEqual(process.wait(), 128 + signal.SIGHUP)
        last = self.checkpoints(folder)[-1]
        self.assertEqual(json.loads([line for line in log_lines(folder) if '"loss"' in line][-1])["step"], last)

    def test_little_memory(self):
        """Whatever the limit, an end with a sentence: no signal, and no checkpoint that is not whole."""
        folder, ended = self.scratch / "little", set()
        for megabytes in (7, 10, 14, 18, 22, 26, 30, 36, 42, 50, 64, 200):
            limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
            shutil.rmtree(folder, ignore_errors=True)
            finished = run(*self.command(folder, 1), status=None, preexec_fn=limit)
            ended.add(finished.status)
            self.assertIn(finished.status, (0, 2), str(finished))
            if finished.status == 2:
                self.assertIn("memory", finished.err)
            self.check_all(folder)
        self.assertEqual(ended, {0, 2})

    def test_flipped_bits(self):
        """A checkpoint whose bits are not those that were written goes on nowhere."""
        folder = self.scratch / "flipped"
        run(*self.command(folder, 2))
        place = folder / "checkpoint-2"
        self.assertIn("  optimizer.safetensors\n", (place / "checksums.xxh128").read_text())
        source = random.Random(1)
        for name in ("optimizer.safetensors", "model.safetensors", "train.json"):
            whole = (place / name).read_bytes()
            at = source.randrange(len(whole) // 2, len(whole) - 2)
            (place / name).write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
            finished = run(self.program, "train", "--resume", "--output", folder, "--steps", 3, status=1)
            self.assert_refused(finished, name) if name != "train.json" else self.assertNotEqual(finished.err, "")
            (place / name).write_bytes(whole)
        run(self.program, "train", "--resume", "--output", folder, "--steps", 3)

    def test_room_again(self):
        """A disk that is full for a while costs a checkpoint and a warning, not the run."""
        if not self.disk.path:
            # The same with files that cannot grow: no checkpoint at all, and the last one must be, so the run ends with an error.
            finished = run(*self.command(self.scratch / "never", 4), status=1,
                           preexec_fn=no_file_over(50_000))
            self.assert_refused(finished, "cannot write", "no checkpoint")
            self.assertEqual(list((self.scratch / "never").glob("checkpoint-*")), [])
            return
        folder, errors = self.disk.path / "again", self.scratch / "errors"
        self.disk.fill(CHECKPOINT // 2)
        with open(errors, "w") as file:
            process = subprocess.Popen([str(word) for word in self.command(folder, 1_000_000)], stdout=subprocess.DEVNULL, stderr=file)
            self.wait_while(process, lambda: errors.read_text().count("warning: no checkpoint: ") < 2)
            self.assertIsNone(process.poll(), errors.read_text())
            self.assertEqual(self.checkpoints(folder), [])
            self.disk.empty()
            self.wait_while(process, lambda: not self.checkpoints(folder))
            self.assertIsNone(process.poll(), errors.read_text())
            process.kill()
            process.wait()
        self.assertIn("No space left", errors.read_text())
        self.check_all(folder)
        shutil.rmtree(folder)


if __name__ == "__main__":
    unittest.main()
