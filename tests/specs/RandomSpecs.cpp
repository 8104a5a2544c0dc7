// quern_random_specs: many random specs, each in a process of its own, so that one that crashes is one more finding.
//
//   quern_random_specs --from 1 --count 2000 --jobs 2 --keep FOLDER     writes each spec that differs to FOLDER
//   quern_random_specs --print 17                                       the spec of seed 17
//   quern_random_specs --examples all --jobs 2                             every spec of examples/, with each pass and rule left out alone,
//                                                                       with none and with all left out ($QUERN_SOURCE: the repository)
//   quern_random_specs --one 17 [--without NAMES] [--file SPEC]         checks one (or another text with its choices)
#include "tests/specs/CheckExamples.h"
#include "tests/specs/CheckSpec.h"

#include "llvm/Support/FormatVariadic.h"

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace quern::test;

namespace {

struct Flags {
  long from = 1, count = 100, jobs = 1, one = -1, print = -1, seconds = 120;
  std::string keep, cache, without = "random", examples, file, target = "native";
  bool interpret = false, small = false, plans = false;
};

const char *nameOf(Verdict verdict) {
  static const char *names[] = {"same", "unstable", "DIFFERENT", "REFUSED"};
  return names[static_cast<int>(verdict)];
}

/// What --examples names, and what is left out.
std::vector<ExampleWay> matrix;

std::string labelOf(long seed, const Flags &flags) {
  return flags.examples.empty() ? "seed " + std::to_string(seed) : matrix[static_cast<size_t>(seed)].label();
}

/// The seed makes the spec and then all that is chosen for it.
Outcome check(long seed, const Flags &flags, RandomSpec &spec) {
  Choices choices(static_cast<uint64_t>(seed));
  if (!flags.examples.empty()) {
    const ExampleWay &way = matrix[static_cast<size_t>(seed)];
    spec = specOf(way.example);
    return checkSpec(
        spec, choices,
        {flags.cache, way.without, flags.target, flags.small ? smallTiles : "", !flags.interpret, flags.plans});
  }
  spec = makeSpec(choices);
  if (!flags.file.empty()) {
    std::ifstream file(flags.file);
    spec.text.assign(std::istreambuf_iterator<char>(file), {});
    if (!file.good() && spec.text.empty())
      throw std::runtime_error("cannot read " + flags.file);
  }
  return checkSpec(
      spec, choices,
      {flags.cache, flags.without, flags.target, flags.small ? smallTiles : "", !flags.interpret, flags.plans});
}

std::string describe(const Outcome &outcome) {
  return llvm::formatv("{0}\t{1}\t{2}\t{3}\t{4}\t{5}\t{6}", nameOf(outcome.verdict), outcome.causal ? "steps" : "whole",
                       outcome.kernels, outcome.worst, outcome.stage.empty() ? "-" : outcome.stage,
                       outcome.without.empty() ? "-" : outcome.without, outcome.message)
      .str();
}

struct Job {
  pid_t process;
  int pipe;
  long seed;
  std::chrono::steady_clock::time_point start;
};

Job begin(long seed, const Flags &flags) {
  int ends[2];
  if (pipe(ends))
    throw std::runtime_error("cannot make a pipe");
  pid_t process = fork();
  if (process == 0) {
    close(ends[0]);
    // Of this process alone: a machine that is busy, or stopped, is no finding.
    rlimit limit{static_cast<rlim_t>(flags.seconds), static_cast<rlim_t>(flags.seconds)};
    setrlimit(RLIMIT_CPU, &limit);
    RandomSpec spec;
    std::string line = describe(check(seed, flags, spec));
    for (char &c : line)
      c = c == '\n' ? ' ' : c;
    if (line.size() > 3000)
      line.resize(3000); // within a pipe's room
    bool whole = write(ends[1], line.data(), line.size()) == static_cast<ssize_t>(line.size());
    _exit(whole ? 0 : 3);
  }
  close(ends[1]);
  return {process, ends[0], seed, std::chrono::steady_clock::now()};
}

std::string end(const Job &job) {
  int status = 0;
  waitpid(job.process, &status, 0);
  std::string line(4096, '\0');
  ssize_t size = read(job.pipe, line.data(), line.size());
  close(job.pipe);
  line.resize(size > 0 ? static_cast<size_t>(size) : 0);
  if (WIFSIGNALED(status))
    return llvm::formatv("CRASH\t-\t0\t0\t-\t-\tsignal {0} ({1})", WTERMSIG(status), strsignal(WTERMSIG(status))).str();
  return line;
}

int runMany(const Flags &flags) {
  std::map<std::string, long> verdicts;
  long refused = 0, steps = 0, done = 0;
  std::vector<Job> running;
  auto start = std::chrono::steady_clock::now();
  if (!flags.keep.empty())
    std::filesystem::create_directories(flags.keep);
  auto finish = [&] {
    // Whoever is ready first.
    std::vector<pollfd> ends;
    for (const Job &job : running)
      ends.push_back({job.pipe, POLLIN | POLLHUP, 0});
    poll(ends.data(), ends.size(), -1);
    for (size_t i = 0; i < running.size(); ++i) {
      if (!ends[i].revents)
        continue;
      std::string line = end(running[i]), verdict = llvm::StringRef(line).split('\t').first.str();
      ++verdicts[verdict], ++done;
      steps += line.find("\tsteps\t") != std::string::npos;
      Choices choices(static_cast<uint64_t>(running[i].seed));
      RandomSpec spec = flags.examples.empty() ? makeSpec(choices) : RandomSpec{};
      refused += flags.examples.empty() && verdict == "same" && spec.causal &&
                 line.find("\twhole\t") != std::string::npos && line.find("incremental") == std::string::npos;
      if (verdict != "same") {
        std::cout << labelOf(running[i].seed, flags) << ": " << line << std::endl;
        if (!flags.keep.empty() && flags.examples.empty())
          std::ofstream(flags.keep + "/" + std::to_string(running[i].seed) + ".quern") << spec.text;
      }
      running.erase(running.begin() + static_cast<long>(i));
      return;
    }
  };
  long printed = 0;
  for (long seed = flags.from; seed < flags.from + flags.count; ++seed) {
    while (static_cast<long>(running.size()) >= flags.jobs)
      finish();
    running.push_back(begin(seed, flags));
    if (isatty(STDERR_FILENO))
      std::cerr << "\r" << done << " of " << flags.count << std::flush;
    else if (done >= printed + 50)
      std::cerr << (printed = done) << " of " << flags.count << "\n"; // a log says how far it came
  }
  while (!running.empty())
    finish();
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::cout << done << " specs in " << llvm::formatv("{0:f0} s", seconds.count()).str() << ":";
  for (const auto &[verdict, count] : verdicts)
    std::cout << " " << count << " " << verdict;
  std::cout << "; " << steps << " compiled to steps";
  if (flags.examples.empty())
    std::cout << ", " << refused << " causal ones were not";
  std::cout << "\n";
  bool fewUnstable = verdicts["unstable"] <= 1 + done / 10;
  if (!fewUnstable)
    std::cout << "specs whose numbers say nothing take the place of tests: at most a tenth may be unstable\n";
  verdicts.erase("same"), verdicts.erase("unstable");
  return verdicts.empty() && fewUnstable ? 0 : 1;
}

} // namespace

