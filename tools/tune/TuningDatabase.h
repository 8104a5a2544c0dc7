// What was measured of kernels' plans, and which of them won: one SQLite file that stays between runs.
#ifndef QUERN_TOOLS_TUNE_TUNINGDATABASE_H
#define QUERN_TOOLS_TUNE_TUNINGDATABASE_H

#include "runtime/tuning/TunedPlan.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

struct sqlite3;

namespace quern::tools {

/// Where a kernel is measured. Equal conditions give comparable times.
struct TuningConditions {
  std::string target;  ///< CpuTarget::resolved
  std::string machine; ///< machineName(), or the name of the device
  std::string work;    ///< threads and lengths: "2 threads, prefill 512, decode 128"; of a device lengths alone
};

/// One comparison of two plans of a kernel.
struct Trial {
  std::string outcome; ///< faster, slower, wrong, crashed, refused; unfinished: somebody is at it, or was killed
  double ratio = 0, error = 0, difference = 0;
  int64_t pairs = 0, attempts = 0;
  std::string note;
};

/// What a kernel is in a program.
struct KernelShare {
  double nanoseconds = 0; ///< in one use of the program
  std::string title;      ///< the weights that it multiplies by
  std::string at;         ///< the line of the spec
};

/// What a kernel is made of, so that plans of kernels like it are found; and the one that its search began with.
struct KernelShape {
  std::string parts; ///< as PlanSeeds writes them
  std::string seed;  ///< a plan; empty: there was none
};

using runtime::TunedPlan;

/// Each call of a writing function is one transaction: whoever is killed loses at most the one under way. Several processes
/// may use a file at the same time. Everything throws std::runtime_error with the file's name.
class TuningDatabase {
public:
  /// Makes the file and its folder where they are missing.
  explicit TuningDatabase(const std::string &path);
  ~TuningDatabase();
  TuningDatabase(const TuningDatabase &) = delete;

  /// All of a kernel's trials under these conditions, by incumbent and candidate.
  std::map<std::pair<std::string, std::string>, Trial> trials(const std::string &kernel, const TuningConditions &where);
  void keepTrial(const std::string &kernel, const TuningConditions &where, const std::string &incumbent,
                 const std::string &candidate, const Trial &trial);
  void dropTrial(const std::string &kernel, const TuningConditions &where, const std::string &incumbent,
                 const std::string &candidate);

  std::optional<KernelShare> share(const std::string &program, const std::string &kernel,
                                   const TuningConditions &where);
  void keepShares(const std::string &program, const std::map<std::string, KernelShare> &shares,
                  const TuningConditions &where);

  void keepPlan(const TunedPlan &plan);
  void dropPlan(const std::string &kernel, const TuningConditions &where);
  /// In the order of their kernels' keys. Empty texts: of all targets, of all machines.
  std::vector<TunedPlan> plans(const std::string &target = "", const std::string &machine = "");
  /// The first that is kept of a kernel stays.
  void keepShape(const std::string &kernel, const TuningConditions &where, const KernelShape &shape);
  std::map<std::string, KernelShape> shapes(const TuningConditions &where);
  /// That a device was tuned here.
  void keepDevice(const TuningConditions &where);
  /// The device of a target that was tuned here last, of those whose name has `part` in it; empty: none was.
  std::string lastDevice(const std::string &target, const std::string &part);
  int64_t trialCount();

  const std::string &path() const { return file; }

private:
  class Statement;
  void run(const std::string &sql);
  std::string file;
  sqlite3 *handle = nullptr;
};

/// `FOLDER/tuning.sqlite` of the folder of compiled kernels ("" for the user's own).
std::string defaultDatabase(const std::string &cache);

} // namespace quern::tools
#endif
