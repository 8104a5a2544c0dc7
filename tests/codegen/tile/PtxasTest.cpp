// What NVIDIA's assembler makes of tile kernels with their standard plans: nothing may be spilled, nothing may be warned of,
// and registers are golden text. It needs no card. ptxas is a tool for development: `./dev test` fetches it.
#include "codegen/schedule/Schedule.h"
#include "codegen/tile/TileProducer.h"
#include "codegen/tile/ptx/PtxModule.h"
#include "codegen/tile/ptx/TensorProbe.h"
#include "tests/codegen/support/Compare.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

using namespace quern::codegen;
namespace fs = std::filesystem;

namespace {

/// Causal, grouped queries, a cache of keys and values; and the gradient of it.
void addAttentions(std::vector<std::pair<std::string, KernelGraph>> &all) {
  using quern::ir::Size;
  Size past = Size::symbol("past"), length = Size::symbol("T") + past;
  Dim batch = dim("B"), t = dim("T"), s = dim("S", length), groups = dim("G", 8), each = dim("R", 4);
  for (auto [storage, size] : {std::pair(Storage::BF16, 64), {Storage::BF16, 128}, {Storage::F32, 64}}) {
    GraphMaker g;
    Dim depth = dim("K", size), columns = dim("V", size);
    int q = g.argument(Storage::F32, {batch, t, groups, each, depth}),
        k = g.argument(storage, {batch, s, groups, depth}), v = g.argument(storage, {batch, s, groups, columns});
    if (storage == Storage::BF16)
      k = g.elementwise(Op::Widen, {k}), v = g.elementwise(Op::Widen, {v});
    int score = g.elementwise(Op::Mul, {g.contract(q, k, {"K"}), g.constant(0.125)});
    int mask = g.compare(Predicate::Le, g.index(s), g.elementwise(Op::Add, {g.index(t), g.size(past)}));
    int y = g.attention(g.elementwise(Op::Where, {mask, score, g.constant(-INFINITY)}), v, "S");
    g.yield(g.elementwise(Op::Narrow, {y}));
    std::string name = std::string("attention-") + storageName(storage) + "-" + std::to_string(size);
    all.emplace_back(name, g.finish("attention"));
  }
  for (bool ofKeys : {false, true}) {
    GraphMaker g;
    Dim keys = dim("S"), depth = dim("K", 64), columns = dim("V", 64);
    int q = g.argument(Storage::BF16, {batch, t, groups, depth}),
        k = g.argument(Storage::BF16, {batch, keys, groups, depth}),
        v = g.argument(Storage::BF16, {batch, keys, groups, columns}),
        dout = g.argument(Storage::F32, {batch, t, groups, columns});
    int of[3];
    for (int &one : of)
      one = g.argument(Storage::F32, {batch, t, groups});
    q = g.elementwise(Op::Widen, {q}), k = g.elementwise(Op::Widen, {k}), v = g.elementwise(Op::Widen, {v});
    int mask = g.compare(Predicate::Le, g.index(keys), g.index(t));
    int score = g.elementwise(Op::Mul, {g.contract(q, k, {"K"}), g.constant(0.125)});
    score = g.elementwise(Op::Where, {mask, score, g.constant(-INFINITY)});
    int p = g.elementwise(Op::Mul, {g.elementwise(Op::Exp, {g.elementwise(Op::Sub, {score, of[0]})}), of[1]});
    int dp = g.elementwise(Op::Sub, {g.contract(dout, v, {"V"}), of[2]});
    int ds = g.elementwise(Op::Where, {mask, g.elementwise(Op::Mul, {p, dp}), g.constant(0)});
    ds = g.elementwise(Op::Mul, {ds, g.constant(0.125)});
    if (ofKeys)
      g.yield(g.weightedSum(p, dout, "T")), g.yield(g.weightedSum(ds, q, "T"));
    else
      g.yield(g.weightedSum(ds, k, "S"));
    all.emplace_back(ofKeys ? "gradient-of-keys" : "gradient-of-queries", g.finish("gradient"));
  }
}

/// Kernels as models have them, by name.
std::vector<std::pair<std::string, KernelGraph>> kernels() {
  std::vector<std::pair<std::string, KernelGraph>> all;
  Dim m = dim("M"), k = dim("K", 1024), n = dim("N", 1024);
  auto add = [&](const std::string &name, auto &&fill) {
    GraphMaker g;
    fill(g);
    all.emplace_back(name, g.finish(name));
  };
  auto widened = [](GraphMaker &g, int x) { return g.elementwise(Op::Widen, {x}); };
  add("linear", [&](GraphMaker &g) {
    int x = g.argument(Storage::BF16, {m, k}), w = g.weight({n, k}, 64, Storage::BF16);
    g.yield(g.elementwise(Op::Narrow, {g.contract(widened(g, x), widened(g, w), {"K"})}));
  });
  add("gelu", [&](GraphMaker &g) {
    int x = g.argument(Storage::BF16, {m, k}), w = g.weight({n, k}, 64, Storage::BF16),
        bias = g.argument(Storage::F32, {n});
    int y = g.elementwise(Op::Add, {g.contract(widened(g, x), widened(g, w), {"K"}), bias});
    g.yield(g.elementwise(
        Op::Narrow,
        {g.elementwise(Op::Mul, {y, g.elementwise(Op::Add, {g.constant(1), g.elementwise(Op::Erf, {y})})})}));
  });
  add("gated", [&](GraphMaker &g) {
    int x = g.argument(Storage::BF16, {m, k}), w = g.weight({dim("U", 2), n, k}, 64, Storage::BF16);
    int both = g.contract(widened(g, x), widened(g, w), {"K"});
    int gate = g.squeeze(g.cut(both, "U", 0, dim("G", 1)), "G"), up = g.squeeze(g.cut(both, "U", 1, dim("V", 1)), "V");
    g.yield(g.elementwise(
        Op::Narrow,
        {g.elementwise(Op::Mul, {g.elementwise(Op::Mul, {gate, g.elementwise(Op::Sigmoid, {gate})}), up})}));
  });
  add("residual", [&](GraphMaker &g) {
    int x = g.argument(Storage::F32, {m, k}), w = g.weight({n, k}, 64), r = g.argument(Storage::F32, {m, n});
    g.yield(g.elementwise(Op::Add, {g.contract(x, w, {"K"}), r}));
  });
  for (Storage storage : {Storage::Int8, Storage::Int4, Storage::Q4K, Storage::Q6K})
    add(storageName(storage), [&](GraphMaker &g) {
      int x = g.argument(Storage::F32, {m, k}), w = g.weight({n, k}, 64, storage);
      g.yield(g.contract(x, g.elementwise(Op::Dequantize, {w}), {"K"}));
    });
  add("halves", [&](GraphMaker &g) {
    int x = g.argument(Storage::F32, {m, k}), w = g.weight({n, k}, 64, Storage::F16);
    g.yield(g.contract(x, widened(g, w), {"K"}));
  });
  addAttentions(all);
  return all;
}

std::string ptxas() {
  const char *given = std::getenv("QUERN_PTXAS");
  return given ? given : QUERN_BUILD_FOLDER "/ptxas/nvidia/cuda_nvcc/bin/ptxas";
}

/// What the assembler says of an image. `wrong`: what must not be.
std::string said(const std::string &name, const std::string &ptx, int capability, std::string &wrong) {
  fs::path folder = fs::path(QUERN_BUILD_FOLDER) / "e2e" / "ptxas-output";
  fs::create_directories(folder);
  std::string arch = capability == 90 ? "sm_90a" : "sm_" + std::to_string(capability),
              base = (folder / (name + "." + arch)).string();
  std::ofstream(base + ".ptx") << ptx;
  std::string command =
      ptxas() + " -v -arch=" + arch + " " + base + ".ptx -o " + base + ".cubin > " + base + ".txt 2>&1";
  int status = std::system(command.c_str());
  std::stringstream text;
  text << std::ifstream(base + ".txt").rdbuf();
  if (status || text.str().find("C75") != std::string::npos || text.str().find("warning") != std::string::npos)
    wrong += name + ": " + text.str();
  return text.str();
}

/// "linear direct product: 128 registers" for each kernel of both images.
std::string assembled(const std::string &name, const KernelGraph &graph, std::string &wrong) {
  CpuTarget target = cpuTarget("cuda");
  tile::Program program = tile::programOf(graph, tileProducer().choose(graph, target, ScheduleTable::standard()));
  std::string lines;
  for (int capability : tile::capabilitiesOf(program)) {
    std::string text = said(name, tile::ptxOf(program, capability).ptx, capability, wrong);
    for (size_t v = 0; v < program.variants.size(); ++v)
      for (size_t s = 0; s < program.variants[v].stages.size() && program.variants[v].capability == capability; ++s) {
        static const char *const forms[] = {"product", "dots", "map", "reduce", "async product", "attend"};
        std::string kernel = tile::kernelName(program, v, s),
                    what = name + " " + program.variants[v].name + " " + forms[int(program.variants[v].stages[s].form)];
        std::smatch found;
        std::regex form("Compiling entry function '" + kernel +
                        "'[^]*?(\\d+) bytes spill stores, (\\d+) bytes spill loads[^]*?Used (\\d+) registers");
        if (!std::regex_search(text, found, form)) {
          wrong += what + ": ptxas says nothing of it: " + text;
          continue;
        }
        if (found[1] != "0" || found[2] != "0")
          wrong += what + " for " + std::to_string(capability) + ": spills " + found[1].str() + " bytes\n";
        lines += what + ": " + found[3].str() + " registers\n";
      }
  }
  return lines;
}

} // namespace

TEST(Ptxas, SpillsNothing) {
  ASSERT_TRUE(fs::exists(ptxas())) << "there is no " << ptxas()
                                   << ": './dev test' fetches it (nvidia-cuda-nvcc-cu12 of PyPI, 40 MB), or set "
                                      "QUERN_PTXAS to the one of a CUDA toolkit";
  std::string lines, wrong;
  for (auto &[name, graph] : kernels())
    lines += assembled(name, graph, wrong);
  std::string probe = said("tensor_probe", tile::tensorProbe().ptx, 80, wrong);
  EXPECT_NE(probe.find("0 bytes spill stores, 0 bytes spill loads"), std::string::npos) << probe;
  EXPECT_EQ(wrong, "");
  std::stringstream golden;
  golden << std::ifstream(QUERN_SOURCE_FOLDER "/tests/codegen/tile/registers.txt").rdbuf();
  EXPECT_EQ(lines, golden.str()) << "if the numbers may change, they belong into tests/codegen/tile/registers.txt";
}
