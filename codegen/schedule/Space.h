// What the families' numbers may be: the space that plans are chosen from, by a model, by hand or by a tuner.
#ifndef QUERN_CODEGEN_SCHEDULE_SPACE_H
#define QUERN_CODEGEN_SCHEDULE_SPACE_H

#include "codegen/kernel/KernelMatch.h"
#include "codegen/kernel/KernelPlan.h"

#include <optional>
#include <string_view>

namespace quern::codegen {

struct Parameter {
  std::string_view name, meaning;
  int64_t least, most;
  int64_t step = 1; ///< between values; 0: each is twice the one before

  bool contains(int64_t value) const;
  /// `1, 2, 4 ... 64`: for messages.
  std::string domain() const;
  /// All values, smallest first.
  std::vector<int64_t> values() const;
};

/// A way to compute a part of kernels.
struct Family {
  std::string_view name, meaning;
  std::string_view base; ///< the family whose schedules hold where its own say nothing; empty: none
  std::vector<Parameter> parameters;
  std::vector<std::string_view> facts; ///< that schedules may ask for
  /// Why the numbers do not fit what is known about the part; nothing: they do.
  std::optional<std::string> (*refuses)(const PlanPart &part, const Facts &facts);

  const Parameter *find(std::string_view name) const;
};

const std::vector<Family> &families();
/// Throws std::runtime_error that lists the families.
const Family &family(std::string_view name);

/// Why the numbers are no point of the family's space: one is missing, unknown, outside of its domain, or they do not fit
/// together.
std::optional<std::string> checkPart(const PlanPart &part, const Anchor &anchor);

/// A fact's value; 0 where there is none.
int64_t known(const Facts &facts, const std::string &name);

/// Whether a tile of accumulators stays in registers, beside a step's columns and a number of a row.
bool fitsRegisters(int64_t rows, int64_t columns, const Facts &facts);
/// Whether a row alone goes over whole groups of so many tiles of columns, and their sums stay in registers, beside a step's
/// columns and a number of the row.
bool fitsSide(int64_t side, int64_t columns, const Facts &facts);
/// `a, b and c`.
std::string listed(std::vector<std::string> names);

} // namespace quern::codegen
#endif
