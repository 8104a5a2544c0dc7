// Takes: what a search found. Gives: a page that shows it: whole program, kernels, every comparison as a point.
#include "tools/tune/TunePage.h"

#include "support/Error.h"
#include "support/Html.h"
#include "tools/report/ReportPage.h"

#include <algorithm>
#include <cmath>

using quern::support::format;
using quern::support::htmlText;

namespace quern::tools {
namespace {

const char style[] = R"(
.gained { color: var(--good); font-weight: 600; } .plan { max-width: 260px; overflow-wrap: anywhere; }
.faster { fill: var(--good); } .slower { fill: var(--other); } .wrong, .crashed, .refused { fill: var(--bad); }
.whole { display: grid; grid-template-columns: 90px 1fr; gap: 4px 12px; align-items: center; max-width: 760px; }
.bar { height: 13px; border-radius: 2px; background: var(--before); display: inline-block; vertical-align: middle; margin-right: 8px; }
.bar.after { background: var(--good); }
)";

/// Speeds of candidates, by that of the plan they were compared with: a logarithmic axis.
constexpr double slowest = 0.5, fastest = 1.6;
constexpr int width = 300, height = 24, edge = 14;

double place(double speed) {
  double at = std::log(std::clamp(speed, slowest, fastest) / slowest) / std::log(fastest / slowest);
  return edge + at * (width - 2 * edge);
}

std::string milliseconds(double nanoseconds) {
  return format(nanoseconds < 1e6 ? "%.3f ms" : "%.2f ms", nanoseconds / 1e6);
}

std::string pointOf(const TriedPlan &tried) {
  const Trial &trial = tried.trial;
  bool timed = trial.outcome == "faster" || trial.outcome == "slower";
  std::string about = planChange(tried.incumbent, tried.candidate) + ": ";
  if (timed)
    about += speedText(trial.ratio, trial.error, trial.pairs);
  else
    about += trial.outcome + (trial.note.empty() ? "" : ": " + trial.note);
  // What was never timed stands at the slow end.
  return format("<circle class=\"%s\" cx=\"%.1f\" cy=\"%d\" r=\"3.5\"><title>", trial.outcome.c_str(),
                timed ? place(1 / trial.ratio) : edge / 2.0, height / 2) +
         htmlText(about) + "</title></circle>";
}

std::string stripOf(const TunedKernel &kernel) {
  std::string svg =
      format("<svg width=\"%d\" height=\"%d\" role=\"img\" aria-label=\"speeds of the plans that were tried\">"
             "<line class=\"axis\" x1=\"%d\" x2=\"%d\" y1=\"%d\" y2=\"%d\"/>"
             "<line class=\"even\" x1=\"%.1f\" x2=\"%.1f\" y1=\"2\" y2=\"%d\"/>",
             width, height, edge, width - edge, height / 2, height / 2, place(1), place(1), height - 2);
  for (const TriedPlan &tried : kernel.tried)
    svg += pointOf(tried);
  return svg + "</svg>";
}

std::string axis() {
  std::string svg = format("<svg width=\"%d\" height=\"16\">", width);
  for (double speed : {0.5, 0.7, 1.0, 1.4})
    svg += format("<text x=\"%.1f\" y=\"12\" text-anchor=\"middle\">%g</text>", place(speed), speed);
  return svg + "</svg>";
}

std::string rowOf(const TunedKernel &kernel) {
  std::string title = kernel.title.empty() ? kernel.name : kernel.title;
  bool changed = !kernel.after.empty() && kernel.before != kernel.after;
  return "<tr><td class=\"name\">" + htmlText(title) + "<br><span class=\"dim\">" + htmlText(kernel.at) +
         "</span></td><td class=\"number\">" + format("%.1f", 100 * kernel.share) + "</td><td class=\"number\">" +
         std::to_string(kernel.trials) + "</td><td class=\"number\">" + std::to_string(kernel.wrong) +
         format("</td><td class=\"number%s\">%.3f</td><td>", changed ? " gained" : "", kernel.gain) + stripOf(kernel) +
         "</td><td class=\"plan\"><span title=\"" + htmlText(changed ? kernel.after : kernel.before) + "\">" +
         htmlText(planText(kernel)) + "</span></td></tr>\n";
}

std::string wholeOf(const std::vector<TunedPart> &parts) {
  std::string text = "<h2>The whole program, before and after, alternating</h2>\n<div class=\"whole\">\n";
  for (const TunedPart &part : parts) {
    double most = std::max(part.before, part.after);
    auto bar = [&](const char *which, double nanoseconds) {
      return format("<div><span class=\"bar%s\" style=\"width:%.1f%%\"></span>%s %s</div>", which,
                    most > 0 ? 60 * nanoseconds / most : 0, milliseconds(nanoseconds).c_str(),
                    *which ? "after" : "before");
    };
    text += "<div>" + htmlText(part.name) + "</div>" + bar("", part.before) + "<div></div>" +
            bar(" after", part.after) + "<div></div><div class=\"dim\">" +
            speedText(part.ratio, part.error, part.pairs) + "</div>\n";
  }
  return text + "</div>\n";
}

} // namespace

std::string tunePage(const TuneReport &report, const std::string &model, const TuningConditions &where) {
  std::string page = "<h1>Plans of " + htmlText(model) + "</h1>\n<p class=\"dim\">" + htmlText(where.machine) + "<br>" +
                     htmlText(where.work) + "; target " + htmlText(where.target) + "</p>\n<p>" +
                     std::to_string(report.measured) + format(" comparisons in %.0f s; ", report.seconds) +
                     endText(report) + ".</p>\n";
  if (!report.parts.empty())
    page += wholeOf(report.parts);
  page +=
      "<h2>Kernels</h2>\n<table>\n<tr><th>kernel, line of the spec</th><th class=\"number\">% of time</th><th "
      "class=\"number\">tried</th><th class=\"number\">wrong</th><th class=\"number\">gain</th><th>speed of each plan "
      "that was tried, relative to the best before it" +
      axis() + "</th><th>plan</th></tr>\n";
  for (const TunedKernel &kernel : report.kernels)
    page += rowOf(kernel);
  page += "</table>\n<p class=\"dim\">Points: <b style=\"color:var(--good)\">faster</b>, slower, <b "
          "style=\"color:var(--bad)\">wrong or crashed</b> (at the left edge, not timed). Point at one for its "
          "plan.</p>\n";
  return reportPage(model, "quern tune", style, page);
}

} // namespace quern::tools
