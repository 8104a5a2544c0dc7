// Takes: trials and plans. Gives: the same again, after whatever happened to the process that wrote them.
// Why SQLite: a transaction is on disk or it is not, readers and writers in several processes do not hurt each other, and
// anybody's tools can read the file.
#include "tools/tune/TuningDatabase.h"

#include "support/Files.h"

#include <filesystem>
#include <sqlite3.h>
#include <stdexcept>

namespace fs = std::filesystem;

namespace quern::tools {

/// "QRNT", by which `file` and we know whose it is; and the version of the tables below.
static constexpr int applicationId = 0x51524e54, schemaVersion = 1;

static constexpr char schema[] = R"sql(
create table trial(
  kernel text not null, target text not null, machine text not null, work text not null,
  incumbent text not null, candidate text not null,
  outcome text not null, ratio real, error real, difference real, pairs integer, attempts integer, note text,
  at text not null default current_timestamp,
  primary key(kernel, target, machine, work, incumbent, candidate)) without rowid;
create table share(
  program text not null, kernel text not null, target text not null, machine text not null, work text not null,
  ns real not null, title text not null, at text not null,
  primary key(program, kernel, target, machine, work)) without rowid;
create table plan(
  kernel text not null, target text not null, machine text not null,
  work text not null, plan text not null, gain real not null, title text not null, imported integer not null,
  at text not null default current_timestamp,
  primary key(kernel, target, machine)) without rowid;
)sql";

/// What kernels are made of, and the plan of one like it that a search began with: the same when it goes on. Devices by the
/// order in which they were tuned: which of them a program will run on is not known where it is compiled.
static constexpr char laterSchema[] = R"sql(
create table if not exists shape(
  kernel text not null, target text not null, machine text not null, parts text not null, seed text not null,
  primary key(kernel, target, machine)) without rowid;
create table if not exists device(
  target text not null, machine text not null, number integer not null, primary key(target, machine)) without rowid;
)sql";

/// A prepared statement; values are bound in order, then rows are read.
class TuningDatabase::Statement {
public:
  Statement(TuningDatabase &database, const char *sql) : database(database) {
    check(sqlite3_prepare_v2(database.handle, sql, -1, &statement, nullptr));
  }
  ~Statement() { sqlite3_finalize(statement); }
  Statement(const Statement &) = delete;

  Statement &operator<<(const std::string &text) {
    check(sqlite3_bind_text(statement, ++bound, text.data(), int(text.size()), SQLITE_TRANSIENT));
    return *this;
  }
  Statement &operator<<(double number) {
    check(sqlite3_bind_double(statement, ++bound, number));
    return *this;
  }
  Statement &operator<<(int64_t number) {
    check(sqlite3_bind_int64(statement, ++bound, number));
    return *this;
  }
  Statement &operator<<(const TuningConditions &where) { return *this << where.target << where.machine << where.work; }
  /// Whether there is another row.
  bool next() {
    int code = sqlite3_step(statement);
    if (code != SQLITE_ROW && code != SQLITE_DONE)
      check(code);
    return code == SQLITE_ROW;
  }
  std::string text(int column) const {
    auto *bytes = reinterpret_cast<const char *>(sqlite3_column_text(statement, column));
    return bytes ? std::string(bytes, size_t(sqlite3_column_bytes(statement, column))) : "";
  }
  double number(int column) const { return sqlite3_column_double(statement, column); }
  int64_t integer(int column) const { return sqlite3_column_int64(statement, column); }

private:
  TuningDatabase &database;
  sqlite3_stmt *statement = nullptr;
  int bound = 0;

  void check(int code) {
    if (code == SQLITE_OK)
      return;
    std::string what = sqlite3_errmsg(database.handle);
    if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT)
      what += "; it is broken or something else: name another with --database, or remove it";
    throw std::runtime_error(database.file + ": " + what);
  }
};

TuningDatabase::TuningDatabase(const std::string &path) : file(path) {
  std::error_code error;
  if (fs::path folder = fs::path(path).parent_path(); !folder.empty())
    fs::create_directories(folder, error);
  if (sqlite3_open_v2(path.c_str(), &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr) != SQLITE_OK) {
    std::string what = handle ? sqlite3_errmsg(handle) : "there is no memory";
    sqlite3_close(handle);
    throw std::runtime_error(path + ": " + what + "; name another database with --database");
  }
  try {
    sqlite3_busy_timeout(handle, 10000);
    int64_t id = 0, version = 0, tables = 0;
    auto ask = [&](const char *sql, int64_t &answer) {
      Statement statement(*this, sql);
      if (statement.next())
        answer = statement.integer(0);
    };
    ask("select count(*) from sqlite_master", tables);
    ask("pragma application_id", id);
    ask("pragma user_version", version);
    if (tables && id != applicationId)
      throw std::runtime_error(path + " is a database of something else; name another with --database");
    if (version > schemaVersion)
      throw std::runtime_error(path + " was made by a later version of Quern; name another with --database");
    run("pragma journal_mode = wal");
    run("pragma synchronous = normal");
    if (!tables) {
      run("begin immediate");
      ask("select count(*) from sqlite_master", tables); // another process may have been first
      if (!tables) {
        run(schema);
        run("pragma application_id = " + std::to_string(applicationId));
        run("pragma user_version = " + std::to_string(schemaVersion));
      }
      run("commit");
    }
    run(laterSchema); // older databases have none of it
  } catch (...) {
    sqlite3_close(handle);
    throw;
  }
}

TuningDatabase::~TuningDatabase() {
  sqlite3_close(handle);
}

