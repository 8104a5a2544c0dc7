"""`./dev bench accuracy`: every golden model in every number format, in two tables: how far its program is from the interpreter, which does the same arithmetic
in double precision, and how far its logits are from those that PyTorch computed in f32. Both are the largest difference, relative to the largest logit.

The bounds that tests hold these to are in tests/e2e/weights/formats_test.py. All models in all six formats take half an hour on two cores."""
import argparse
import json
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor

from tests.e2e.models.models_test import SPECS, ZOO
from tests.e2e.weights import formats_test
from tests.e2e.weights.formats_test import FORMATS, SHOWN, USUAL

COLUMNS = 14  # at most: models stand beside each other in the table


def measure(fixture, formats):
    """By format: from the interpreter, from f32."""
    case = getattr(formats_test, fixture)()
    case.setUpClass()
    try:
        return {name: case.distances(name) for name in formats}
    finally:
        case.tearDownClass()


def table(heads, lines):
    return "\n".join(f"| {' | '.join(line)} |" for line in (heads, ["---"] * len(heads), *lines))


def report(measured, formats):
    """Of each format what is farthest; then each model's distances from f32."""
    def farthest(name, which):
        fixture = max(measured, key=lambda one: measured[one][name][which])
        return f"{measured[fixture][name][which]:.2g} ({fixture})"

    lines = [[name, farthest(name, 0), f"{FORMATS[name][1]:.0e}", f"{min(one[name][1] for one in measured.values()):.2g}",
              f"{statistics.median(one[name][1] for one in measured.values()):.2g}", farthest(name, 1)] for name in formats]
    print(table(["format", "from the interpreter at most", "bound", "from f32 at least", "median", "at most"], lines) + "\n")
    cells = [[fixture, *(f"{measured[fixture][name][1]:.1g}" for name in formats)] for fixture in sorted(measured)]
    beside = max(1, COLUMNS // (1 + len(formats)))
    height = -(-len(cells) // beside)
    empty = [""] * (1 + len(formats))
    rows = [sum((cells[at] if at < len(cells) else empty for at in range(row, beside * height, height)), []) for row in range(height)]
    print(table(["model", *formats] * beside, rows))


def main():
    parser = argparse.ArgumentParser(prog="./dev bench accuracy", description="every golden model in every number format: how far from the interpreter and from f32")
    parser.add_argument("--models", default=",".join(sorted(SPECS | ZOO)), help="which, by the folders of tests/data (all)")
    parser.add_argument("--formats", default=",".join(USUAL + SHOWN), help=f"which of {','.join(FORMATS)} ({','.join(USUAL + SHOWN)})")
    parser.add_argument("--jobs", type=int, default=2, help="models at a time (2)")
    parser.add_argument("--json", action="store_true", help="all distances, by model and format")
    options = parser.parse_args()
    models, formats = options.models.split(","), options.formats.split(",")
    for given, known, what in ((models, SPECS | ZOO, "golden model"), (formats, FORMATS, "format")):
        if unknown := [name for name in given if name not in known]:
            sys.exit(f"bench_accuracy.py: there is no {what} {unknown[0]!r}; there are {', '.join(known)}")
    measured = {}
    with ThreadPoolExecutor(options.jobs) as pool:
        for fixture, distances in zip(models, pool.map(lambda one: measure(one, formats), models)):
            measured[fixture] = distances
            print(fixture, *(f"{name} {near:.1e} {far:.2g}" for name, (near, far) in distances.items()), sep="  ", file=sys.stderr, flush=True)
    if options.json:
        print(json.dumps({fixture: {name: dict(zip(("interpreter", "f32"), both)) for name, both in one.items()} for fixture, one in measured.items()}, indent=1))
    else:
        report(measured, formats)


if __name__ == "__main__":
    main()
