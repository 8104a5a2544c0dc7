// quern: starts what was asked for. A program that `quern run` made and nothing has changed of since runs at once; everything
// else is the compiler's, quern-compiler beside this file.
// Why a process of its own: the compiler's libraries take 40 ms to load, a program 20 ms to its first word.
#include "tools/start/RememberedStart.h"

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <unistd.h>

int main(int argc, char **argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words[0] == "run")
    if (auto start = quern::tools::findStart(quern::tools::startFile(words), words)) {
      for (const std::string &line : start->said)
        std::fprintf(stderr, "%s\n", line.c_str());
      std::vector<char *> program;
      for (std::string &word : start->words)
        program.push_back(word.data());
      program.push_back(nullptr);
      execv(program[0], program.data());
    }
  char here[PATH_MAX];
  ssize_t length = readlink("/proc/self/exe", here, sizeof here - 1);
  std::string compiler = length > 0 ? std::string(here, size_t(length)) + "-compiler" : "quern-compiler";
  execv(compiler.c_str(), argv);
  std::fprintf(stderr, "quern: cannot start %s: %s\n", compiler.c_str(), std::strerror(errno));
  return 2;
}
