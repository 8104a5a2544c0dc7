"""docs/zoo.md: every architecture with a spec, and how far its numbers are from PyTorch's. Takes a few minutes; with names
of golden models it measures these and keeps the other lines.

    QUERN_BUILD=build python3 -m tests.e2e.models.zoo [NAME ...]
"""
import json
import sys

from tests.e2e.models import models_test
from tests.e2e.harness import ROOT, relative_error
from tests.e2e.models.models_test import SPECS, ZOO

PAGE = ROOT / "docs" / "zoo.md"
HEAD = """# The zoo

Made by `QUERN_BUILD=build python3 -m tests.e2e.models.zoo`; don't edit it by hand. Each line is a tiny random model of a published architecture (`tests/data/`), whose numbers PyTorch computed.

- **interpreter**: the largest difference of its logits from PyTorch's in float64, relative to the largest logit. Both compute in double precision; the tests allow 1e-9.
- **program**: the same for the compiled program and PyTorch in float32; the tests allow 5e-5.
- **tokens**: greedily generated tokens that are PyTorch's, through the cache and by recomputing every step; "-" for what does not generate.

{types} values of `model_type` and {classes} checkpoint classes, read by {specs} specs of [examples/](../examples).

| model_type | checkpoint class | spec | interpreter | program | tokens |
| --- | --- | --- | --- | --- | --- |
"""


def measure(fixture):
    """One line of the table."""
    case = getattr(models_test, fixture)()
    case.setUpClass()
    try:
        config = json.loads(case.config.read_text())
        exact = relative_error(case.interpret(case.spec, case.weights, case.inputs, "--config", case.config)["logits"], case.expected["logits_f64"], case.keep)
        compiled = relative_error(case.evaluate(case.program, case.weights, case.inputs)["logits"], case.expected["logits"], case.keep)
        tokens = "-"
        if "generated" in case.expected:
            pairs = [pair for options in ((), ("--no-cache",)) for pair in case.continuations(*options)]
            tokens = f"{sum(a == b for got, want in pairs for a, b in zip(got, want))} of {sum(len(want) for _, want in pairs)}"
    finally:
        case.tearDownClass()
    variant = "" if fixture.replace("-", "_") == config["model_type"].replace("-", "_") else f" ({fixture})"
    return f"| {config['model_type']}{variant} | {config['architectures'][0]} | [{case.spec}](../examples/{case.spec}.quern) | {exact:.0e} | {compiled:.0e} | {tokens} |"


def main():
    named = sys.argv[1:]
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")][2:] if named else []
    for fixture in named or SPECS | ZOO:
        made = measure(fixture)
        lines = [line for line in lines if line.split(" | ")[0] != made.split(" | ")[0]] + [made]
        print(made, file=sys.stderr, flush=True)
    # The page counts its own lines: architectures.json also has sentence encoders, which are tried elsewhere.
    types, classes, specs = ({line.split(" | ")[n].split()[n == 0] for line in lines} for n in range(3))
    PAGE.write_text(HEAD.format(types=len(types), classes=len(classes), specs=len(specs)) + "\n".join(sorted(lines, key=lambda line: (line.split()[1], line))) + "\n")


if __name__ == "__main__":
    main()
