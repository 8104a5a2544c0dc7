// Takes: the parts of a GGUF model, each a GGUF file of its own. Gives: one table of tensors, with the values of the first.
//
// Names lead to the parts, as in llama.cpp; which one a file is, its split.no says.
#include "runtime/gguf/GgufFile.h"

#include "runtime/Error.h"
#include "support/Files.h"

namespace quern::runtime {

namespace {

std::vector<std::shared_ptr<const MappedFile>> partsBeside(const std::shared_ptr<const MappedFile> &file) {
  std::vector<std::shared_ptr<const MappedFile>> parts;
  for (const std::string &path : support::ggufParts(file->name()))
    if (path == file->name())
      parts.push_back(file);
    else if (fileExists(path))
      parts.push_back(MappedFile::open(path));
  return parts;
}

[[noreturn]] void fail(const GgufFile &part, const std::string &reason) {
  throw UserError(part.file()->name() + reason);
}

[[noreturn]] void failAsOther(const GgufFile &part, const GgufFile &first, const char *key) {
  fail(part, format(" is no part of the same model as %s: its %s is missing or another one",
                    first.file()->name().c_str(), key));
}

[[noreturn]] void failAsMissing(const GgufFile &known, size_t number, size_t count) {
  if (const std::vector<std::string> paths = support::ggufParts(known.file()->name()); paths.size() == count)
    throw UserError(format("%s, part %zu of %zu of a model, is not there; all parts must be in one folder",
                           paths[number].c_str(), number + 1, count));
  const auto its = size_t(*known.integer("split.no")) + 1;
  fail(known, format(" is part %zu of %zu of a model, and the others are found by its name, which must end in "
                     "-%05zu-of-%05zu.gguf",
                     its, count, its, count));
}

/// The parts by their numbers. Throws UserError where they are not all those of one model.
std::vector<GgufFile *> ordered(std::vector<GgufFile> &parts) {
  const auto count = size_t(*parts[0].integer("split.count"));
  if (count > 65535) // it has 16 bits
    fail(parts[0], " is no valid GGUF file: its split.count is over 65535");
  std::vector<GgufFile *> places(count);
  for (GgufFile &part : parts) {
    for (const char *key : {"split.count", "split.tensors.count"})
      if (!part.integer(key) || part.integer(key) != parts[0].integer(key))
        failAsOther(part, parts[0], key);
    const auto number = size_t(part.integer("split.no").value_or(-1));
    if (number >= count)
      fail(part, " is no valid part of a model: its split.no is missing, or not below its split.count");
    if (places[number])
      fail(part, format(" and %s have the same split.no; one of them has another part's name, or is another model's",
                        places[number]->file()->name().c_str()));
    places[number] = &part;
  }
  for (size_t number = 0; number < count; ++number)
    if (!places[number])
      failAsMissing(parts[0], number, count);
  return places;
}

} // namespace

GgufFile::GgufFile(const std::shared_ptr<const MappedFile> &file) : GgufFile(partsBeside(file)) {}

GgufFile::GgufFile(const std::vector<std::shared_ptr<const MappedFile>> &files) {
  std::vector<GgufFile> parts;
  for (const std::shared_ptr<const MappedFile> &file : files)
    parts.push_back(GgufFile(file, Alone()));
  std::vector<GgufFile *> places = {parts.data()};
  if (parts[0].integer("split.count").value_or(1) > 1) // 0: what --merge made
    places = ordered(parts);
  else if (parts.size() > 1)
    fail(parts[0], " is named as one of several parts of a model, but is a whole one by its split.count; rename it");
  *this = std::move(*places[0]);
  if (family.empty())
    fail(*this, " is no valid GGUF file: it has no general.architecture");
  for (size_t i = 1; i < places.size(); ++i) {
    GgufFile &part = *places[i];
    if (!part.family.empty() && part.family != family)
      failAsOther(part, *this, "general.architecture");
    table.merge(part.table);
    for (const auto &[name, tensor] : part.table) // what is left is there twice
      fail(part, format(" and %s both hold tensor %s; they are no parts of one model", find(name)->file->name().c_str(),
                        quote(name).c_str()));
  }
  const int64_t wanted = places.size() > 1 ? *integer("split.tensors.count") : int64_t(table.size());
  if (int64_t(table.size()) != wanted)
    fail(*this, format(" and its other parts hold %zu tensors, but %lld by their split.tensors.count; one of them is "
                       "another model's",
                       table.size(), static_cast<long long>(wanted)));
}

} // namespace quern::runtime
