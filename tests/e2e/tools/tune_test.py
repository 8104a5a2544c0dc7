"""quern tune: killed at any moment it loses at most one comparison; what it found is used, exported and imported; bad databases are named."""
import os
import random
import signal
import sqlite3
import subprocess
import time
import unittest

from tests.e2e.harness import BUILD, DATA, EXAMPLES, QUERN, Case, run

SPEC = EXAMPLES / "llama.quern"
CONFIG = DATA / "stories260K" / "config.json"
KILLS = int(os.environ.get("QUERN_KILLS", 2))


class Tune(Case):
    def tune(self, *words, **more):
        return run(QUERN, "tune", *words, **more)

    def rows(self, database, sql):
        connection = sqlite3.connect(database)
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()

    def test_killed_at_any_moment(self):
        database = self.scratch / "killed.sqlite"
        draw = random.Random(7)
        words = [str(w) for w in (QUERN, "tune", SPEC, "--config", CONFIG, "-p", 16, "-n", 8, "--seconds", 0.02, "--database", database)]
        counted, seen = 0, {}
        for _ in range(KILLS):
            process = subprocess.Popen([*words, "--budget", "600"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(os.environ, XDG_CACHE_HOME=str(BUILD / "e2e" / "cache")))
            # It begins to measure at some time; then it is killed at a random one.
            before = counted
            while counted == before and process.poll() is None:
                time.sleep(0.1)
                if database.exists():
                    try:
                        (counted,) = self.rows(database, "select count(*) from trial where outcome <> 'unfinished'")[0]
                    except sqlite3.OperationalError:  # its tables are being made
                        pass
            time.sleep(draw.uniform(0, 0.5))
            process.send_signal(signal.SIGKILL)
            process.wait()
            self.assertEqual(process.returncode, -signal.SIGKILL, "it goes on until it is killed")
            self.assertEqual(self.rows(database, "pragma integrity_check"), [("ok",)])
            now = {row[:6]: row for row in self.rows(
                database, "select kernel, target, machine, work, incumbent, candidate, outcome, ratio, pairs from trial where outcome <> 'unfinished'")}
            for key, row in seen.items():
                self.assertEqual(now.get(key), row, "what was kept stays")
            self.assertGreater(len(now), len(seen), "and a run goes on from there")
            counted, seen = len(now), now
        finished = self.tune(*words[2:], "--budget", 0)
        self.assertIn("0 comparisons", finished.out)
        self.assertIn("the same command goes on", finished.out)

    def test_plans_go_from_machine_to_machine(self):
        database, other = self.scratch / "found.sqlite", self.scratch / "other.sqlite"
        program = lambda name, *words, database=database, **more: self.compiled(name, "--database", database, *words, **more)
        default = program("default", "--no-tuned")
        candidates, budget = [], 2
        while not candidates:  # a run goes on where the last one ended
            budget *= 2
            self.tune(SPEC, "--config", CONFIG, "-p", 16, "-n", 8, "--seconds", 0.02, "--budget", budget, "--database", database)
            shares = self.rows(database, "select kernel, target, machine, work from share order by ns desc")
            candidates = shares and self.rows(
                database, f"select candidate from trial where kernel = '{shares[0][0]}' and outcome in ('faster', 'slower')")
        # As if it had won, and nothing else.
        connection = sqlite3.connect(database)
        with connection:
            connection.execute("delete from plan")
            connection.execute("insert or replace into plan(kernel, target, machine, work, plan, gain, title, imported) values(?, ?, ?, ?, ?, 1.5, 'a product', 0)",
                               (*shares[0], candidates[0][0]))
        connection.close()
        tuned = program("tuned")
        self.assertNotEqual(tuned, default)
        self.assertEqual(program("untuned", "--no-tuned"), default)
        text = self.scratch / "found.plans"
        self.tune("--export", text, "--database", database)
        self.assertIn(candidates[0][0], text.read_text())
        self.assertEqual(program("by_file", "--plans", text, database=other), tuned)
        self.assertEqual(program("elsewhere", database=other), default)
        self.tune("--import", text, "--database", other)
        self.assertEqual(program("imported", database=other), tuned)
        listed = self.tune("--list", "--database", other)
        self.assertIn("a product (imported)", listed.out)
        # Of a plan that is no more in the space there is a word, and the default instead.
        edited = self.scratch / "edited.plans"
        edited.write_text(text.read_text().replace("rows = ", "rows = 6"))
        self.assertEqual(program("edited", "--plans", edited, says="a tuned plan is not used: kernel "), default)

    def test_a_bundle_searches_where_no_compiler_is(self):
        spec, bundle, plans = self.scratch / "words.quern", self.scratch / "words.tune", self.scratch / "found.plans"
        spec.write_text("quern 1\nmodel words {\n  dim V = 256, D = 64\n  forward(tokens: int[B, T]) -> [B, T, V] {\n"
                        '    return linear[D -> V](tanh(embedding[V -> D](tokens) @ "words"), false) @ "head"\n  }\n}\n')
        database = self.scratch / "bundle.sqlite"
        for _ in range(6):  # threads that met in a context without locks ended about one run of five
            made = self.tune(spec, "-p", 16, "--target", "x86-64-v3", "--bundle", bundle, "--database", database)
        count = int(made.out.split(": ")[1].split()[0])
        self.assertGreater(count, 20)
        # Elsewhere: another folder, nothing in the environment.
        done = run("env", "-i", bundle, "tune", "--budget", 5, "--seconds", 0.02, "--output", plans, cwd=self.scratch)
        table = [line for line in done.out.splitlines() if line.startswith("head ")]
        tried = int(table[0][34:].split()[1])
        self.assertGreater(tried, 10)
        self.assertEqual(int(table[0][34:].split()[2]), 0, "no plan is wrong: " + done.out)
        lines = [line for line in plans.read_text().splitlines() if not line.startswith("#")]
        self.assertIn(f"{len(lines)} plans are in {plans}", done.out)
        # What won, and as if all had: the compiler here takes it.
        imported = self.tune("--import", plans, "--database", database)
        self.assertIn(f"{len(lines)} plans are in", imported.out)
        compiled = run(QUERN, "compile", spec, "--target", "x86-64-v3", "--plans", plans, "-o", self.scratch / "words")
        self.assertEqual(f"{len(lines)} tuned" in compiled.err, bool(lines), compiled.err)
        # No time: what is there so far is none.
        done = run(bundle, "tune", "--budget", 0, "--output", plans)
        self.assertIn("0 plans are in", done.out)
        self.assertIn("time was short for some kernels (--budget)", done.out)
        self.assert_refused(run(bundle, "tune", "--output", self.scratch / "missing" / "plans", status=1), "missing/plans")
        self.assert_refused(run(bundle, "tune", "--budget", "soon", status=1), "--budget")

    def compiled(self, name, *words, says=None):
        """The bytes of the program, which does not depend on its name."""
        path = self.scratch / name
        done = run(QUERN, "compile", SPEC, "--config", CONFIG, "-o", path, *words)
        self.assertEqual(" tuned" in done.err, name in ("tuned", "by_file", "imported", "edited"), done.err)
        if says:
            self.assertIn(says, done.err)
        return path.read_bytes()

    def test_bad_input(self):
        broken = self.own_cache("cache-broken")
        (broken / "tuning.sqlite").write_text("no database " * 500)
        done = self.tune("--list", "--cache-dir", broken, status=1)
        self.assertIn("file is not a database; it is broken or something else: name another with --database, or remove it", done.err)
        compiled = run(QUERN, "compile", SPEC, "--config", CONFIG, "-o", self.scratch / "program", "--cache-dir", broken)
        self.assertIn("what tuning found is not used: ", compiled.err)
        foreign = self.scratch / "foreign.sqlite"
        connection = sqlite3.connect(foreign)
        connection.execute("create table trial(a)")
        connection.close()
        self.assertIn("foreign.sqlite is a database of something else", self.tune("--list", "--database", foreign, status=1).err)
        for words, message in (
            ((), "SPEC is missing; or --list, --export FILE or --import FILE"),
            ((SPEC, "--effort", "much"), "--effort much: "),
            ((SPEC, "--budget", "-1"), "--budget, --seconds and --tolerance are numbers"),
            (("--import", self.scratch / "missing"), "missing"),
            (("--list", "--bundle", self.scratch / "tune"), "SPEC is missing: --html and --bundle are about a program"),
            ((SPEC, "--config", CONFIG, "--bundle", self.scratch / "tune", "--html", self.scratch / "page"), "--html is the report of a search"),
            ((SPEC, "--config", CONFIG, "--target", "z80"), "z80"),
        ):
            done = self.tune(*words, "--database", self.scratch / "some.sqlite", status=1)
            self.assert_refused(done, message)


if __name__ == "__main__":
    unittest.main()
