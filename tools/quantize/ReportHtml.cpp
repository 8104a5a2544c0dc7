// Takes: what was measured. Gives: a page: model before and after, errors layer by layer, and how the mix was chosen.
#include "tools/quantize/Report.h"

#include "support/Error.h"
#include "support/Html.h"
#include "tools/report/ReportPage.h"

#include <algorithm>
#include <cmath>

using quern::support::format;
using quern::support::formatBytes;
using quern::support::htmlText;

namespace quern::tools {
namespace {

const char style[] = R"(
.errors rect { fill: var(--other); } .errors rect:hover { fill: var(--good); } .bar { fill: var(--before); } .bar.after { fill: var(--good); }
.mixes circle { fill: var(--other); } .mixes circle.chosen { fill: var(--good); } .mixes path { fill: none; stroke: var(--before); }
.chosen-cell { color: var(--good); font-weight: 600; } .rules { white-space: pre-wrap; overflow-wrap: anywhere; }
)";

std::string cell(const std::string &text, const char *kind = "number") {
  return std::string("<td class=\"") + kind + "\">" + htmlText(text) + "</td>";
}

std::string modelRow(const char *title, const MeasuredModel &model, const MeasuredModel &before) {
  bool first = &model == &before;
  double share = before.bytes ? double(model.bytes) / double(std::max(before.bytes, model.bytes)) : 0;
  return std::string("<tr><td>") + title + "</td>" + cell(formatBytes(double(model.bytes))) +
         format("<td><svg width=\"160\" height=\"16\"><rect class=\"bar%s\" y=\"3\" width=\"%.1f\" height=\"11\" "
                "rx=\"2\"/></svg></td>",
                first ? "" : " after", std::max(1.0, 160 * share)) +
         cell(format("%.4f", model.loss.perplexity)) +
         cell(first ? "" : growthText(model.loss.perplexity, before.loss.perplexity)) +
         cell(first ? "" : format("%.2e", model.loss.divergence)) + cell(format("%.1f", model.speed.decode)) +
         cell(format("%.1f", model.speed.prefill)) + "</tr>\n";
}

/// A bar for each tensor, in the order of the layers.
std::string errorBars(const ReportedGroup &group) {
  const double each = std::clamp(320.0 / double(group.tensors.size()), 2.0, 14.0);
  constexpr double height = 34;
  std::string svg =
      format("<svg class=\"errors\" width=\"%.0f\" height=\"%.0f\" role=\"img\" aria-label=\"errors by layer\">",
             each * double(group.tensors.size()), height);
  for (size_t i = 0; i < group.tensors.size(); ++i) {
    double tall = (height - 1) * group.tensors[i]->error / group.most;
    svg += format("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"><title>", each * double(i), height - tall,
                  each - 1, tall) +
           htmlText(group.tensors[i]->form.name) + format(": %.5f</title></rect>", group.tensors[i]->error);
  }
  return svg + "</svg>";
}

std::string groupsTable(const QuantizeReport &report) {
  std::vector<ReportedGroup> groups = groupsOf(report);
  std::string html =
      "<h2>Weights</h2>\n<table>\n<tr><th>weights</th><th>format</th><th class=\"number\">tensors</th><th "
      "class=\"number\">size</th><th class=\"number\">before</th><th class=\"number\">relative error</th><th>of each "
      "tensor, layer by layer</th></tr>\n";
  for (const ReportedGroup &group : groups) {
    std::string error =
        group.least == group.most ? format("%.4f", group.most) : format("%.4f to %.4f", group.least, group.most);
    html += "<tr>" + cell(group.title, "name") + cell(group.format, "") + cell(std::to_string(group.tensors.size())) +
            cell(formatBytes(double(group.bytes))) + cell(formatBytes(double(group.bytesBefore))) +
            cell(group.most > 0 ? error : "") + "<td>" + (group.most > 0 ? errorBars(group) : "") + "</td></tr>\n";
  }
  return html + "</table>\n<p class=\"dim\">Relative error: the root of the mean square of what was rounded away, "
                "relative to that of "
                "the weights. A full bar is the largest of its row; point at one for the tensor.</p>\n";
}

/// Size across, divergence (on a logarithmic axis) upwards: what each mix is expected to cost.
std::string mixesPicture(const ChosenMix &mix) {
  constexpr double width = 720, height = 240, left = 60, bottom = 28, edge = 12;
  double least = 1e-9, largest = double(mix.rest + mix.mixes.front().bytes),
         smallest = double(mix.rest + mix.mixes.back().bytes);
  double most = std::max(mix.mixes.back().loss, 10 * least);
  for (const Mix &one : mix.mixes)
    if (one.loss > 0) {
      least = one.loss / 2;
      break;
    }
  auto x = [&](const Mix &one) {
    double share = largest > smallest ? (double(mix.rest + one.bytes) - smallest) / (largest - smallest) : 0;
    return left + edge + share * (width - left - 2 * edge);
  };
  auto y = [&](double loss) {
    double share = std::log(std::max(loss, least) / least) / std::log(std::max(most / least, 2.0));
    return height - bottom - share * (height - bottom - edge);
  };
  std::string svg = format(
      "<svg class=\"mixes\" width=\"%.0f\" height=\"%.0f\" role=\"img\" aria-label=\"mixes by size and divergence\">"
      "<line class=\"axis\" x1=\"%.0f\" x2=\"%.0f\" y1=\"%.0f\" y2=\"%.0f\"/>",
      width, height, left, width, height - bottom, height - bottom);
  for (double loss = std::pow(10, std::ceil(std::log10(least))); loss <= most; loss *= 10)
    svg += format("<line class=\"axis\" x1=\"%.0f\" x2=\"%.0f\" y1=\"%.1f\" y2=\"%.1f\"/><text x=\"%.0f\" y=\"%.1f\" "
                  "text-anchor=\"end\">%.0e</text>",
                  left, width, y(loss), y(loss), left - 6, y(loss) + 4, loss);
  svg += format("<text x=\"%.0f\" y=\"%.0f\">", left + edge, height - 8) + htmlText(formatBytes(smallest)) +
         format("</text><text x=\"%.0f\" y=\"%.0f\" text-anchor=\"end\">", width - edge, height - 8) +
         htmlText(formatBytes(largest)) + "</text>";
  std::string path, points;
  for (size_t i = 0; i < mix.mixes.size(); ++i) {
    const Mix &one = mix.mixes[i];
    path += format("%s%.1f %.1f", i ? " L" : "M", x(one), y(one.loss));
    std::string about = formatBytes(double(mix.rest + one.bytes)) + format(", sum of divergences %.2e", one.loss);
    if (auto found = mix.measured.find(i); found != mix.measured.end())
      about += format("; measured: divergence %.2e, perplexity ", found->second.loss.divergence) +
               growthText(found->second.loss.perplexity, mix.before.perplexity);
    points += format("<circle%s cx=\"%.1f\" cy=\"%.1f\" r=\"%d\"><title>", i == mix.chosen ? " class=\"chosen\"" : "",
                     x(one), y(one.loss), i == mix.chosen ? 6 : 4) +
              htmlText(about) + "</title></circle>";
  }
  return svg + "<path d=\"" + path + "\"/>" + points + "</svg>\n";
}

std::string mixSection(const ChosenMix &mix) {
  std::string html =
      "<h2>How the mix was chosen</h2>\n" + mixesPicture(mix) +
      "<p class=\"dim\">Each point is the mix before it with one group in fewer bits: the one that saves most bytes "
      "for what it "
      "loses. Across: bytes of the weights; upwards: the sum of the groups' KL divergences. Green: the choice.</p>\n"
      "<table>\n<tr><th>KL divergence with this group alone in</th>";
  std::vector<std::string> words;
  for (const GroupChoices &group : mix.groups)
    for (const FormatChoice &choice : group.formats)
      if (std::find(words.begin(), words.end(), choice.format) == words.end())
        words.push_back(choice.format);
  for (const std::string &word : words)
    html += "<th class=\"number\">" + htmlText(word) + "</th>";
  html += "</tr>\n";
  for (size_t g = 0; g < mix.groups.size(); ++g) {
    html += "<tr>" + cell(mix.groups[g].name, "name");
    const std::vector<FormatChoice> &formats = mix.groups[g].formats;
    for (const std::string &word : words) {
      auto choice = std::find_if(formats.begin(), formats.end(), [&](auto &one) { return one.format == word; });
      if (choice == formats.end()) {
        html += cell("saves nothing", "number dim");
        continue;
      }
      bool chosen = mix.mixes[mix.chosen].formats[g] == size_t(choice - formats.begin());
      html +=
          cell((choice != formats.begin() ? format("%.1e, ", choice->loss) : "") + formatBytes(double(choice->bytes)),
               chosen ? "number chosen-cell" : "number");
    }
    html += "</tr>\n";
  }
  return html + "</table>\n";
}

} // namespace

