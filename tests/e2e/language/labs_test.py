"""The labs in examples/labs, with --quick: each writes a page that stands alone, whose plots hold what was measured."""
import re
import unittest
import xml.etree.ElementTree

from tests.e2e.harness import BUILD, EXAMPLES, QUERN, Case, run

SVG = "{http://www.w3.org/2000/svg}"


class Labs(Case):
    def lab(self, name):
        page = self.scratch / f"{name}.html"
        run("/usr/bin/env", f"QUERN={QUERN}", "python3", EXAMPLES / "labs" / "lab.py", name, "--quick", "--out", page)
        text = page.read_text(encoding="utf-8")
        for outside in ("http://", "https://", "<script", "src=", "@import", "nan", "inf"):
            self.assertNotIn(outside, text.lower())
        self.assertIn("prefers-color-scheme: dark", text)
        charts = re.findall(r"<figcaption>(.*?)</figcaption>(<svg.*?</svg>)", text, re.S)
        for title, svg in charts:
            with self.subTest(title):
                root = xml.etree.ElementTree.fromstring(svg)
                _, _, width, height = map(float, root.get("viewBox").split())
                lines = [e for e in root.iter("path") if "stroke:var(--c" in e.get("style", "")]
                self.assertTrue(lines, title)
                for line in lines:
                    points = re.findall(r"([-\d.]+) ([-\d.]+)", line.get("d"))
                    self.assertGreaterEqual(len(points), 2, title)
                    for x, y in points:
                        self.assertTrue(0 <= float(x) <= width and 0 <= float(y) <= height, f"{title}: {x} {y} is off the paper")
                labels = [e.text for e in root.iter("text")]
                self.assertGreater(sum(bool(re.match(r"[\d.-]", t)) for t in labels), 2, f"{title}: axes need numbers")
        rows = re.findall(r"<tr>(.*?)</tr>", text)
        self.assertGreater(len(rows), 2)
        return charts, rows

    def test_cost(self):
        charts, rows = self.lab("cost")
        self.assertEqual([title for title, _ in charts], ["Seconds of prefill", "Memory beside the weights"])
        self.assertEqual(len(rows), 1 + 3)

    def test_heads(self):
        charts, rows = self.lab("heads")
        self.assertEqual(len(charts), 1)
        sizes = {re.findall(r"<td>(.*?)</td>", row)[1] for row in rows[1:]}
        self.assertEqual(len(sizes), 1, "both models have as many parameters")
        self.assertEqual(len(rows), 1 + 2)

    def test_window(self):
        charts, rows = self.lab("window")
        self.assertEqual(len(charts), 3)
        cells = [re.findall(r"<td>(.*?)</td>", row) for row in rows if "<td>" in row]
        losses = {int(row[0]): float(row[1]) for row in cells if len(row) == 3}
        places = {int(row[0]): float(row[1]) for row in cells if len(row) == 2}
        self.assertEqual((sorted(losses), list(places)), ([4, 16], [1, 2, 4, 8, 16]))
        # Place by place, in Python from the program's logits, it is the loss that the program reported (of all rows; these are 400).
        mean = sum(loss * max(1, most // 2) for most, loss in places.items()) / 16
        self.assertLess(abs(mean - losses[16]), 0.05)

    def test_size(self):
        charts, rows = self.lab("size")
        self.assertEqual(len(charts), 2)
        sizes = [int(re.findall(r"<td>(.*?)</td>", row)[1]) for row in rows[1:]]
        self.assertEqual(sizes, sorted(set(sizes)))

    def test_refusals(self):
        self.assert_refused(run("/usr/bin/env", "QUERN=/nowhere", "python3", EXAMPLES / "labs" / "lab.py", "heads", "--out", self.scratch / "x.html", status=1), "./dev build")
        self.assertEqual(run("python3", EXAMPLES / "labs" / "lab.py", "nothing", status=2).status, 2)


if __name__ == "__main__":
    unittest.main()