int main(int count, char **words) {
  Flags flags;
  for (int i = 1; i < count; ++i) {
    std::string word = words[i];
    auto next = [&] { return i + 1 < count ? words[++i] : throw std::runtime_error(word + " needs a value"); };
    std::map<std::string, long *> numbers = {{"--from", &flags.from},   {"--count", &flags.count},
                                             {"--jobs", &flags.jobs},   {"--one", &flags.one},
                                             {"--print", &flags.print}, {"--seconds", &flags.seconds}};
    std::map<std::string, std::string *> texts = {{"--keep", &flags.keep},       {"--cache-dir", &flags.cache},
                                                  {"--without", &flags.without}, {"--examples", &flags.examples},
                                                  {"--file", &flags.file},       {"--target", &flags.target}};
    if (numbers.count(word))
      *numbers[word] = std::stol(next());
    else if (texts.count(word))
      *texts[word] = next();
    else if (word == "--small-tiles")
      flags.small = true;
    else if (word == "--plans")
      flags.plans = true;
    else if (word == "--interpret")
      flags.interpret = true;
    else {
      std::cerr
          << "usage: quern_random_specs [--from SEED] [--count N] [--jobs N] [--keep FOLDER] [--cache-dir "
             "FOLDER] [--examples all|NAME,...]\n"
             "         [--without NAMES|random] [--target T] [--small-tiles] [--plans] [--interpret] [--seconds N] | "
             "--print SEED | --one SEED [--file SPEC]\n";
      return 1;
    }
  }
  if (flags.print >= 0) {
    Choices choices(static_cast<uint64_t>(flags.print));
    std::cout << makeSpec(choices).text;
    return 0;
  }
  if (flags.one >= 0) {
    RandomSpec spec;
    Outcome outcome = check(flags.one, flags, spec);
    std::cout << describe(outcome) << "\n";
    return outcome.verdict == Verdict::Same || outcome.verdict == Verdict::Unstable ? 0 : 1;
  }
  if (!flags.examples.empty()) {
    try {
      matrix = exampleWays(flags.examples);
      specOf(matrix[0].example); // says what is missing once, not for each of a thousand
    } catch (const std::exception &error) {
      std::cerr << "quern_random_specs: " << error.what() << "\n";
      return 2;
    }
    flags.from = 0, flags.count = static_cast<long>(matrix.size());
  }
  return runMany(flags);
}
