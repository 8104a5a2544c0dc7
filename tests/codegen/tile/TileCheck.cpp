// Takes: a kernel's graph and the numbers of a plan. Gives: failures of what its tile program computes.
#include "tests/codegen/tile/TileCheck.h"

#include "codegen/tile/ptx/PtxModule.h"
#include "tests/codegen/support/KernelCall.h"

namespace quern::codegen::tile {

static const bool ofDevices = GraphMaker::ofDevices = true;

void checkVariants(const KernelGraph &graph, const Numbers &numbers, const std::vector<Lengths> &lengths,
                   double tolerance, const std::string &plan, std::mt19937 &random) {
  Program program;
  std::optional<std::string> refused = divide(graph, numbers, program);
  ASSERT_FALSE(refused) << graph.name << ": " << *refused;
  std::map<int, std::unique_ptr<ptx::Module>> images; // by capability
  for (int capability : capabilitiesOf(program)) {
    PtxModule made = ptxOf(program, capability);
    try {
      images[capability] = ptx::parse(made.ptx);
    } catch (const std::exception &error) {
      FAIL() << error.what() << "\n" << made.ptx;
    }
  }
  for (const Lengths &now : lengths) {
    std::vector<DenseTensor> arguments;
    for (int i = 0; i < graph.argumentCount(); ++i)
      arguments.push_back(randomTensor(graph.nodes[i], now, i + 1));
    for (size_t v = 0; v < program.variants.size(); ++v) {
      if (!fits(program.variants[v], now))
        continue;
      std::vector<DenseTensor> want = evaluate(graph, now, arguments, roundingOf(program.variants[v]));
      std::string what = graph.name + " " + program.variants[v].name + " " + plan;
      for (const auto &[symbol, length] : now)
        what += " " + symbol + "=" + std::to_string(length);
      auto compare = [&](const std::vector<DenseTensor> &got, const std::string &how) {
        for (size_t r = 0; r < graph.results.size(); ++r)
          compareTensors(got[r], want[graph.results[r]], tolerance, what + how + " result " + std::to_string(r));
      };
      SCOPED_TRACE(what + "\n" + text(program));
      compare(runLoops(program, graph, now, arguments, v), " as loops");
      for (uint64_t seed : {uint64_t(0), uint64_t(1 + random() % 1000)}) {
        try {
          compare(runPtx(program, *images.at(program.variants[v].capability), graph, now, arguments, v, seed),
                  " as PTX, seed " + std::to_string(seed));
        } catch (const std::exception &error) {
          FAIL() << what << " seed " << seed << ": " << error.what();
        }
      }
      if (testing::Test::HasFailure())
        return;
    }
  }
}

Faults::Faults(const KernelGraph &graph, const Program &program, size_t variant, std::string ptx, Lengths lengths,
               double tolerance)
    : graph(graph), program(program), variant(variant), ptx(std::move(ptx)), lengths(std::move(lengths)),
      tolerance(tolerance) {
  for (int i = 0; i < graph.argumentCount(); ++i)
    arguments.push_back(randomTensor(graph.nodes[i], this->lengths, i + 1));
  want = evaluate(graph, this->lengths, arguments)[graph.results[0]].data;
}

bool Faults::isRight(const std::string &text) const {
  auto module = ptx::parse(text);
  for (uint64_t seed = 0; seed < 12; ++seed)
    try {
      std::vector<double> got = runPtx(program, *module, graph, lengths, arguments, variant, seed)[0].data;
      for (size_t i = 0; i < got.size(); ++i)
        if (!(std::fabs(got[i] - want[i]) < tolerance))
          return false;
    } catch (const std::runtime_error &) {
      return false;
    }
  return true;
}

std::string Faults::planted(const std::string &what, const std::string &with, int number) const {
  std::string text = ptx;
  size_t at = text.find(what);
  for (; number > 0 && at != std::string::npos; --number)
    at = text.find(what, at + 1);
  EXPECT_NE(at, std::string::npos) << what;
  return at == std::string::npos ? text : text.replace(at, what.size(), with);
}

} // namespace quern::codegen::tile
