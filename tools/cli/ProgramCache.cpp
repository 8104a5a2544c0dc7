// Takes: what a program is made of. Gives: the program, if it was compiled before.
// Why a checksum: a program that a full disk or a flipped bit changed would compute wrong numbers without a word.
#include "tools/cli/ProgramCache.h"

#include "codegen/kernel/KernelCache.h"
#include "support/Files.h"
#include "support/OutputFile.h"

#include <algorithm>
#include <filesystem>
#include <stdexcept>

namespace fs = std::filesystem;

namespace quern::tools {

static constexpr size_t most = 50; // programs, of 2 to 3 MB each without embedded weights
static constexpr char suffix[] = ".xxh128";

static std::string digestOf(const std::string &path) {
  return codegen::KernelCache::keyOf(support::readFile(path));
}

ProgramCache::ProgramCache(const std::string &folder) : folder(folder) {
  std::error_code code;
  fs::create_directories(folder, code);
  if (code)
    throw std::runtime_error("cannot make the folder " + folder + ": " + code.message() +
                             "; name another with --cache-dir");
}

std::string ProgramCache::path(const std::string &name, const std::vector<std::string> &contents) const {
  std::string text; // lengths, so that no two lists are one text
  for (const std::string &content : contents)
    text += std::to_string(content.size()) + "\n" + content;
  return folder + "/" + name + "-" + codegen::KernelCache::keyOf(text).substr(0, 16);
}

bool ProgramCache::has(const std::string &path) const {
  if (!support::fileExists(path) || !support::fileExists(path + suffix))
    return false;
  if (support::readSmallFile(path + suffix) != digestOf(path))
    return false;
  std::error_code ignored;
  fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);
  return true;
}

void ProgramCache::keep(const std::string &path) const {
  support::writeFile(path + suffix, digestOf(path));
  std::vector<std::pair<fs::file_time_type, std::string>> programs;
  for (const std::string &name : support::namesIn(folder)) {
    std::error_code code;
    fs::file_time_type used = fs::last_write_time(folder + "/" + name, code);
    if (!code && !name.ends_with(suffix) && !support::isUnfinished(name))
      programs.emplace_back(used, folder + "/" + name);
  }
  std::sort(programs.rbegin(), programs.rend());
  for (size_t i = most; i < programs.size(); ++i)
    for (const std::string &file : {programs[i].second, programs[i].second + suffix}) {
      std::error_code ignored;
      fs::remove(file, ignored);
    }
}

} // namespace quern::tools
