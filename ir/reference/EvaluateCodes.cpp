// Takes: weights in full precision. Gives: the numbers that their codes stand for.
#include "ir/reference/Codes.h"
#include "ir/reference/Interpreter.h"

using namespace mlir;
using namespace quern::ir;

LogicalResult QuantizeOp::evaluate(ArrayRef<Array> operands, Interpreter &interpreter, std::vector<Array> &results) {
  const Array &x = operands[0];
  NamedTensorType type = getResult().getType();
  Array result(type.getKind(), x.getDims());
  int64_t length = x.sizeOf(getDim()), step = 1;
  for (size_t d = x.getDims().size() - 1; static_cast<int>(d) != x.find(getDim()); --d)
    step *= x.getDims()[d].size;
  const double *from = x.reals();
  double *to = result.writeReals();
  for (int64_t row = 0; row < x.getCount() / length; ++row)
    for (int64_t first = 0, each = quern::support::blockOf(type.getStorage()); first < length; first += each) {
      int64_t start = row / step * step * length + row % step + first * step, count = std::min(length - first, each);
      std::vector<float> numbers(count);
      for (int64_t i = 0; i < count; ++i)
        numbers[i] = static_cast<float>(from[start + i * step]);
      std::vector<double> coded = codedNumbers(type.getStorage(), numbers, getPaired());
      for (int64_t i = 0; i < count; ++i)
        to[start + i * step] = coded[i];
    }
  results.push_back(result.aligned(interpreter.sizesOf(type)));
  return success();
}