std::string reportHtml(const QuantizeReport &report) {
  std::string rules = report.quantize;
  std::replace(rules.begin(), rules.end(), ',', '\n');
  std::string body =
      "<h1>" + htmlText(report.model) + ", quantised</h1>\n<p class=\"dim\">" + htmlText(report.folder) + "<br>" +
      htmlText(
          format("%lld tokens of ", static_cast<long long>(report.predicted)) + report.text +
          format(" in rows of %lld; speeds are medians of alternating runs", static_cast<long long>(report.length))) +
      "</p>\n<table>\n<tr><th></th><th class=\"number\">size</th><th></th><th class=\"number\">perplexity</th><th "
      "class=\"number\">growth</th><th class=\"number\">KL divergence</th><th class=\"number\">decode, "
      "tokens/s</th><th "
      "class=\"number\">prefill, tokens/s</th></tr>\n" +
      modelRow("unquantised", report.before, report.before) + modelRow("quantised", report.after, report.before) +
      "</table>\n" + groupsTable(report);
  if (report.mix)
    body += mixSection(*report.mix);
  return reportPage(report.model, "quern quantize", style,
                    body +
                        "<h2>Formats</h2>\n<p class=\"dim\">For --quantize, a line each; the last that fits a name "
                        "decides.</p>\n<p><code class=\"rules\">" +
                        htmlText(rules) + "</code></p>\n");
}

} // namespace quern::tools