void TuningDatabase::run(const std::string &sql) {
  if (sqlite3_exec(handle, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK)
    throw std::runtime_error(file + ": " + sqlite3_errmsg(handle));
}

std::map<std::pair<std::string, std::string>, Trial> TuningDatabase::trials(const std::string &kernel,
                                                                            const TuningConditions &where) {
  Statement rows(*this,
                 "select incumbent, candidate, outcome, ratio, error, difference, pairs, attempts, note from trial "
                 "where kernel = ? and target = ? and machine = ? and work = ?");
  rows << kernel << where;
  std::map<std::pair<std::string, std::string>, Trial> found;
  while (rows.next())
    found[{rows.text(0), rows.text(1)}] = {rows.text(2),    rows.number(3),  rows.number(4), rows.number(5),
                                           rows.integer(6), rows.integer(7), rows.text(8)};
  return found;
}

void TuningDatabase::keepTrial(const std::string &kernel, const TuningConditions &where, const std::string &incumbent,
                               const std::string &candidate, const Trial &trial) {
  Statement row(*this,
                "insert or replace into trial(kernel, target, machine, work, incumbent, candidate, outcome, ratio, "
                "error, difference, pairs, attempts, note) values(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  row << kernel << where << incumbent << candidate << trial.outcome << trial.ratio << trial.error << trial.difference
      << trial.pairs << trial.attempts << trial.note;
  row.next();
}

void TuningDatabase::dropTrial(const std::string &kernel, const TuningConditions &where, const std::string &incumbent,
                               const std::string &candidate) {
  Statement row(*this,
                "delete from trial where kernel = ? and target = ? and machine = ? and work = ? and incumbent = ? "
                "and candidate = ?");
  row << kernel << where << incumbent << candidate;
  row.next();
}

std::optional<KernelShare> TuningDatabase::share(const std::string &program, const std::string &kernel,
                                                 const TuningConditions &where) {
  Statement row(*this,
                "select ns, title, at from share where program = ? and kernel = ? and target = ? and machine = ? "
                "and work = ?");
  row << program << kernel << where;
  return row.next() ? std::optional(KernelShare{row.number(0), row.text(1), row.text(2)}) : std::nullopt;
}

void TuningDatabase::keepShares(const std::string &program, const std::map<std::string, KernelShare> &shares,
                                const TuningConditions &where) {
  run("begin immediate");
  for (const auto &[kernel, share] : shares) {
    Statement row(*this, "insert or replace into share(program, kernel, target, machine, work, ns, title, at) "
                         "values(?, ?, ?, ?, ?, ?, ?, ?)");
    row << program << kernel << where << share.nanoseconds << share.title << share.at;
    row.next();
  }
  run("commit");
}

void TuningDatabase::keepPlan(const TunedPlan &plan) {
  Statement row(*this, "insert or replace into plan(kernel, target, machine, work, plan, gain, title, imported) "
                       "values(?, ?, ?, ?, ?, ?, ?, ?)");
  row << plan.kernel << plan.target << plan.machine << plan.work << plan.plan << plan.gain << plan.title
      << int64_t(plan.imported);
  row.next();
}

void TuningDatabase::dropPlan(const std::string &kernel, const TuningConditions &where) {
  Statement row(*this, "delete from plan where kernel = ? and target = ? and machine = ?");
  row << kernel << where.target << where.machine;
  row.next();
}

std::vector<TunedPlan> TuningDatabase::plans(const std::string &target, const std::string &machine) {
  Statement rows(*this,
                 "select kernel, target, machine, work, plan, gain, title, imported from plan "
                 "where (?1 = '' or target = ?1) and (?2 = '' or machine = ?2) order by kernel, target, machine");
  rows << target << machine;
  std::vector<TunedPlan> found;
  while (rows.next())
    found.push_back({rows.text(0), rows.text(1), rows.text(2), rows.text(3), rows.text(4), rows.number(5), rows.text(6),
                     rows.integer(7) != 0});
  return found;
}

void TuningDatabase::keepShape(const std::string &kernel, const TuningConditions &where, const KernelShape &shape) {
  Statement row(*this, "insert or ignore into shape(kernel, target, machine, parts, seed) values(?, ?, ?, ?, ?)");
  row << kernel << where.target << where.machine << shape.parts << shape.seed;
  row.next();
}

std::map<std::string, KernelShape> TuningDatabase::shapes(const TuningConditions &where) {
  Statement rows(*this, "select kernel, parts, seed from shape where target = ? and machine = ?");
  rows << where.target << where.machine;
  std::map<std::string, KernelShape> found;
  while (rows.next())
    found[rows.text(0)] = {rows.text(1), rows.text(2)};
  return found;
}

void TuningDatabase::keepDevice(const TuningConditions &where) {
  Statement row(*this, "insert or replace into device(target, machine, number) "
                       "values(?, ?, (select coalesce(max(number), 0) + 1 from device))");
  row << where.target << where.machine;
  row.next();
}

std::string TuningDatabase::lastDevice(const std::string &target, const std::string &part) {
  Statement row(*this,
                "select machine from device where target = ? and instr(machine, ?) order by number desc limit 1");
  row << target << part;
  return row.next() ? row.text(0) : "";
}

int64_t TuningDatabase::trialCount() {
  Statement row(*this, "select count(*) from trial where outcome <> 'unfinished'");
  return row.next() ? row.integer(0) : 0;
}

std::string defaultDatabase(const std::string &cache) {
  return (fs::path(cache.empty() ? support::defaultCacheFolder() : cache) / "tuning.sqlite").string();
}

} // namespace quern::tools
