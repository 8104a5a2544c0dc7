#!/bin/sh
# All that docs/design/gpu.md asks of a machine with an NVIDIA GPU, unattended, in 40 minutes: correctness first, then one
# contraction, decode, attention, training. Results: OUT/results.json and OUT/results.txt.
#
#   tests/gpu/measure.sh                     compiles what it measures, and measures it (OUT: build/gpu)
#   tests/gpu/measure.sh --only-build DIR    compiles alone: DIR and tests/ are all that a machine without a build needs
#   tests/gpu/measure.sh --built DIR         measures what is there: needs python3 and the driver, no more
#   tests/gpu/measure.sh --quick             everything in small, on whatever QUERN_CUDA_LIBRARY names
exec python3 "$(dirname "$0")/measure.py" "$@"
