// Recurrences by chunks: which have a form that can be, and that these compute what the recurrence one by one does.
#include "codegen/Producers.h"
#include "codegen/scan/ChunkForm.h"
#include "tests/codegen/support/Check.h"

#include <functional>

using namespace quern::codegen;

namespace {

/// A scan whose body a test writes, of h: [B, H, A, U], with slices for all that a memory may need.
struct Recurrence {
  Dim b = dim("B"), t = dim("T"), h = dim("H", 2), a, u;
  GraphMaker kernel, body;
  int state, keep, key, value, beta, query, held, other; ///< of the body
  std::vector<int> operands;
  int slices = 0;

  Recurrence(int64_t keys, int64_t values) : a(dim("A", keys)), u(dim("U", values)) {
    operands.push_back(kernel.argument(Storage::F32, {b, h, a, u}));
    state = body.argument(Storage::F32, {b, h, a, u});
    keep = slice(Storage::F32, {b, h});
    key = slice(Storage::F32, {b, a});
    value = slice(Storage::F32, {b, h, u});
    beta = slice(Storage::F32, {b, h});
    query = slice(Storage::F32, {b, h, a});
    held = slice(Storage::U8, {b});
    other = slice(Storage::F32, {b, h, a});
  }
  int slice(Storage storage, std::vector<Dim> dims) {
    ++slices;
    std::vector<Dim> all = {dims[0], t};
    all.insert(all.end(), dims.begin() + 1, dims.end());
    operands.push_back(kernel.argument(storage, all));
    return body.argument(storage, dims);
  }
  int make(Op op, int x, int y) { return body.elementwise(op, {x, y}); }
  int mul(int x, int y) { return make(Op::Mul, x, y); }
  int add(int x, int y) { return make(Op::Add, x, y); }
  int sub(int x, int y) { return make(Op::Sub, x, y); }
  int read(int x, int by) { return body.contract(x, by, {"A"}); }
  int memory() { return add(mul(keep, state), mul(key, value)); }
  int delta() {
    int kept = mul(keep, state);
    return add(kept, mul(key, mul(beta, sub(value, read(kept, key)))));
  }
  const KernelGraph &finish(std::vector<int> yields, bool fromEnd = false) {
    for (int result : kernel.scan(t, fromEnd, body, operands, 1, slices, yields))
      kernel.yield(result);
    return kernel.finish("recurrence");
  }
};

using Write = std::function<std::vector<int>(Recurrence &)>;

/// `memory`, `delta`, or why it is neither.
std::string formOf(const Write &write, int64_t values = 37) {
  Recurrence r(5, values);
  const KernelGraph &graph = r.finish(write(r));
  scan::ScanShape shape;
  if (auto why = scan::divide(graph, cpuTarget("x86-64-v3"), shape))
    return *why;
  scan::ChunkForm form;
  if (auto why = scan::recognise(graph, shape, form))
    return *why;
  return form.isDelta() ? "delta" : "memory";
}

KernelPlan chunksOf(int size) {
  return {"scan", {{"scan", {{"chunk", size}}}}};
}

/// Values between which a recurrence stays small: decays of all kinds, keys shorter and longer than 1.
std::vector<DenseTensor> inputsOf(const KernelGraph &graph, const Lengths &lengths) {
  std::vector<DenseTensor> inputs;
  for (int i = 0; i < graph.argumentCount(); ++i)
    inputs.push_back(randomTensor(graph.nodes[i], lengths, i + 1));
  static const double decays[] = {0.95, 1, 0.5, 1e-30, 1, 0, 0.999, 1, 0.25, 1e-30, 0.9};
  for (size_t i = 0; i < inputs[1].data.size(); ++i)
    inputs[1].data[i] = decays[i * 7 / 3 % 11];
  for (double &number : inputs[4].data)
    number = 0.25 + 0.25 * number;
  return inputs;
}

/// By chunks and one by one: within 2e-5 of each other, and the longest of plain loops in double precision.
void checkForm(const char *name, const Write &write, int64_t keys, int64_t values, int size, bool fromEnd = false) {
  Recurrence r(keys, values);
  std::vector<int> yields = write(r);
  const KernelGraph &graph = r.finish(yields, fromEnd);
  KernelRunner chunked(graph, cpuTarget("native"), chunksOf(size)), plain(graph, cpuTarget("native"), chunksOf(0));
  for (int length : {1, size - 1, size, size + 1, 2 * size, 2 * size + 1, 3 * size + 5}) {
    Lengths lengths = {{"B", 2}, {"T", length}};
    SCOPED_TRACE(std::string(name) + " A=" + std::to_string(keys) + " U=" + std::to_string(values) +
                 " C=" + std::to_string(size) + " T=" + std::to_string(length));
    std::vector<DenseTensor> inputs = inputsOf(graph, lengths), want;
    if (length > 2 * size + 1)
      want = evaluate(graph, lengths, inputs);
    for (KernelRunner *runner : {&chunked, &plain}) {
      runner->bind(lengths, inputs);
      ASSERT_EQ(runner->run(), 0);
      EXPECT_LE(runner->used().caller, runner->planned().caller);
      EXPECT_LE(runner->used().worker, runner->planned().worker);
    }
    for (size_t i = 0; i < graph.results.size(); ++i) {
      if (!want.empty())
        compareTensors(chunked.result(i), want[graph.results[i]], 2e-5, "plain loops, result " + std::to_string(i));
      compareTensors(chunked.result(i), plain.result(i), 2e-5, "one by one, result " + std::to_string(i));
      if (length < 2 * size) { // the same code
        EXPECT_EQ(chunked.result(i).data, plain.result(i).data);
      }
    }
  }
}

std::vector<int> memory(Recurrence &r) {
  int after = r.memory();
  return {after, r.read(after, r.query)};
}
std::vector<int> delta(Recurrence &r) {
  int after = r.delta();
  return {after, r.read(after, r.query)};
}
/// Rows of a batch whose texts begin later keep their state until then.
std::vector<int> held(Recurrence &r) {
  int after = r.delta();
  return {r.body.elementwise(Op::Where, {r.held, r.state, after}), r.read(after, r.query)};
}
/// What is read before and after the update, with the update's own key, scaled, and used by one output.
std::vector<int> reads(Recurrence &r) {
  int after = r.memory(), before = r.read(r.mul(r.beta, r.state), r.other), own = r.read(r.mul(after, r.beta), r.key);
  return {after, r.add(r.mul(before, own), r.value), r.read(r.mul(r.keep, r.state), r.query)};
}
/// The sum that the write depends on is a result, too; with the opposite signs.
std::vector<int> negated(Recurrence &r) {
  int error = r.sub(r.read(r.state, r.key), r.value);
  int after = r.mul(r.sub(r.state, r.mul(r.mul(r.key, r.beta), error)), r.keep);
  return {after, error, r.body.elementwise(Op::Neg, {r.read(after, r.query)})};
}

} // namespace

