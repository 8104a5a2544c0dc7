// Takes: paths. Gives: what is there, and texts with a limit.
#include "support/Files.h"

#include "support/Error.h"
#include "support/Json.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace quern::support {

std::string folderOf(const std::string &path) {
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

std::string nameOf(const std::string &path) {
  return path.substr(path.rfind('/') + 1);
}

bool isFolder(const std::string &path) {
  struct stat status;
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

bool fileExists(const std::string &path) {
  struct stat status;
  return ::stat(path.c_str(), &status) == 0 && !S_ISDIR(status.st_mode);
}

std::vector<std::string> namesIn(const std::string &folder) {
  std::vector<std::string> names;
  DIR *open = ::opendir(folder.c_str());
  if (!open)
    throw UserError("cannot read " + folder + ": " + systemMessage(errno));
  while (dirent *entry = ::readdir(open))
    if (std::string name = entry->d_name; name != "." && name != "..")
      names.push_back(name);
  ::closedir(open);
  std::sort(names.begin(), names.end());
  return names;
}

void moveFolder(const std::string &from, const std::string &to) {
  if (::rename(from.c_str(), to.c_str()) != 0) { // which takes the place of nothing but an empty folder
    bool there = errno == ENOTEMPTY || errno == EEXIST;
    if (!there || ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) != 0)
      throw UserError("cannot make " + to + ": " + systemMessage(errno));
  }
  syncFolder(folderOf(to));
}

void syncFolder(const std::string &path) {
  int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    ::fsync(folder);
    ::close(folder);
  }
}

std::string readFile(const std::string &path, uint64_t limit) {
  std::FILE *file = std::fopen(path.c_str(), "rbe");
  if (!file)
    throw UserError("cannot open " + path + ": " + systemMessage(errno));
  struct stat status;
  bool known = ::fstat(fileno(file), &status) == 0;
  if (known && S_ISDIR(status.st_mode)) {
    std::fclose(file);
    throw UserError("cannot read " + path + ": it is a folder");
  }
  if (known && S_ISCHR(status.st_mode)) // a terminal is short; most others never end
    limit = std::min(limit, uint64_t(16) << 20);
  bool tooLong = known && S_ISREG(status.st_mode) && uint64_t(status.st_size) > limit;
  std::string content;
  char buffer[1 << 16];
  size_t count;
  while (!tooLong && (count = std::fread(buffer, 1, sizeof(buffer), file)) > 0) {
    content.append(buffer, count);
    tooLong = content.size() > limit;
  }
  bool failed = std::ferror(file);
  int code = errno;
  std::fclose(file);
  if (failed)
    throw UserError("cannot read " + path + ": " + systemMessage(code));
  if (tooLong)
    throw UserError(path + " is longer than " + formatBytes(double(limit)));
  return content;
}

std::string readSmallFile(const std::string &path) {
  std::string text;
  if (std::FILE *file = std::fopen(path.c_str(), "re")) {
    char buffer[8192];
    text.assign(buffer, std::fread(buffer, 1, sizeof(buffer), file));
    std::fclose(file);
  }
  return text;
}

std::vector<std::string> ggufParts(const std::string &path) {
  const size_t ending = sizeof("-00001-of-00003.gguf") - 1;
  if (path.size() <= ending)
    return {path};
  const size_t stem = path.size() - ending;
  const long number = std::strtol(path.c_str() + stem + 1, nullptr, 10),
             count = std::strtol(path.c_str() + stem + 10, nullptr, 10);
  if (number < 1 || number > count || count > 99999)
    return {path};
  std::vector<std::string> parts(size_t(count), path);
  for (size_t i = 0; i < parts.size(); ++i)
    std::snprintf(parts[i].data() + stem, ending + 1, "-%05zu-of-%05ld.gguf", i + 1, count);
  return parts[size_t(number) - 1] == path ? parts : std::vector<std::string>{path};
}

std::vector<std::string> ggufModels(const std::string &folder) {
  std::vector<std::string> models;
  for (const std::string &name : namesIn(folder)) {
    const std::string path = folder + "/" + name, first = ggufParts(path)[0];
    if (name.ends_with(".gguf") && std::none_of(models.begin(), models.end(),
                                                [&](const std::string &known) { return ggufParts(known)[0] == first; }))
      models.push_back(path);
  }
  return models;
}

std::string ggufOf(const std::string &folder) {
  if (fileExists(folder + "/model.gguf"))
    return folder + "/model.gguf";
  const std::vector<std::string> models = ggufModels(folder);
  return models.size() == 1 ? models[0] : "";
}

std::vector<SentenceModule> sentenceModules(const std::string &folder) {
  std::vector<SentenceModule> modules;
  const std::string file = folder + "/modules.json";
  if (!fileExists(file))
    return modules;
  const nlohmann::json list = parseJson(readFile(file, 1'000'000), file);
  auto text = [](const nlohmann::json &module, const char *field) {
    return module.is_object() && module.contains(field) && module[field].is_string() ? module[field].get<std::string>()
                                                                                     : std::string();
  };
  if (!list.is_array())
    throw UserError(file + " is no list of modules");
  for (const nlohmann::json &module : list) {
    const std::string type = text(module, "type"), path = text(module, "path");
    if (type.empty() || path.find('/') != std::string::npos || path.starts_with("."))
      throw UserError(file + " lists a module without a type, or in no folder beside it: " + quote(path));
    modules.push_back({type.substr(type.rfind('.') + 1), path});
  }
  return modules;
}

std::vector<std::string> modulesWithWeights(const std::string &folder) {
  std::vector<std::string> paths;
  for (const SentenceModule &module : sentenceModules(folder))
    if (!module.path.empty() && fileExists(folder + "/" + module.path + "/model.safetensors"))
      paths.push_back(module.path);
  return paths;
}

std::string defaultCacheFolder() {
  auto variable = [](const char *name) -> std::string {
    const char *value = std::getenv(name);
    return value ? value : "";
  };
  if (std::string own = variable("QUERN_CACHE"); !own.empty())
    return own;
  if (std::string base = variable("XDG_CACHE_HOME"); !base.empty())
    return base + "/quern";
  if (std::string home = variable("HOME"); !home.empty())
    return home + "/.cache/quern";
  return "/tmp/quern-cache";
}

} // namespace quern::support
