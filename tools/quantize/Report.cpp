// Takes: what was measured. Gives: tables for a terminal.
#include "tools/quantize/Report.h"

#include "support/Error.h"

#include <algorithm>

using quern::support::format;
using quern::support::formatBytes;

namespace quern::tools {

static std::string formatName(const StoredForm &form) {
  bool kept = form.storage == support::Storage::F32;
  return kept ? runtime::typeName(*form.source) + std::string(form.source->reader ? " as F32" : "")
              : support::storageName(form.storage);
}

std::vector<ReportedGroup> groupsOf(const QuantizeReport &report) {
  std::vector<StoredForm> forms;
  std::map<std::string, const QuantizedTensor *> byName;
  for (const QuantizedTensor &tensor : report.tensors) {
    forms.push_back(tensor.form);
    byName[tensor.form.name] = &tensor;
  }
  std::vector<ReportedGroup> groups;
  auto add = [&](const std::string &title, const std::vector<std::string> &names) {
    ReportedGroup &group = groups.emplace_back(ReportedGroup{title, formatName(byName.at(names[0])->form)});
    group.least = byName.at(names[0])->error;
    for (const std::string &name : names) {
      const QuantizedTensor *tensor = byName.at(name);
      group.tensors.push_back(tensor);
      group.bytes += tensor->bytes;
      group.bytesBefore += tensor->form.source->bytes;
      group.least = std::min(group.least, tensor->error);
      group.most = std::max(group.most, tensor->error);
      if (formatName(tensor->form) != group.format)
        group.format = "mixed";
    }
  };
  for (const WeightGroup &group : weightGroups(forms))
    add(group.title(), group.names);
  std::map<std::string, std::vector<std::string>> others; // by format
  for (const StoredForm &form : forms)
    if (form.group < 0)
      others[formatName(form)].push_back(form.name);
  for (const auto &[format, names] : others)
    add("what is in no product: norms, biases, tables", names);
  return groups;
}

std::string growthText(double after, double before) {
  return format("%+.3f%%", 100 * (after / before - 1));
}

static std::string lossRow(const char *title, const MeasuredModel &model, const MeasuredModel &before) {
  bool first = &model == &before;
  return format("%-12s %10s %11.4f %10s %14s %13.1f %13.1f\n", title, formatBytes(double(model.bytes)).c_str(),
                model.loss.perplexity, first ? "" : growthText(model.loss.perplexity, before.loss.perplexity).c_str(),
                first ? "" : format("%.2e", model.loss.divergence).c_str(), model.speed.decode, model.speed.prefill);
}

static std::string measuredGroups(const ChosenMix &mix) {
  std::string text = "\nwhat each group alone costs: KL divergence, and the size that it then has\n";
  for (size_t g = 0; g < mix.groups.size(); ++g) {
    text += "  " + mix.groups[g].name + "\n    ";
    for (size_t i = 0; i < mix.groups[g].formats.size(); ++i) {
      const FormatChoice &choice = mix.groups[g].formats[i];
      bool chosen = mix.mixes[mix.chosen].formats[g] == i;
      text += format("%s%s %.1e %s%s", i ? ", " : "", choice.format.c_str(), choice.loss,
                     formatBytes(double(choice.bytes)).c_str(), chosen ? " (chosen)" : "");
    }
    text += "\n";
  }
  return text;
}

std::string reportTable(const QuantizeReport &report) {
  std::string text =
      format("%lld tokens of %s in rows of %lld, speeds from alternating runs\n\n",
             static_cast<long long>(report.predicted), report.text.c_str(), static_cast<long long>(report.length)) +
      format("%-12s %10s %11s %10s %14s %13s %13s\n", "", "size", "perplexity", "growth", "KL divergence",
             "decode, tok/s", "prefill, tok/s") +
      lossRow("unquantised", report.before, report.before) + lossRow("quantised", report.after, report.before) + "\n" +
      format("%-9s %8s %10s %10s  %-18s %s\n", "format", "tensors", "size", "before", "relative error", "weights");
  for (const ReportedGroup &group : groupsOf(report)) {
    std::string error =
        group.most == 0 ? "" : format(group.least == group.most ? "%.4f" : "%.4f to %.4f", group.least, group.most);
    text += format("%-9s %8zu %10s %10s  %-18s ", group.format.c_str(), group.tensors.size(),
                   formatBytes(double(group.bytes)).c_str(), formatBytes(double(group.bytesBefore)).c_str(),
                   error.c_str()) +
            group.title + "\n";
  }
  return text + (report.mix ? measuredGroups(*report.mix) : "");
}

} // namespace quern::tools