TEST(Chunks, FormsAreToldByWhatIsComputed) {
  EXPECT_EQ(formOf(memory), "memory");
  EXPECT_EQ(formOf(delta), "delta");
  EXPECT_EQ(formOf(held), "delta");
  EXPECT_EQ(formOf(reads), "memory");
  EXPECT_EQ(formOf(negated), "delta");
  EXPECT_EQ(formOf([](Recurrence &r) { // nothing fades, and no value but 1 is written
              int after = r.add(r.state, r.mul(r.key, r.value));
              return std::vector<int>{after, r.body.reduce(Reduction::Sum, r.mul(after, r.query), {"A"})};
            }),
            "memory");
}

TEST(Chunks, OthersAreNone) {
  auto reason = [](const Write &write) { return formOf(write); };
  EXPECT_EQ(reason([](Recurrence &r) { // gated linear attention
              int after = r.add(r.mul(r.other, r.state), r.mul(r.key, r.value));
              return std::vector<int>{after, r.read(after, r.query)};
            }),
            "its decay is not one number for each head");
  EXPECT_EQ(reason([](Recurrence &r) {
              int after = r.add(r.memory(), r.mul(r.other, r.value));
              return std::vector<int>{after, r.read(after, r.query)};
            }),
            "its update adds more than one product to the decayed state");
  EXPECT_EQ(reason([](Recurrence &r) {
              int after = r.memory();
              return std::vector<int>{after, r.read(after, r.query), after};
            }),
            "its states themselves are results");
  EXPECT_EQ(reason([](Recurrence &r) {
              int after = r.body.elementwise(Op::Tanh, {r.memory()});
              return std::vector<int>{after, r.read(after, r.query)};
            }),
            "its update is no sum of the decayed state and a product");
  EXPECT_EQ(reason([](Recurrence &r) {
              int seen = r.body.elementwise(Op::Tanh, {r.read(r.state, r.key)});
              int after = r.add(r.mul(r.keep, r.state), r.mul(r.key, r.mul(seen, r.beta)));
              return std::vector<int>{after, r.read(after, r.query)};
            }),
            "what it writes is no multiple of a sum of its state, plus what does not depend on it");
  EXPECT_EQ(reason([](Recurrence &r) {
              int after = r.mul(r.memory(), r.read(r.state, r.key));
              return std::vector<int>{after, r.read(after, r.query)};
            }),
            "it multiplies its state by what it reads of it");
  EXPECT_EQ(reason([](Recurrence &r) {
              int after = r.memory();
              return std::vector<int>{after, r.body.reduce(Reduction::Max, after, {"A"})};
            }),
            "it has other sums than those of its state over A");
  EXPECT_EQ(reason([](Recurrence &r) {
              int after = r.memory();
              return std::vector<int>{after, r.read(r.body.elementwise(Op::Abs, {after}), r.query)};
            }),
            "it reads something else than its state before or after the update");
}

