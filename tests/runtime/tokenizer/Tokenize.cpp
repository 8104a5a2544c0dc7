// Tokenizes texts for scripts that compare (tests/data/generate/compare_tokenizers.py) and for ./dev bench tokenizers.
//
//     quern_tokenize TOKENIZER TEXTS [RESULT]
//
// TOKENIZER: a file or a folder, as --tokenizer takes it.
// TEXTS: each text as its length in bytes (uint32, little endian) and its bytes. RESULT, the same order: the number of
// tokens (uint32), the tokens (int32), the length of the decoded text (uint32), that text. Without RESULT: tokenizes
// everything three times in one thread and prints the megabytes per second of the fastest.
#include "runtime/Error.h"
#include "runtime/tokenizer/Tokenizer.h"
#include "runtime/tokenizer/files/VocabularyFiles.h"
#include "support/Files.h"

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>

using namespace quern::runtime;

namespace {

std::vector<std::string_view> split(std::string_view file) {
  std::vector<std::string_view> texts;
  while (file.size() >= 4) {
    uint32_t length;
    std::memcpy(&length, file.data(), 4);
    texts.push_back(file.substr(4, length));
    file.remove_prefix(std::min<size_t>(file.size(), 4 + size_t(length)));
  }
  return texts;
}

void put(std::FILE *file, const void *data, size_t count) {
  const uint32_t length = uint32_t(count);
  std::fwrite(&length, 4, 1, file);
  std::fwrite(data, 1, count, file);
}

void writeAll(const Tokenizer &tokenizer, const std::vector<std::string_view> &texts, const char *path) {
  std::FILE *file = std::fopen(path, "wb");
  if (!file)
    throw UserError(std::string("cannot write ") + path);
  for (std::string_view text : texts) {
    const std::vector<int> ids = tokenizer.encode(text, false);
    const std::string decoded = tokenizer.decode(ids, false);
    const uint32_t count = uint32_t(ids.size());
    std::fwrite(&count, 4, 1, file);
    std::fwrite(ids.data(), sizeof(int), ids.size(), file);
    put(file, decoded.data(), decoded.size());
  }
  std::fclose(file);
}

/// Of the processor for this thread: what else runs on the machine counts less.
double seconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

void measure(const Tokenizer &tokenizer, const std::vector<std::string_view> &texts) {
  size_t bytes = 0, tokens = 0;
  double best = 1e9;
  for (int iteration = 0; iteration < 3; ++iteration) {
    bytes = tokens = 0;
    const double begin = seconds();
    for (std::string_view text : texts) {
      tokens += tokenizer.encode(text, false).size();
      bytes += text.size();
    }
    best = std::min(best, seconds() - begin);
  }
  std::printf("%.1f MB/s (%.1f MB, %zu texts, %zu tokens)\n", double(bytes) / best / 1e6, double(bytes) / 1e6,
              texts.size(), tokens);
}

} // namespace

int main(int count, char **words) {
  if (count < 3) {
    std::fprintf(stderr, "usage: quern_tokenize TOKENIZER TEXTS [RESULT]\n");
    return 1;
  }
  try {
    const auto [json, name] = tokenizerAt(words[1]);
    const Tokenizer tokenizer = Tokenizer::parse(json, name);
    const std::string file = readFile(words[2]);
    const std::vector<std::string_view> texts = split(file);
    if (count > 3)
      writeAll(tokenizer, texts, words[3]);
    else
      measure(tokenizer, texts);
    return 0;
  } catch (const UserError &error) {
    std::fprintf(stderr, "quern_tokenize: %s\n", error.what());
    return 1;
  }
}
