// Rows of a batch that began at different times give what each gives alone: read in chunks, then step by step.
#include "CausalSpecs.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes::test;

namespace {

/// Numbers begin .. begin + count - 1 of row `b` of a [B, T] array.
std::vector<int64_t> part(const Array &x, int64_t b, int64_t begin, int64_t count) {
  const int64_t *row = x.ints() + b * x.getDims()[1].size;
  return {row + begin, row + begin + count};
}

/// One row of an input [B, ...].
Array rowOf(const Array &x, int64_t b) {
  std::vector<NamedSize> dims = x.getDims();
  int64_t width = x.getCount() / dims[0].size;
  dims[0].size = 1;
  if (x.isReal())
    return Array(dims, std::vector<double>(x.reals() + b * width, x.reals() + (b + 1) * width));
  return Array(x.getKind(), dims, std::vector<int64_t>(x.ints() + b * width, x.ints() + (b + 1) * width));
}

/// A batch of texts of the lengths given, which grow by three tokens, one by one; and what the whole function says of
/// each text alone after every one of these.
class Texts {
public:
  Texts(Program &program, const std::string &name, const std::vector<int64_t> &lengths, int64_t words) {
    int64_t longest = *std::max_element(lengths.begin(), lengths.end()), rows = lengths.size();
    Program::Inputs inputs = inputsFor(program.function(name), rows, longest + more, 5, words);
    std::string text = argumentName(program.function(name), 0).str();
    std::string time = typeOf(program.function(name).getArgument(0)).getDims().back().getName().str();
    const Array tokens = inputs.at(text); // row b: its first lengths[b] + more numbers

    // Slots: a row's text ends where all end.
    slots = inputs;
    std::vector<int64_t> numbers, shifts;
    for (int64_t b = 0; b < rows; ++b) {
      shifts.push_back(longest - lengths[b]);
      for (int64_t slot = 0; slot < longest + more; ++slot)
        numbers.push_back(slot < shifts[b] ? 0 : part(tokens, b, slot - shifts[b], 1)[0]);
    }
    slots[text] = Array(Kind::Int, tokens.getDims(), numbers);
    slots["shift"] = Array(Kind::Int, {tokens.getDims()[0]}, shifts);

    for (int64_t step = 0; step <= more; ++step)
      for (int64_t b = 0; b < rows; ++b) {
        Program::Inputs alone;
        for (auto &[input, array] : inputs)
          alone[input] = rowOf(array, b);
        int64_t length = lengths[b] + step;
        alone[text] = Array(Kind::Int, {{tokens.getDims()[0].name, 1}, {time, length}}, part(tokens, b, 0, length));
        std::vector<double> whole = program.evaluate(name, alone);
        expected.insert(expected.end(), whole.end() - whole.size() / length, whole.end());
      }
  }

  /// Reads all but the last three tokens in chunks of the lengths `before`, then one by one.
  double difference(Program &lowered, const std::string &function, std::vector<int64_t> before) {
    before.insert(before.end(), more, 1);
    std::vector<double> all = lowered.evaluateSteps(function, slots, before);
    std::vector<double> ends(all.end() - all.size() / before.size() * (more + 1), all.end());
    return quern::passes::test::difference(expected, ends);
  }

private:
  static constexpr int64_t more = 3;
  Program::Inputs slots;
  std::vector<double> expected;
};

class Ragged : public testing::TestWithParam<SpecCase> {};

} // namespace

TEST_P(Ragged, EqualsEachAlone) {
  auto program = load(GetParam()), lowered = load(GetParam());
  std::string name = textFunction(*program);
  lowered->lower();
  ASSERT_TRUE(lowered->function(name + ".ragged"));
  std::vector<std::string> forms = {name + ".ragged"};
  if (lowered->function(name + ".step")) // for few rows; it serves any number
    forms.push_back(name + ".ragged.step");
  Dice dice(GetParam().name);
  auto anyLength = [&] { return 1 + dice.roll(12); };
  const std::vector<int64_t> first = {9, 4, 12, 1}, second = {anyLength(), anyLength(), 12, anyLength()};
  for (const std::vector<int64_t> &lengths : {first, second}) {
    Texts texts(*program, name, lengths, GetParam().words);
    std::vector<int64_t> chunks = dice.chunks(12);
    for (std::vector<int64_t> before : {std::vector<int64_t>{12}, {5, 2, 5}, chunks})
      for (std::string form : forms)
        EXPECT_LE(texts.difference(*lowered, form, before), 1e-12)
            << form << ", " << testing::PrintToString(lengths) << " in " << testing::PrintToString(before);
  }

  Texts texts(*program, name, second, GetParam().words);
  std::vector<std::unique_ptr<Pass>> passes;
  passes.push_back(quern::passes::createOutlineKernelsPass({}));
  passes.push_back(quern::passes::createPlanMemoryPass());
  lowered->run(std::move(passes));
  for (std::string form : forms)
    EXPECT_LE(texts.difference(*lowered, form, {7, 5}), 1e-12) << form << " as kernels";
}

INSTANTIATE_TEST_SUITE_P(Specs, Ragged, testing::ValuesIn(causalSpecs()), nameOf);
