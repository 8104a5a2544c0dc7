// Takes: words of a command line, files that decided what they came to. Gives: the program that they started last time.
// Why sizes, times and inodes instead of contents: contents are compared by `quern run` itself, which this saves.
#include "tools/start/RememberedStart.h"

#include "support/Files.h"
#include "support/OutputFile.h"

#include <algorithm>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <fcntl.h>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

namespace quern::tools {

static constexpr char magic[] = "quern start 1";
static constexpr size_t most = 500; // small files, whose loss costs a tenth of a second

/// All that words mean something with.
static std::string askedOf(const std::vector<std::string> &words) {
  char folder[PATH_MAX];
  std::vector<std::string> all = {getcwd(folder, sizeof folder) ? folder : ""};
  for (char **one = environ; *one; ++one)
    if (std::string_view text = *one; text.starts_with("QUERN_") || text.starts_with("HF_"))
      all.emplace_back(text);
  std::sort(all.begin() + 1, all.end());
  all.insert(all.end(), words.begin(), words.end());
  std::string text;
  for (const std::string &one : all)
    text += std::to_string(one.size()) + " " + one;
  return text;
}

std::string startFile(const std::vector<std::string> &words) {
  std::string cache = support::defaultCacheFolder(), asked = askedOf(words);
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--cache-dir" && i + 1 < words.size())
      cache = words[i + 1];
    else if (words[i].starts_with("--cache-dir="))
      cache = words[i].substr(12);
  }
  uint64_t hash = 0xcbf29ce484222325; // FNV-1a; the whole text stands in the file
  for (unsigned char byte : asked)
    hash = (hash ^ byte) * 0x100000001b3;
  char name[17];
  std::snprintf(name, sizeof name, "%016llx", static_cast<unsigned long long>(hash));
  return cache + "/starts/" + name;
}

static std::string stateOf(const std::string &path) {
  struct stat status{};
  if (stat(path.c_str(), &status))
    return "-";
  std::ostringstream text;
  text << status.st_size << " " << status.st_mtim.tv_sec << "." << status.st_mtim.tv_nsec << " " << status.st_ino;
  return text.str();
}

void rememberStart(const std::string &file, const std::vector<std::string> &asked, const RememberedStart &start) {
  std::vector<std::string> lines = {magic, "asks " + askedOf(asked)};
  for (const std::string &one : start.words)
    lines.push_back("word " + one);
  for (const std::string &one : start.used)
    lines.push_back("used " + one);
  for (const std::string &one : start.watched) {
    lines.push_back("file " + one);
    lines.push_back(stateOf(one));
  }
  for (const std::string &one : start.said)
    lines.push_back("said " + one);
  lines.emplace_back("end");
  std::string text;
  for (const std::string &line : lines) {
    if (line.find('\n') != std::string::npos)
      return;
    text += line + "\n";
  }
  try {
    const std::string folder = support::folderOf(file);
    mkdir(folder.c_str(), 0777);
    if (std::vector<std::string> names = support::namesIn(folder); names.size() >= most)
      for (const std::string &name : names)
        unlink((folder + "/" + name).c_str());
    support::writeFile(file, text);
  } catch (const std::runtime_error &) { // it is found again next time
  }
}

std::optional<RememberedStart> findStart(const std::string &file, const std::vector<std::string> &asked) {
  std::ifstream in(file);
  std::string line;
  if (!std::getline(in, line) || line != magic || !std::getline(in, line) || line != "asks " + askedOf(asked))
    return std::nullopt;
  RememberedStart start;
  while (std::getline(in, line) && line != "end") {
    const std::string kind = line.substr(0, 5), rest = line.size() > 5 ? line.substr(5) : "";
    if (kind == "word ")
      start.words.push_back(rest);
    else if (kind == "used ")
      start.used.push_back(rest);
    else if (kind == "said ")
      start.said.push_back(rest);
    else if (std::string state; !std::getline(in, state) || state != stateOf(rest))
      return std::nullopt;
    else
      start.watched.push_back(rest);
  }
  if (line != "end" || start.words.empty())
    return std::nullopt;
  for (const std::string &one : start.used)
    if (utimensat(AT_FDCWD, one.c_str(), nullptr, 0))
      return std::nullopt; // it was removed
  return start;
}

} // namespace quern::tools