TEST(Chunks, AsOneByOne) {
  for (int size : {16, 32, 48, 64})
    checkForm(size == 32 ? "memory" : "delta", size == 32 ? memory : delta, 5, 37, size);
  for (auto [keys, values] : {std::pair(2, 16), {7, 9}, {33, 20}, {9, 64}, {3, 129}}) {
    checkForm("memory", memory, keys, values, 16);
    checkForm("delta", delta, keys, values, 16);
  }
  checkForm("held", held, 7, 20, 16);
  checkForm("reads", reads, 7, 20, 16);
  checkForm("negated", negated, 7, 20, 16);
  checkForm("from the end", delta, 7, 20, 16, true);
}

TEST(Chunks, ThreadsChangeNothing) {
  Recurrence r(20, 150);
  const KernelGraph &graph = r.finish(delta(r));
  Lengths lengths = {{"B", 3}, {"T", 101}};
  std::vector<DenseTensor> inputs = inputsOf(graph, lengths), results[2];
  for (bool one : {false, true}) {
    KernelRunner runner(graph, cpuTarget("native"), chunksOf(32));
    if (one)
      runner.useOneThread();
    runner.bind(lengths, inputs);
    ASSERT_EQ(runner.run(), 0);
    for (size_t i = 0; i < graph.results.size(); ++i)
      results[one].push_back(runner.result(i));
  }
  for (size_t i = 0; i < graph.results.size(); ++i)
    EXPECT_EQ(results[0][i].data, results[1][i].data);
}

/// A NaN reaches positions behind its own alone.
TEST(Chunks, NothingReachesEarlierPositions) {
  for (const Write &write : {Write(memory), Write(delta)}) {
    Recurrence r(5, 37);
    const KernelGraph &graph = r.finish(write(r));
    KernelRunner runner(graph, cpuTarget("native"), chunksOf(16));
    Lengths lengths = {{"B", 1}, {"T", 53}};
    std::vector<DenseTensor> inputs = inputsOf(graph, lengths);
    runner.bind(lengths, inputs);
    ASSERT_EQ(runner.run(), 0);
    DenseTensor before = runner.result(1);
    const int64_t at = 37, heads = 2, values = 37, keys = 5;
    for (int64_t i = 0; i < heads * values; ++i)
      inputs[3].data[at * heads * values + i] = NAN;
    for (int64_t i = 0; i < keys; ++i)
      inputs[2].data[(at + 1) * keys + i] = NAN;
    runner.bind(lengths, inputs);
    ASSERT_EQ(runner.run(), 0);
    DenseTensor after = runner.result(1);
    for (int64_t i = 0; i < at * heads * values; ++i)
      ASSERT_EQ(before.data[i], after.data[i]) << i;
    EXPECT_TRUE(std::isnan(after.data[at * heads * values]));
  }
}

TEST(Chunks, APlanForAnotherFormIsRefused) {
  Recurrence r(5, 37);
  int after = r.add(r.mul(r.other, r.state), r.mul(r.key, r.value));
  const KernelGraph &graph = r.finish({after, r.read(after, r.query)});
  ScheduleTable table = ScheduleTable::standard();
  table.add("scan : chunk 32", "mine.txt"); // of all recurrences, where they can
  PlanOptions options{cpuTarget("native"), table};
  EXPECT_EQ(choosePlan(graph, options).text(), "scan: scan(chunk = 0)");
  auto refused = [&](int size) {
    try {
      producerOf(chunksOf(size), graph, options);
    } catch (const std::exception &error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refused(0), "");
  EXPECT_EQ(refused(16),
            "kernel recurrence: its plan cannot be made for native: scan: chunk 16, but the recurrence is "
            "neither a memory of keys and values nor a delta rule: its decay is not one number for each head");
  EXPECT_EQ(refused(8),
            "kernel recurrence: its plan cannot be made for native: scan: chunk 8 is not among 0, 16 ... 64");

  Recurrence other(5, 37);
  EXPECT_EQ(choosePlan(other.finish(memory(other)), options).text(), "scan: scan(chunk = 32)");
}
