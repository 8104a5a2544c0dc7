"""Writes tests/costs.txt, from which cmake/TestTiers.cmake takes tiers and order, out of what CTest measured in its last run of all tests.

    tests/costs.py BUILD"""
import pathlib
import sys

measured = pathlib.Path(sys.argv[1]) / "Testing" / "Temporary" / "CTestCostData.txt"
costs = []
for line in measured.read_text().splitlines():
    if line == "---":  # what failed follows
        break
    name, _, seconds = line.rsplit(" ", 2)
    costs.append((float(seconds), name))
lines = ["# Seconds of one core; written by ./dev test costs."] + [f"{seconds:.1f} {name}" for seconds, name in sorted(costs, key=lambda cost: (-cost[0], cost[1]))]
(pathlib.Path(__file__).parent / "costs.txt").write_text("\n".join(lines) + "\n")
print(f"{len(costs)} tests, {sum(seconds for seconds, _ in costs) / 60:.1f} minutes of one core")
