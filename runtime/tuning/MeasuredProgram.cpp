// Takes: questions. Gives: what a program measures, whatever becomes of its process.
#include "runtime/tuning/MeasuredProgram.h"

#include "support/Error.h"
#include "support/Files.h"
#include "support/Json.h"

#include <algorithm>
#include <stdexcept>

using Json = nlohmann::json;

namespace quern::runtime {

/// What a program ends with on a machine that cannot run it.
static constexpr int machineCannot = 2;
/// Seconds without a word after which a program hangs.
static constexpr double patience = 300;

MeasuredProgram::MeasuredProgram(std::string executable, std::vector<std::string> workload)
    : executable(std::move(executable)), workload(std::move(workload)) {}

void MeasuredProgram::use(const std::vector<VersionUse> &versions) {
  uses.clear();
  for (const VersionUse &use : versions)
    uses.insert(uses.end(), {"--use", std::to_string(use.kernel) + ":" + std::to_string(use.version)});
}

std::vector<std::string> MeasuredProgram::command() const {
  std::vector<std::string> words = {executable, "measure"};
  words.insert(words.end(), workload.begin(), workload.end());
  words.insert(words.end(), uses.begin(), uses.end());
  return words;
}

void MeasuredProgram::fail(const Ending &end) const {
  std::string text = support::readFile(errors());
  std::string message = "the program could not be measured: " + (end.how.empty() ? "it gave no answer" : end.how) +
                        (text.empty() ? "" : ": " + text.substr(0, 2000));
  if (end.status == machineCannot)
    throw support::MachineError(message);
  throw std::runtime_error(message);
}

static Json parse(const std::string &line) {
  return support::parseJson(line, "what the program reported");
}

Json MeasuredProgram::ask(const std::string &question) {
  std::vector<std::string> words = command();
  words.push_back("--" + question);
  Child child(words, errors());
  std::optional<std::string> line = child.line(patience);
  Ending end = child.finish();
  if (!line)
    fail(end);
  return parse(*line).at(question);
}

void MeasuredProgram::compare(const std::vector<VersionTrial> &trials, Clock::time_point deadline,
                              const std::function<void(size_t, const Json *, const std::string &)> &report) {
  auto left = [&] { return std::chrono::duration<double>(deadline - Clock::now()).count(); };
  for (size_t next = 0; next < trials.size();) {
    std::vector<std::string> words = command();
    for (size_t i = next; i < trials.size(); ++i)
      words.insert(words.end(),
                   {"--trial", std::to_string(trials[i].kernel) + ":" + std::to_string(trials[i].incumbent) + ":" +
                                   std::to_string(trials[i].candidate)});
    Child child(words, errors());
    bool began = false; // the trial whose result comes next
    while (next < trials.size()) {
      std::optional<std::string> line = child.line(std::max(0.0, std::min(patience, left())));
      if (!line)
        break;
      Json answer = parse(*line);
      began = answer.contains("begin");
      if (answer.contains("trial"))
        report(next++, &answer, "");
    }
    bool late = child.timedOut();
    Ending end = child.finish();
    if (next == trials.size() || (late && left() <= 0))
      return;
    if (!began)
      fail(end);
    report(next++, nullptr, late ? "no answer" : end.how);
  }
}

} // namespace quern::runtime
