// What quantising cost and gave, as a table and as a page.
#ifndef QUERN_TOOLS_QUANTIZE_REPORT_H
#define QUERN_TOOLS_QUANTIZE_REPORT_H

#include "tools/quantize/ChooseMix.h"
#include "tools/quantize/QuantizedFile.h"

namespace quern::tools {

/// A model before or after.
struct MeasuredModel {
  uint64_t bytes = 0; ///< of its weights in the file
  TextLoss loss;
  Speed speed;
};

struct QuantizeReport {
  std::string model, folder, quantize;
  std::string text;                  ///< the file
  int64_t predicted = 0, length = 0; ///< tokens, and those of a row
  std::vector<QuantizedTensor> tensors;
  MeasuredModel before, after;
  std::optional<ChosenMix> mix; ///< where a goal chose the formats
};

/// Tensors that share a format, and those of no product.
struct ReportedGroup {
  std::string title, format;
  std::vector<const QuantizedTensor *> tensors = {};
  uint64_t bytes = 0, bytesBefore = 0;
  double least = 0, most = 0; ///< errors
};
std::vector<ReportedGroup> groupsOf(const QuantizeReport &report);

/// "+0.34%".
std::string growthText(double after, double before);

std::string reportTable(const QuantizeReport &report);
std::string reportHtml(const QuantizeReport &report);

} // namespace quern::tools
#endif
