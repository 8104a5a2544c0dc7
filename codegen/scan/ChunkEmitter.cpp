// Takes: a recognised scan at a task. Gives: LLVM IR of its positions by chunks.
// Why: a state is read and written once for a chunk instead of once for a position, and tiles of products in registers come
// near to the processor's peak. Why running products of the decay: 0 and 1e-30 are exact, where quotients or logarithms of
// products are not.
// Rows behind the last position of a short chunk hold what an earlier chunk left there. No sum of a row that is stored
// reaches them; nor does it reach later positions, so that a NaN stays where it is.
#include "codegen/scan/ChunkEmitter.h"

using namespace llvm;

namespace quern::codegen::scan {

Chunks::Chunks(const KernelGraph &graph, const ScanShape &shape, const ChunkPlan *plan, Module &module)
    : Values(graph, shape, module), plan(plan), lanes(shape.width) {
  if (!plan)
    return;
  keys = *plan->form.keys.fixed();
  strip = std::min<int64_t>(lanes, 2 * static_cast<int64_t>(plan->vector));
  paddedKeys = (keys + plan->vector - 1) / plan->vector * plan->vector;
}

// ---- rows of numbers
Chunks::Rows Chunks::takeRows(int64_t count, int64_t width) {
  return {ofBlock(count * width * static_cast<int64_t>(sizeof(float))), width};
}

void Chunks::takeAll() {
  const ChunkForm &form = plan->form;
  int64_t size = plan->size;
  state = {states[0].memory, lanes};
  keyRows = takeRows(size, paddedKeys);
  keyColumns = takeRows(paddedKeys, size);
  written = takeRows(size, lanes);
  passed = takeRows(size + 1, size);
  first = takeRows(size + 1, 1);
  if (form.isDelta())
    rate = takeRows(size, lanes);
  reads.clear();
  for (const ChunkRead &read : form.reads)
    reads.push_back({read.query.factors == form.key.factors ? keyRows : takeRows(size, paddedKeys),
                     takeRows(size, size), takeRows(size, lanes), takeRows(size, 1), takeRows(size, 1)});
}

Value *Chunks::get(const Rows &rows, Value *row, Value *column, int64_t width) {
  Type *type = b.getFloatTy();
  if (width > 1)
    type = FixedVectorType::get(type, static_cast<unsigned>(width));
  Value *offset = b.CreateAdd(b.CreateMul(row, number(rows.width)), column);
  return b.CreateAlignedLoad(type, b.CreateGEP(b.getFloatTy(), rows.memory, offset), alignOf(type));
}

void Chunks::put(const Rows &rows, Value *row, Value *value, Value *column) {
  Value *offset = b.CreateMul(row, number(rows.width));
  if (column)
    offset = b.CreateAdd(offset, column);
  b.CreateAlignedStore(value, b.CreateGEP(b.getFloatTy(), rows.memory, offset), alignOf(value->getType()));
}

static Value *splatLike(IRBuilder<> &b, Value *scalar, Value *vector) {
  auto *type = dyn_cast<FixedVectorType>(vector->getType());
  return type ? b.CreateVectorSplat(type->getNumElements(), scalar) : scalar;
}
Value *Chunks::times(Value *scalar, Value *vector) {
  return b.CreateFMul(splatLike(b, scalar, vector), vector);
}
void Chunks::addProduct(Value *&sum, Value *scalar, Value *vector) {
  sum = b.CreateIntrinsic(sum->getType(), Intrinsic::fmuladd, {splatLike(b, scalar, sum), vector, sum});
}

/// Which of `width` lanes has this number.
Value *Chunks::isLane(Value *lane, int64_t width) {
  std::vector<Constant *> steps;
  for (int64_t i = 0; i < width; ++i)
    steps.push_back(b.getInt32(static_cast<uint32_t>(i)));
  Value *wanted = b.CreateVectorSplat(static_cast<unsigned>(width), b.CreateTrunc(lane, b.getInt32Ty()));
  return b.CreateICmpEQ(wanted, ConstantVector::get(steps));
}

/// Sums that stay in registers through a loop.
Chunks::Sums Chunks::fold(Value *count, Sums sums, const std::function<void(Value *, Sums &)> &step) {
  BasicBlock *before = b.GetInsertBlock(), *head = BasicBlock::Create(context, "", function),
             *inside = BasicBlock::Create(context, "", function), *after = BasicBlock::Create(context, "", function);
  b.CreateBr(head);
  b.SetInsertPoint(head);
  PHINode *i = b.CreatePHI(i64, 2);
  i->addIncoming(number(0), before);
  std::vector<PHINode *> carried;
  for (Value *&sum : sums) {
    carried.push_back(b.CreatePHI(sum->getType(), 2));
    carried.back()->addIncoming(sum, before);
    sum = carried.back();
  }
  b.CreateCondBr(b.CreateICmpSLT(i, count), inside, after);
  b.SetInsertPoint(inside);
  Sums next = sums;
  step(i, next);
  i->addIncoming(b.CreateAdd(i, number(1)), b.GetInsertBlock());
  for (size_t k = 0; k < next.size(); ++k)
    carried[k]->addIncoming(next[k], b.GetInsertBlock());
  b.CreateBr(head);
  b.SetInsertPoint(after);
  return sums;
}

Value *Chunks::dividedUp(Value *count, int64_t by) {
  return b.CreateSDiv(b.CreateAdd(count, number(by - 1)), number(by));
}

/// What runs over the state goes over a strip of its lanes at a time, which stays in the first-level cache.
void Chunks::eachStrip(const std::function<void(Value *)> &inside) {
  loop(number(lanes / strip), [&](Value *i) { inside(b.CreateMul(i, number(strip))); });
}

// ---- a chunk
void Chunks::runByChunks(Value *length) {
  takeAll();
  std::vector<Local> copies(inputs.size());
  std::swap(inputs, copies); // they are laid out for lanes of values, and keys are read in lanes of their own
  loop(dividedUp(length, plan->size), [&](Value *chunk) {
    Value *start = b.CreateMul(chunk, number(plan->size)), *left = b.CreateSub(length, start);
    Value *count = b.CreateBinaryIntrinsic(Intrinsic::smin, left, number(plan->size));
    oneChunk({start, count, length});
  });
  std::swap(inputs, copies);
}

void Chunks::oneChunk(const Chunk &chunk) {
  put(passed, number(0), Constant::getNullValue(FixedVectorType::get(b.getFloatTy(), plan->size)));
  put(first, number(0), ConstantFP::get(b.getFloatTy(), 1));
  eachPosition(chunk, [&](Value *i) { readPosition(i); });
  transposeKeys(chunk.count);
  for (const ReadRows &read : reads)
    multiplyKeys(read, chunk.count);
  int64_t rows = tileRows(strip);
  auto sumAll = [&](size_t number) {
    eachStrip([&](Value *lane) {
      loop(dividedUp(chunk.count, rows),
           [&](Value *tile) { sumTile(number, b.CreateMul(tile, this->number(rows)), lane); });
    });
  };
  if (plan->form.isDelta())
    sumAll(plan->form.inner);
  for (size_t r = 0; r < reads.size(); ++r)
    if (static_cast<int>(r) != plan->form.inner)
      sumAll(r);
  storeOutputs(chunk);
  updateState(chunk.count);
}

void Chunks::eachPosition(const Chunk &chunk, const std::function<void(Value *)> &inside) {
  loop(chunk.count, [&](Value *i) {
    Value *n = b.CreateAdd(chunk.start, i);
    if (body.fromEnd)
      n = b.CreateSub(b.CreateSub(chunk.length, number(1)), n);
    place[body.dim.name] = {n};
    inside(i);
    place.erase(body.dim.name);
  });
}

Value *Chunks::product(const Product &product) {
  Value *all = nullptr;
  for (int factor : product.factors) {
    Value *each = math.asReal(eval(true, factor, place));
    if (all && all->getType()->isVectorTy() != each->getType()->isVectorTy())
      all = lanesOf(all), each = lanesOf(each);
    all = all ? b.CreateFMul(all, each) : each;
  }
  if (!all)
    all = ConstantFP::get(b.getFloatTy(), 1);
  return product.minus ? b.CreateFNeg(all) : all;
}

/// What is made of a read here finds this value of it.
void Chunks::assume(int node, Value *value) {
  known.back()[keyOf(true, node, body.nodes[node], place)] = value;
}

/// All that the chunk needs of one position.
void Chunks::readPosition(Value *i) {
  const ChunkForm &form = plan->form;
  Value *next = b.CreateAdd(i, number(1)), *decay = product(form.decay);
  Value *before = get(passed, i), *edge = get(first, i);
  Value *one = ConstantFP::get(before->getType(), 1);
  Value *after = b.CreateSelect(isLane(i, plan->size), one, times(decay, before)),
        *edgeAfter = b.CreateFMul(decay, edge);
  if (form.hold) {
    Value *holds = eval(true, *form.hold, place);
    if (!form.holdsWhere)
      holds = b.CreateNot(holds);
    after = b.CreateSelect(holds, before, after);
    edgeAfter = b.CreateSelect(holds, edge, edgeAfter);
  }
  put(passed, next, after);
  put(first, next, edgeAfter);

  readKeys(form.key, keyRows, i);
  for (size_t r = 0; r < reads.size(); ++r) {
    const ChunkRead &read = form.reads[r];
    if (reads[r].query.memory != keyRows.memory)
      readKeys(read.query, reads[r].query, i);
    Value *scale = product(read.scale);
    put(reads[r].scale, i, read.updated ? b.CreateFMul(scale, decay) : scale);
    put(reads[r].own, i, read.updated ? scale : ConstantFP::get(b.getFloatTy(), 0));
  }
  if (form.isDelta()) {
    int inner = form.reads[form.inner].node;
    assume(inner, Constant::getNullValue(typeOf(body.nodes[inner])));
    put(rate, i, lanesOf(product(form.rate)));
  }
  put(written, i, lanesOf(product(form.value)));
}

/// A row of numbers along A, zeros behind its end.
void Chunks::readKeys(const Product &numbers, const Rows &to, Value *i) {
  const std::string &name = plan->form.keys.name;
  int vector = plan->vector, rest = static_cast<int>(keys % vector);
  std::swap(width, vector);
  Value *lanesMask = std::exchange(mask, nullptr);
  if (keys >= width)
    loop(number(keys / width), [&](Value *block) {
      Value *a = b.CreateMul(block, number(width));
      place[name] = {a, true};
      put(to, i, lanesOf(product(numbers)), a);
    });
  if (rest) {
    std::vector<Constant *> exists;
    for (int lane = 0; lane < width; ++lane)
      exists.push_back(b.getInt1(lane < rest));
    mask = ConstantVector::get(exists);
    place[name] = {number(keys - rest), true};
    Value *row = lanesOf(product(numbers));
    put(to, i, b.CreateSelect(mask, row, Constant::getNullValue(row->getType())), number(keys - rest));
  }
  place.erase(name);
  mask = lanesMask;
  std::swap(width, vector);
}

/// Squares of as many numbers as a vector has lanes: halves of two rows change places, then quarters, and so on.
static void transpose(IRBuilder<> &b, std::vector<Value *> &rows) {
  int size = static_cast<int>(rows.size());
  for (int step = size / 2; step; step /= 2)
    for (int row = 0; row < size; ++row) {
      if (row & step)
        continue;
      std::vector<int> upper, lower;
      for (int lane = 0; lane < size; ++lane) {
        upper.push_back(lane & step ? size + lane - step : lane);
        lower.push_back(lane & step ? size + lane : lane + step);
      }
      Value *above = rows[row], *below = rows[row + step];
      rows[row] = b.CreateShuffleVector(above, below, upper);
      rows[row + step] = b.CreateShuffleVector(above, below, lower);
    }
}

void Chunks::transposeKeys(Value *count) {
  int64_t square = plan->vector;
  loop(dividedUp(count, square), [&](Value *i) {
    loop(number(paddedKeys / square), [&](Value *a) {
      Value *row = b.CreateMul(i, number(square)), *column = b.CreateMul(a, number(square));
      std::vector<Value *> rows;
      for (int64_t r = 0; r < square; ++r)
        rows.push_back(get(keyRows, b.CreateAdd(row, number(r)), column, square));
      transpose(b, rows);
      for (int64_t r = 0; r < square; ++r)
        put(keyColumns, b.CreateAdd(column, number(r)), rows[r], row);
    });
  });
}

/// What stands before each value in a read, on and below the diagonal.
void Chunks::multiplyKeys(const ReadRows &read, Value *count) {
  int64_t wide = plan->size % (2 * plan->vector) ? plan->vector : 2 * plan->vector, rows = tileRows(wide);
  Value *zero = Constant::getNullValue(FixedVectorType::get(b.getFloatTy(), static_cast<unsigned>(wide)));
  loop(dividedUp(count, rows), [&](Value *tile) {
    Value *start = b.CreateMul(tile, number(rows));
    loop(dividedUp(b.CreateAdd(start, number(rows)), wide), [&](Value *block) {
      Value *column = b.CreateMul(block, number(wide));
      Sums sums = fold(number(keys), Sums(rows, zero), [&](Value *a, Sums &sums) {
        Value *of = get(keyColumns, a, column, wide);
        for (int64_t r = 0; r < rows; ++r)
          addProduct(sums[r], numberAt(read.query, b.CreateAdd(start, number(r)), a), of);
      });
      for (int64_t r = 0; r < rows; ++r) {
        Value *i = b.CreateAdd(start, number(r));
        Value *weight = times(get(read.scale, i), get(passed, i, column, wide));
        Value *own = splatLike(b, get(read.own, i), weight);
        weight = b.CreateSelect(isLane(b.CreateSub(i, column), wide), own, weight);
        put(read.products, i, b.CreateFMul(weight, sums[r]), column);
      }
    });
  });
}

/// A read at some positions from `start` on; of a delta rule's inner read, what is written there, too.
void Chunks::sumTile(size_t number, Value *start, Value *lane) {
  const ReadRows &read = reads[number];
  int64_t rows = tileRows(strip);
  bool solves = static_cast<int>(number) == plan->form.inner;
  std::vector<Value *> at;
  for (int64_t r = 0; r < rows; ++r)
    at.push_back(b.CreateAdd(start, this->number(r)));
  Value *zero = Constant::getNullValue(FixedVectorType::get(b.getFloatTy(), static_cast<unsigned>(strip)));
  Sums sums = fold(this->number(keys), Sums(rows, zero), [&](Value *a, Sums &sums) {
    Value *of = get(state, a, lane, strip);
    for (int64_t r = 0; r < rows; ++r)
      addProduct(sums[r], numberAt(read.query, at[r], a), of);
  });
  for (int64_t r = 0; r < rows; ++r)
    sums[r] = times(b.CreateFMul(get(read.scale, at[r]), get(first, at[r])), sums[r]);
  sums = fold(start, sums, [&](Value *j, Sums &sums) {
    Value *of = get(written, j, lane, strip);
    for (int64_t r = 0; r < rows; ++r)
      addProduct(sums[r], numberAt(read.products, at[r], j), of);
  });
  for (int64_t j = 0; j < rows; ++j) {
    Value *of = get(written, at[j], lane, strip);
    if (solves) {
      of = b.CreateIntrinsic(of->getType(), Intrinsic::fmuladd, {get(rate, at[j], lane, strip), sums[j], of});
      put(written, at[j], of, lane);
    }
    for (int64_t r = solves ? j + 1 : j; r < rows; ++r)
      addProduct(sums[r], numberAt(read.products, at[r], at[j]), of);
    put(read.sums, at[j], sums[j], lane);
  }
}

void Chunks::updateTile(Value *start, int64_t rows, Value *lane, Value *count) {
  Sums sums;
  Value *edge = get(first, count);
  for (int64_t r = 0; r < rows; ++r)
    sums.push_back(times(edge, get(state, b.CreateAdd(start, number(r)), lane, strip)));
  sums = fold(count, sums, [&](Value *j, Sums &sums) {
    Value *of = get(written, j, lane, strip);
    for (int64_t r = 0; r < rows; ++r)
      addProduct(sums[r], numberAt(keyRows, j, b.CreateAdd(start, number(r))), of);
  });
  for (int64_t r = 0; r < rows; ++r)
    put(state, b.CreateAdd(start, number(r)), sums[r], lane);
}

void Chunks::updateState(Value *count) {
  loop(count, [&](Value *j) { put(written, j, times(numberAt(passed, count, j), get(written, j))); });
  int64_t rows = tileRows(strip), rest = keys % rows;
  eachStrip([&](Value *lane) {
    loop(number(keys / rows), [&](Value *tile) { updateTile(b.CreateMul(tile, number(rows)), rows, lane, count); });
    if (rest)
      updateTile(number(keys - rest), rest, lane, count);
  });
}

void Chunks::storeOutputs(const Chunk &chunk) {
  eachPosition(chunk, [&](Value *i) {
    for (size_t r = 0; r < reads.size(); ++r)
      assume(plan->form.reads[r].node, get(reads[r].sums, i));
    for (auto [number, result] : shape.results)
      if (number >= body.carried)
        store(graph.argumentLayouts.size() + result, graph.nodes[graph.results[result]], place,
              ofKind(eval(true, body.yields[number], place), body.nodes[body.yields[number]]));
  });
}

} // namespace quern::codegen::scan
