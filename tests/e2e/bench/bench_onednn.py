"""oneDNN's side of bench.py: its package from PyPI and a program that multiplies with it, in build/onednn.

The program takes products as M K N M K N ... and gives for each a line with GFLOP/s of f32 rows and weights that oneDNN packs itself, the best of half a
second, which is what Quern's figure beside it is."""
import subprocess
import sys

from tests.e2e.harness import BUILD

PACKAGES = ["onednn-devel-cpu-gomp==2023.2.0", "onednn-cpu-gomp==2023.2.0"]
PLACE = BUILD / "onednn"
PROGRAM = PLACE / "bench"
SOURCE = r"""
#include <oneapi/dnnl/dnnl.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

using namespace dnnl;

static double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static double gflops(const engine &cpu, memory::dim m, memory::dim k, memory::dim n) {
  using tag = memory::format_tag;
  const auto f32 = memory::data_type::f32;
  memory::desc x({m, k}, f32, tag::ab), any({k, n}, f32, tag::any), y({m, n}, f32, tag::ab);
  matmul::primitive_desc desc(cpu, x, any, y);
  std::vector<float> rows(size_t(m * k), 0.5f), columns(size_t(k * n), 0.25f), result(size_t(m * n));
  memory plain({{k, n}, f32, tag::ab}, cpu, columns.data()), packed(desc.weights_desc(), cpu), in(x, cpu, rows.data()),
      out(y, cpu, result.data());
  stream queue(cpu);
  reorder(plain, packed).execute(queue, plain, packed);
  queue.wait();
  matmul product(desc);
  double best = 1e9, end = now() + 0.5;
  for (int rounds = 0; rounds < 3 || now() < end; ++rounds) {
    double start = now();
    product.execute(queue, {{DNNL_ARG_SRC, in}, {DNNL_ARG_WEIGHTS, packed}, {DNNL_ARG_DST, out}});
    queue.wait();
    best = std::min(best, now() - start);
  }
  return 2.0 * double(m * k * n) / best / 1e9;
}

int main(int argc, char **argv) {
  engine cpu(engine::kind::cpu, 0);
  for (int i = 1; i + 2 < argc; i += 3)
    std::printf("%.2f\n", gflops(cpu, std::atol(argv[i]), std::atol(argv[i + 1]), std::atol(argv[i + 2])));
}
"""


def install():
    PLACE.mkdir(parents=True, exist_ok=True)
    try:
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--ignore-installed", "--no-warn-script-location", "--prefix", PLACE, *PACKAGES],
                       check=True, stdout=sys.stderr)
        header, library = next(PLACE.rglob("oneapi/dnnl/dnnl.hpp")), next(PLACE.rglob("libdnnl.so"))
        subprocess.run(["g++", "-std=c++20", "-O2", "-x", "c++", "-", "-x", "none", "-I", header.parents[2], library, f"-Wl,-rpath,{library.parent}", "-o", PROGRAM],
                       input=SOURCE, encoding="utf-8", check=True, stdout=sys.stderr)
    except (OSError, StopIteration, subprocess.CalledProcessError) as error:
        sys.exit(f"bench.py: {error}\noneDNN cannot be fetched and built so (is there a network?); without it its column stays empty")
