// Takes: the lines of a run's log. Gives: a page that a browser shows without a network: curves as SVG, in light or
// dark as the reader's system has it.
#include "runtime/training/Report.h"

#include "runtime/Error.h"
#include "support/Html.h"
#include "support/OutputFile.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace quern::runtime {

namespace {

using quern::support::htmlText;
using Json = nlohmann::json;
using Points = std::vector<std::pair<double, double>>;

struct Curve {
  std::string name, style;
  Points points;
};

/// Four digits, and k, M or G for what is long.
std::string shortNumber(double x) {
  double size = std::fabs(x);
  for (auto [unit, sign] : {std::pair{1e9, "G"}, {1e6, "M"}, {1e4, "k"}})
    if (size >= unit)
      return format("%.4g%s", x / (unit == 1e4 ? 1e3 : unit), sign);
  return format("%.4g", x);
}

/// At most `most` points: means of neighbours.
Points thinned(const Points &points, size_t most) {
  if (points.size() <= most)
    return points;
  Points result;
  for (size_t i = 0; i < most; ++i) {
    size_t from = i * points.size() / most, to = (i + 1) * points.size() / most;
    double x = 0, y = 0;
    for (size_t k = from; k < to; ++k) {
      x += points[k].first;
      y += points[k].second;
    }
    result.emplace_back(x / double(to - from), y / double(to - from));
  }
  return result;
}

/// 1, 2 or 5 times a power of ten: about `count` of them fill `range`.
double tick(double range, int count) {
  double rough = range / count, power = std::pow(10, std::floor(std::log10(rough))), part = rough / power;
  return power * (part < 1.5 ? 1 : part < 3.5 ? 2 : part < 7.5 ? 5 : 10);
}

constexpr int width = 900, height = 320, left = 64, right = 16, top = 12, bottom = 44;

std::string chart(const std::string &title, std::vector<Curve> curves, bool fromZero) {
  double x1 = 1, low = INFINITY, high = -INFINITY;
  for (Curve &curve : curves) {
    std::erase_if(curve.points, [](auto &point) { return !std::isfinite(point.second); });
    curve.points = thinned(curve.points, 600);
    for (auto [x, y] : curve.points) {
      x1 = std::max(x1, x);
      low = std::min(low, y);
      high = std::max(high, y);
    }
  }
  if (!(low <= high))
    return "";
  if (fromZero)
    low = std::min(low, 0.0);
  if (high - low < 1e-12)
    high = low + 1;
  auto px = [&](double x) { return left + (width - left - right) * x / x1; };
  auto py = [&](double y) { return top + (height - top - bottom) * (high - y) / (high - low); };
  std::string svg = format("<h2>%s</h2>\n<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">\n", title.c_str(),
                           width, height, title.c_str());
  double step = tick(high - low, 6);
  for (double y = std::ceil(low / step) * step; y <= high; y += step)
    svg += format("<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/><text x=\"%d\" y=\"%.1f\" "
                  "text-anchor=\"end\">%s</text>\n",
                  left, width - right, py(y), py(y), left - 8, py(y) + 4,
                  shortNumber(std::fabs(y) < step / 2 ? 0.0 : y).c_str());
  step = std::max(1.0, tick(x1, 8));
  for (double x = 0; x <= x1; x += step)
    svg += format("<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.0f</text>\n", px(x), height - 22, x);
  svg += format("<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">step</text>\n", (left + width - right) / 2, height - 4);
  for (const Curve &curve : curves) {
    if (curve.points.size() == 1) // no line yet
      svg += format("<circle class=\"%s\" fill=\"none\" r=\"4\" cx=\"%.1f\" cy=\"%.1f\"/>\n", curve.style.c_str(),
                    px(curve.points[0].first), py(curve.points[0].second));
    svg += "<polyline class=\"" + curve.style + "\" points=\"";
    for (auto [x, y] : curve.points)
      svg += format("%.1f,%.1f ", px(x), py(y));
    svg += "\"><title>" + curve.name + "</title></polyline>\n";
  }
  svg += "</svg>\n<p class=\"legend\">";
  for (const Curve &curve : curves)
    if (!curve.points.empty())
      svg += "<span class=\"key " + curve.style + "\"></span> " + curve.name + " (last " +
             shortNumber(curve.points.back().second) + ") ";
  return svg + "</p>\n";
}

const char *style = R"(<style>
:root { color-scheme: light dark; --ink: #1c1e21; --paper: #fff; --soft: #d8dce1; --a: #1f6feb; --b: #d1480d; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e6e9; --paper: #15181c; --soft: #333a42; --a: #6ea8fe; --b: #ff9b6a; } }
body { margin: 2rem auto; max-width: 960px; padding: 0 1rem; color: var(--ink); background: var(--paper); font: 15px/1.5 system-ui, sans-serif; }
svg { width: 100%; height: auto; } svg text { fill: var(--ink); font-size: 12px; }
.grid { stroke: var(--soft); } polyline { fill: none; stroke-width: 1.6; } .first { stroke: var(--a); } .second { stroke: var(--b); stroke-width: 2.4; }
.key { display: inline-block; width: 1.4em; height: 0; border-top: 3px solid var(--a); vertical-align: middle; } .key.second { border-color: var(--b); }
table { border-collapse: collapse; } td { padding: .1rem 1rem .1rem 0; } pre { white-space: pre-wrap; border-left: 3px solid var(--soft); padding-left: 1rem; }
</style>
)";

} // namespace

void writeReport(const std::string &path, const std::string &model, const std::vector<std::string> &lines) {
  Curve loss{"training", "first", {}}, valid{"validation", "second", {}}, rate{"learning rate", "first", {}},
      norm{"length of the gradient, before it is clipped", "first", {}}, speed{"tokens a second", "first", {}};
  std::string settings, samples;
  for (const std::string &line : lines) {
    Json entry = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!entry.is_object())
      continue;
    if (entry.contains("run")) {
      settings = "<table>\n";
      for (const auto &[name, value] : entry["run"].items())
        settings += "<tr><td>" + htmlText(name) + "</td><td>" +
                    htmlText(value.is_string()         ? value.get<std::string>()
                             : value.is_number_float() ? format("%.6g", value.get<double>())
                                                       : value.dump()) +
                    "</td></tr>\n";
      settings += "</table>\n";
      continue;
    }
    double at = entry.value("step", 0.0);
    auto add = [&](Curve &curve, const char *name) {
      if (entry.contains(name) && entry[name].is_number())
        curve.points.emplace_back(at, entry[name].get<double>());
    };
    add(loss, "loss");
    add(valid, "valid_loss");
    add(rate, "rate");
    add(norm, "grad_norm");
    if (entry.contains("seconds"))
      speed.points.emplace_back(at, entry["labels"].get<double>() / entry["seconds"].get<double>());
    if (entry.contains("sample"))
      samples =
          format("<h3>Step %.0f</h3>\n<pre>", at) + htmlText(entry["sample"].get<std::string>()) + "</pre>\n" + samples;
  }
  std::string page = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
                     "content=\"width=device-width\">\n<title>" +
                     htmlText(model) + ": training</title>\n" + style + "<h1>" + htmlText(model) + ": training</h1>\n";
  page += chart("Loss", {loss, valid}, false) + settings + chart("Learning rate", {rate}, true) +
          chart("Gradient", {norm}, true) + chart("Speed", {speed}, true);
  if (!samples.empty())
    page += "<h2>Samples, the newest first</h2>\n" + samples;
  writeFile(path, page);
}

} // namespace quern::runtime
