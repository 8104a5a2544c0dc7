// Two versions of a kernel on the arguments of one launch.
#ifndef QUERN_RUNTIME_TUNING_COMPARE_H
#define QUERN_RUNTIME_TUNING_COMPARE_H

#include "runtime/machine/Device.h"

namespace quern::runtime {

/// While it lives, launches that call `checked` run both versions of their kernel. One at a time in a process.
class Comparison {
public:
  /// `device`: whose launches these are.
  Comparison(Device &device, int right, int other);
  ~Comparison();
  Comparison(const Comparison &) = delete;

  /// Of all launches: the largest difference by the largest number of the right result (of that result; integers are
  /// equal or infinitely far; numbers of 16 bits that are neighbours are equal: sums that differ in their last bits may be
  /// rounded to either). Infinite where one has a number and the other has none.
  double difference = 0;
  int launches = 0;

private:
  friend struct Comparing;
  Device &device;
  int right, other;
};

} // namespace quern::runtime
#endif
