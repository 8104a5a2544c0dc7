"""The page of `quern dump --html` in Chromium, by clicking: everything that it promises is looked for where a person would look."""
import json
import re
import unittest

from tests.e2e.tools.chromium import Browser
from tests.e2e.harness import DATA, EXAMPLES, QUERN, Case, run
from tests.e2e.tools.outputs_test import WORDS

SPEC = EXAMPLES / "llama.quern"
MACHINE = ("--machine", "400,20")


class InBrowser(Case):
    """A page in Chromium, which must not complain."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.page = cls.scratch / "page.html"
        cls.config = ("--config", DATA / "llama" / "config.json")
        cls.browser = Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.__exit__()
        super().tearDownClass()

    def tearDown(self):
        self.assertEqual(self.browser.complaints(), [])


class Page(InBrowser):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        run(QUERN, "dump", SPEC, *cls.config, "--html", cls.page, *MACHINE)

    def choose(self, name):
        """Clicks on a pass, unfolding what hides it."""
        for number in range(self.browser.count("button.fold")):
            if self.browser.js(f"document.querySelectorAll('button.fold')[{number}].getAttribute('aria-expanded')") == "false":
                self.browser.js(f"document.querySelectorAll('button.fold')[{number}].click()")
        index = self.browser.js(f"meta.stages.findIndex(stage => stage.name === '{name}')")
        self.browser.click(f"button.pass[data-stage='{index}']")
        self.assertEqual(self.browser.text(".pass.current .name"), name)

    def test_nothing_from_outside(self):
        text = self.page.read_text()
        self.assertEqual(set(re.findall(r"https?://[\w./]+", text)) - {"http://www.w3.org/2000/svg"}, set())
        self.assertIsNone(re.search(r"<(link|img|iframe|script src)", text))

    def test_passes_fold_and_say_what_they_did(self):
        b = self.browser
        b.open(self.page)
        folded = b.count("button.pass")
        self.assertLess(folded, b.js("meta.stages.length"))
        b.click("button.fold")
        self.assertGreater(b.count("button.pass"), folded)
        self.assertGreater(b.count("button.pass.same"), 0)
        b.click("button.fold[aria-expanded=true]")
        self.assertEqual(b.count("button.pass"), folded)
        self.assertRegex(b.text("button.pass[data-stage='1'] .time"), r"\d (ms|µs|s)")
        self.assertRegex(b.text("button.pass[data-stage='1'] .removed"), r"−\d+")
        b.click("button.pass[data-stage='1']")
        self.assertEqual(b.text("#inspector h2"), b.text(".pass.current .name"))

    def test_graph(self):
        b = self.browser
        b.open(self.page)
        before = b.count("svg.graph .box")
        self.assertEqual(b.count("[data-title^=attention]"), 0, "layers are folded")
        b.click(".unfold")
        self.assertGreater(b.count("svg.graph .box"), before)
        b.click("#fit")
        b.click("[data-title^=attention]")
        self.assertEqual(b.count(".box.chosen"), 1)
        self.assertGreaterEqual(b.count(".edge.in"), 3)
        self.assertGreaterEqual(b.count(".edge.out"), 1)
        self.assertRegex(b.text("#inspector h2"), "attention")
        place = b.js("document.querySelector('svg.graph > g').getAttribute('transform')")
        b.drag(400, 800, 120, -60)
        moved = b.js("document.querySelector('svg.graph > g').getAttribute('transform')")
        self.assertNotEqual(place, moved)
        b.wheel(600, 400, -300)
        b.wait(f"document.querySelector('svg.graph > g').getAttribute('transform') !== {moved!r}")
        b.key("0")
        b.click(".unfold")
        self.assertEqual(b.count("[data-title^=attention]"), 0)

    def test_layers_before_they_are_rolled(self):
        b = self.browser
        b.open(self.page, "#pass=resolved")
        layers = b.js("meta.config.num_hidden_layers")
        self.assertEqual(b.count("[data-title$=' layers']"), 1)
        b.click(".unfold")
        b.click("#fit")
        self.assertEqual(b.count("[data-title='layer']"), layers)

    def test_an_operation_and_where_it_comes_from(self):
        b = self.browser
        b.open(self.page, "#pass=cse&view=text")
        line = b.js("loadStage(state.stage).ops.find(op => op.n === 'softmax').l")
        b.js(f"textList.show({line - 1})")
        b.click(f".line[data-line='{line}'] code")
        self.assertEqual(b.count(".line.selected"), 1)
        self.assertEqual(b.text("#inspector h2"), "softmax")
        place, snippet = b.text(".snippet .place"), b.text(".snippet code")
        name, number = place.split(":")
        self.assertEqual(name, "llama.quern")
        self.assertEqual(snippet, SPEC.read_text().split("\n")[int(number) - 1].strip())
        self.assertEqual(b.text(".snippet mark"), "attention")
        self.assertIn("std.quern", b.text(".snippet.called"))
        self.assertIn("of resolved", b.text("#inspector"))
        self.assertRegex(b.text(".cost"), r"FLOPs.*B \* T")
        # To the kernel that it went into, and to the same operation where it came from.
        kernel = b.text("a.op[data-kernel]")
        self.assertIn("attention", kernel)
        b.click("a.op[data-kernel]")
        self.assertEqual(b.text(".subtabs b"), kernel)
        b.js("[...document.querySelectorAll('#inspector section')].find(s => s.textContent.startsWith('Came from')).querySelector('a.op').click()")
        self.assertEqual(b.text(".pass.current .name"), "resolved")
        self.assertEqual(b.text("#inspector h2"), "softmax")

    def test_kernels(self):
        b = self.browser
        b.open(self.page)
        b.click("[data-view=kernels]")
        self.assertGreaterEqual(b.count("table.kernels tbody tr"), 8)
        self.assertGreaterEqual(b.count(".roofline .dot"), 5)
        self.assertIn("400 GFLOP/s", b.text(".roofline"))
        # The overview says the same of a function as the sum of its kernels here.
        function, total = b.text("table.kernels tfoot td"), b.text("table.kernels tfoot td.number")
        overview = b.js(f"[...document.querySelectorAll('#inspector section')].find(s => s.textContent.startsWith('{function}operations')).textContent")
        self.assertIn(f"at least{total}", overview)
        b.click("table.kernels tr[data-kernel^=contract]")
        self.assertRegex(b.text(".subtabs b"), "@contract")
        self.assertIn("vectorized", b.text(".kernelbelow"))
        b.click("[data-tab=assembly]")
        self.assertRegex(b.text("#kernelnote"), r"\d+ lines; the hottest loop has \d+ instructions")
        self.assertGreater(b.count(".line.hot"), 3)
        b.click("[data-tab=body]")
        self.assertIn("quern.contract", b.text(".kernelbelow"))
        self.assertIn("llama.quern:", b.text(".kernelbelow"), "each operation says its line of the spec")
        b.click(".roofline .dot[data-kernel^=attention]")
        self.assertRegex(b.text(".subtabs b"), "@attention")
        # At other lengths the same kernels cost something else.
        before = b.text("table.kernels tr[data-kernel^=attention]")
        b.js("(() => { const i = document.querySelector('[data-length=T]'); i.value = 64; i.dispatchEvent(new Event('change')); })()")
        self.assertNotEqual(b.text("table.kernels tr[data-kernel^=attention]"), before)

    def test_text_beside_any_other_pass(self):
        b = self.browser
        b.open(self.page)
        self.choose("incremental")
        b.click("[data-view=diff]")
        self.assertIn("quern.remember", b.text(".diff"))
        self.assertGreater(b.count(".cell.added"), 0)
        self.assertGreater(b.count(".cell.removed"), 0)
        height = "document.querySelector('.diff .rows').offsetHeight"
        folded = b.js(height)
        b.click(".line.folded")
        self.assertGreater(b.js(height), folded, "nothing has unfolded")
        differ = b.text(".diffhead")
        b.js("(() => { const s = document.querySelector('.diffhead select'); s.value = 0; s.dispatchEvent(new Event('change')); })()")
        self.assertNotEqual(b.text(".diffhead"), differ)
        self.assertIn("with=resolved", b.js("location.hash"))

    def test_memory(self):
        """Every value of the arena at its place; a click leads to its operation; what is stored elsewhere as the planner counts it."""
        b = self.browser
        b.open(self.page, "#view=memory&in=forward.last")
        plan = json.loads(run(QUERN, "dump", SPEC, "--config", DATA / "llama" / "config.json", "--scratch", "--json", "--set-size", "T=512").out)
        stats = plan["passes"][-1]["statistics"]
        function = next(one for one in stats["functions"] if one["name"] == "forward.last")
        memory = "memoryOf(meta.memory['forward.last'], lastStage())"
        self.assertEqual(b.js(memory + ".arena"), function["arena_at"])
        asked = b.js("meta.memory['forward.last'].steps.map(id => lastStage().ops[id]).map(op => scratchOf(op.k, name => memorySize(op.y[name])))")
        for thread in ("caller", "worker"):
            self.assertEqual(max(one[thread] for one in asked), function["scratch_at"][thread])
        states = sum(one["bytes_at"] for one in stats["states"] if one["name"].startswith("forward."))
        self.assertEqual(b.js("meta.memory['forward.last'].states.reduce((sum, [, size]) => sum + memorySize(size), 0)"), states)
        # No two values at one address at one time, none outside of its slot, and what is live is never more than the arena.
        self.assertEqual(b.js(f"""(() => {{ const m = {memory}; const wrong = [];
            for (const one of m.buffers) {{
              if (one.bytes > m.slots[one.slot].bytes) wrong.push(one.op.n);
              for (const two of m.buffers) if (one !== two && one.slot === two.slot && one.first <= two.last && two.first <= one.last) wrong.push(two.op.n);
            }}
            return wrong.concat(m.live.filter(bytes => bytes > m.arena)); }})()"""), [])
        self.assertEqual(b.count(".arena .buffer"), b.js(memory + ".buffers.length"))
        self.assertGreater(b.count(".arena .buffer"), 5)
        self.assertEqual(b.count(".totalbar [data-part=weights]"), 1)
        self.assertIn("scratch", b.text(".totalnames"))
        self.assertIn("2 times", b.text(".arena"))
        self.assertRegex(b.text(".memoryside"), r"while \w+_\d+ runs")
        chosen = b.js("document.querySelector('.buffer[data-op]').dataset.op")
        b.js("document.querySelector('.buffer rect').dispatchEvent(new MouseEvent('click', {bubbles: true}))")
        self.assertEqual(b.js("state.op"), int(chosen))
        self.assertGreaterEqual(b.count(".buffer.chosen"), 1)
        self.assertEqual(b.text("#inspector h2"), b.js(f"titleOf(lastStage().ops[{chosen}])"))
        b.click(".owners a.op")
        self.assertEqual(b.js("state.op"), b.js("Number(document.querySelector('.owners a.op').dataset.owner)"))

    def test_search(self):
        b = self.browser
        b.open(self.page)
        b.key("/")
        b.type("q_proj")
        self.assertRegex(b.text("#found .count"), r"^[1-9]\d* of \d+ operations")
        b.click(".result")
        self.assertIn("q_proj", b.text("#inspector h2"))
        self.assertEqual(b.count(".box.chosen"), 1, "its layer is unfolded")
        b.js("document.querySelector('#search').value = ''")
        b.key("/")
        b.type("rms_norm")  # in the spec alone
        self.assertRegex(b.text("#found .count"), r"^[1-9]")
        b.js("document.querySelector('#search').value = ''")
        b.type("no such thing")
        self.assertEqual(b.text("#found .count"), "nothing found")
        b.key("Escape")

    def test_keys_and_dark(self):
        b = self.browser
        b.dark(False)
        b.open(self.page)
        for key, view in (("t", "text"), ("c", "compare"), ("n", "kernels"), ("m", "memory"), ("g", "graph")):
            b.key(key)
            self.assertEqual(b.text("#tabs button.current"), view)
        last = b.text(".pass.current .name")
        b.key("k")
        self.assertNotEqual(b.text(".pass.current .name"), last)
        b.key("j")
        self.assertEqual(b.text(".pass.current .name"), last)
        paper = "getComputedStyle(document.body).backgroundColor"
        light = b.js(paper)
        b.key("d")
        dark = b.js(paper)
        self.assertNotEqual(light, dark)
        b.dark(True)
        b.open(self.page)
        self.assertEqual(b.js(paper), dark, "as the system wishes")
        b.dark(False)

    def test_ten_thousand_operations(self):
        """What is not seen does not exist: neither lines, nor nodes, nor the other stages."""
        b = self.browser
        page = self.scratch / "large.html"
        run(QUERN, "dump", SPEC, "--config", DATA / "llama" / "config.json", "--set", "num_hidden_layers=150", "--html", page, *MACHINE)
        for fragment in ("#pass=resolved", "#pass=resolved&view=text"):
            b.open(page, fragment)
            self.assertGreater(b.js("loadStage(state.stage).ops.length"), 10_000)
            self.assertLess(b.count("*"), 2500, fragment)
            self.assertLessEqual(b.js("stages.size"), 2, "only stages that are looked at are read")
        b.js("textList.outer.scrollTop = 150000")
        b.wait("+document.querySelector('.line').dataset.line > 7000")
        self.assertLess(b.count(".line"), 200)

    def test_a_training_program_opens_at_its_gradient(self):
        spec, page = self.write_spec("words", WORDS), self.scratch / "train.html"
        run(QUERN, "dump", spec, "--train", "--html", page, *MACHINE)
        b = self.browser
        b.open(page)
        self.assertEqual(b.js("state.symbol"), "loss.grad")
        self.choose("resolved")
        self.assertEqual(b.js("state.symbol"), "forward")

    def test_names_cannot_break_out(self):
        spec, page = self.scratch / "hostile.quern", self.scratch / "hostile.html"
        spec.write_text('quern 1\nmodel hostile {\n  dim V = 8, D = 4\n  forward(tokens: int[B, T]) -> [B, T, D] {\n'
                        '    param words: [V, D] @ "</script><img src=x onerror=alert(1)><!--<script>"\n    return words[V = tokens]\n  }\n}\n')
        run(QUERN, "dump", spec, "--html", page, *MACHINE)
        self.browser.open(page, "#view=text")
        self.assertEqual(self.browser.count("img"), 0)
        self.assertIn("onerror", self.browser.text(".text"))


class Measured(InBrowser):
    """A page with what its program measured."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.profile = cls.scratch / "profile.json"
        run(cls.compile("llama", *cls.config), "bench", "-p", 24, "-n", 6, "-r", 2, "--profile", cls.profile)
        run(QUERN, "dump", SPEC, *cls.config, "--html", cls.page, "--profile", cls.profile)
        cls.measured = json.loads(cls.profile.read_text())

    def prefill(self):
        """The kind of calls that read 24 tokens: its number, and itself."""
        return next((i, kind) for i, kind in enumerate(self.measured["kinds"]) if kind["lengths"]["T"] == 24)

    def test_time(self):
        b = self.browser
        number, kind = self.prefill()
        b.open(self.page, f"#view=time&run={number}")
        self.assertEqual(b.js("document.querySelector('[data-length=T]').value"), "24", "estimates are at the measured lengths")
        self.assertIn("T 24", b.text(".timehead"))
        self.assertEqual(b.count("table.times tbody tr"), len(kind["launches"]))
        shown = b.js("measuredLaunches(currentRun()).reduce((sum, row) => sum + row.seconds, 0)")
        inside = sum(sum(one["iterations_ns"]) for one in kind["launches"]) / kind["calls"] / 1e9
        self.assertAlmostEqual(shown, inside, delta=inside * 1e-9)
        layers = b.js("meta.config.num_hidden_layers")
        in_layers = [one for one in kind["launches"] if len(one["iterations_ns"]) == layers]
        self.assertEqual(b.count(".strip .heat"), (len(in_layers) + 1) * layers, "each launch and all together, in each layer")
        self.assertEqual(b.count(".strip .heat[data-kernel^=attention]"), layers)
        self.assertIn("gate_proj + up_proj", b.text("table.times"))
        self.assertIn("between launches", b.text("table.times tfoot"))
        b.click("table.times tr[data-kernel^=attention]")
        self.assertEqual(b.count("table.times tr.chosen"), 1)
        self.assertRegex(b.text("#inspector .took"), r"measured: [\d.]+ .?s of a call of")
        # Other lengths were not measured; from the list of what was they are chosen again.
        b.js("(() => { const i = document.querySelector('[data-length=T]'); i.value = 64; i.dispatchEvent(new Event('change')); })()")
        self.assertEqual(b.count("table.times"), 0)
        self.assertIn("not measured", b.text(".empty"))
        b.js(f"(() => {{ const s = document.querySelector('#preset'); s.value = 'run {number}'; s.dispatchEvent(new Event('change')); }})()")
        self.assertEqual(b.count("table.times"), 1)

    def test_kernels_and_graph(self):
        b = self.browser
        number, kind = self.prefill()
        b.open(self.page, f"#view=kernels&run={number}")
        self.assertIn("took", b.text("table.kernels thead"))
        self.assertGreater(b.count(".roofline .hang"), 3)
        # The dot stands where operations over seconds are.
        reached = b.js("Number(document.querySelector('.roofline .dot[data-kernel^=attention]').dataset.reached)")
        expected = b.js("(() => { const p = kernelPoints(lastStage(), 'forward.last', '').find(p => p.name.startsWith('attention')); return p.flops / p.took; })()")
        self.assertAlmostEqual(reached, expected, delta=1e-6 * expected)
        self.assertIn("measured by the program", b.js("(update({op: -1}), document.querySelector('#inspector').textContent)"))
        b.key("g")
        b.wait("document.querySelectorAll('.box .body.hot').length > 3")  # drawn once its size is known
        self.assertRegex(b.text(".box.loop .sub"), r"[\d.]+ .?s · \d")
        b.click("#heat")
        b.wait("document.querySelectorAll('.box .body').length > 3")
        self.assertEqual(b.count(".box .body.hot"), 0)
        b.key("k")
        self.assertEqual(b.count("#heat"), 0, "only the planned module was measured")

    def test_profiles_of_other_programs(self):
        def refused(*options, file=self.profile, spec=SPEC):
            return run(QUERN, "dump", spec, *options, "--html", self.scratch / "no.html", "--profile", file, *MACHINE, status=1)

        self.assert_refused(refused("--config", DATA / "gpt2" / "config.json", spec=EXAMPLES / "gpt2.quern"), "a profile of model llama", "gpt2")
        self.assert_refused(refused(*self.config, "--set", "num_hidden_layers=3"), "2 times", "here 3")
        self.assert_refused(refused(*self.config, "--set", "intermediate_size=144"), "computes something else")
        self.assert_refused(refused(*self.config, "--train"), "launches")
        old = dict(self.measured)
        del old["kinds"]
        for text, words in ((json.dumps(old), "older"), ("{}", "no profile"), ("[1, 2", "no profile"),
                            ('{"quern_profile": 1, "kinds": [], "launches_in_code": 3}', "not a whole profile")):
            file = self.scratch / "other.json"
            file.write_text(text)
            self.assert_refused(refused(*self.config, file=file), words)
        self.assert_refused(refused(*self.config, file=self.scratch / "none.json"), "none.json")
        alone = run(QUERN, "dump", SPEC, *self.config, "--profile", self.profile, status=1)
        self.assert_refused(alone, "--html")


class Options(Case):
    def test_what_cannot_be_written_or_read(self):
        spec = self.write_spec("words", WORDS)
        missing = run(QUERN, "dump", spec, "--html", self.scratch / "nowhere" / "page.html", *MACHINE, status=1)
        self.assert_refused(missing, "cannot write", "nowhere")
        wrong = run(QUERN, "dump", spec, "--html", self.scratch / "page.html", "--machine", "fast", status=1)
        self.assert_refused(wrong, "--machine fast", "GFLOP/s")


if __name__ == "__main__":
    unittest.main()
