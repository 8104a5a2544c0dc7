// Takes: utf8proc's data. Gives: what tokenizers need of them, as the tables that Unicode15.cpp includes.
// Why not utf8proc in programs: its tables are 330 KB, these 90, as few properties are asked for and most characters have
// the same ones as the character before.
#include <utf8proc.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace {
constexpr int32_t all = 0x110000, firstSyllable = 0xac00, lastSyllable = 0xd7a3;

using Chars = std::vector<int32_t>;

bool isSyllable(int32_t c) {
  return c >= firstSyllable && c <= lastSyllable; // Hangul, which goes by a rule
}

Chars decomposed(int32_t c, bool compatibility) {
  int32_t parts[32];
  int last = 0;
  auto options = utf8proc_option_t(UTF8PROC_DECOMPOSE | (compatibility ? UTF8PROC_COMPAT : 0));
  utf8proc_ssize_t count = utf8proc_decompose_char(c, parts, 32, options, &last);
  if (count < 0 || count > 32)
    throw std::runtime_error("a decomposition is too long");
  return {parts, parts + count};
}

Chars composed(Chars chars) {
  chars.push_back(0);
  utf8proc_ssize_t length = utf8proc_normalize_utf32(chars.data(), utf8proc_ssize_t(chars.size()) - 1,
                                                     utf8proc_option_t(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  if (length < 0)
    throw std::runtime_error("text cannot be composed");
  return {chars.begin(), chars.begin() + length};
}

/// The UTF-16 of all decompositions; what one holds already is not written again.
class Units {
public:
  std::u16string text;
  std::pair<size_t, size_t> add(const Chars &chars) {
    std::u16string own;
    for (int32_t c : chars) {
      if (c >= 0x10000)
        own += char16_t(0xd7c0 + (c >> 10));
      own += char16_t(c >= 0x10000 ? 0xdc00 + (c & 0x3ff) : c);
    }
    size_t at = text.find(own);
    if (at == std::u16string::npos)
      at = text.size(), text += own;
    return {at, own.size()};
  }
};

template <typename Number> void print(FILE *file, const char *type, const char *name, const std::vector<Number> &list) {
  std::fprintf(file, "constexpr %s %s[] = {", type, name);
  for (size_t i = 0; i < list.size(); ++i)
    std::fprintf(file, "%s0x%x,", i % 16 ? "" : "\n", unsigned(list[i]));
  std::fprintf(file, "\n};\n");
}

void make(FILE *file) {
  std::map<std::tuple<int, int, int, int, int>, unsigned> kinds;
  std::vector<std::tuple<int, int, int, int, int>> kindList;
  std::vector<uint32_t> stretches, capitals, small, keys, composites;
  std::vector<uint16_t> places;
  std::map<std::pair<int32_t, int32_t>, int32_t> pairs;
  Units units;
  unsigned before = ~0u;
  for (int32_t c = 0; c < all; ++c) {
    const utf8proc_property_t *property = utf8proc_get_property(c);
    int decomposes = 0;
    if (!isSyllable(c) && (c < 0xd800 || c > 0xdfff)) {
      Chars canonical = decomposed(c, false), compatible = decomposed(c, true);
      auto note = [&](const Chars &chars, bool compatibility) {
        auto [at, length] = units.add(chars);
        if (at > 0xffff || length > 31)
          throw std::runtime_error("a table is too small");
        keys.push_back(uint32_t(c) << 6 | unsigned(length) << 1 | compatibility);
        places.push_back(uint16_t(at));
      };
      if (canonical != Chars{c}) {
        decomposes |= 1;
        note(canonical, false);
        if (canonical.size() > 1 && composed(canonical) == Chars{c}) {
          Chars first(canonical.begin(), canonical.end() - 1);
          first = composed(first);
          if (first.size() != 1 || composed({first[0], canonical.back()}) != Chars{c})
            throw std::runtime_error("a composition is no pair");
          pairs[{first[0], canonical.back()}] = c;
        }
      }
      if (compatible != canonical) {
        decomposes |= 2;
        note(compatible, true);
      }
    }
    int32_t lower = utf8proc_tolower(c);
    if (lower != c)
      capitals.push_back(uint32_t(c)), small.push_back(uint32_t(lower));
    std::tuple kind{int(utf8proc_category(c)), int(property->combining_class), int(property->boundclass), decomposes,
                    int(lower != c)};
    auto [known, isNew] = kinds.emplace(kind, unsigned(kinds.size()));
    if (isNew)
      kindList.push_back(kind);
    if (known->second != before)
      stretches.push_back(uint32_t(c) << 8 | known->second);
    before = known->second;
  }
  if (kinds.size() > 256)
    throw std::runtime_error("more kinds of characters than a byte can distinguish");
  for (const auto &[pair, both] : pairs)
    composites.insert(composites.end(), {uint32_t(pair.first), uint32_t(pair.second), uint32_t(both)});
  std::fprintf(file, "constexpr Kind kinds[] = {\n");
  for (const auto &[category, combining, boundary, decomposes, capital] : kindList)
    std::fprintf(file, "{%d,%d,%d,%d,%d},\n", category, combining, boundary, decomposes, capital);
  std::fprintf(file, "};\n");
  print(file, "uint32_t", "stretches", stretches);
  print(file, "uint32_t", "capitals", capitals);
  print(file, "uint32_t", "smallLetters", small);
  print(file, "uint32_t", "decompositions", keys);
  print(file, "uint16_t", "places", places);
  print(file, "char16_t", "units", std::vector<char16_t>(units.text.begin(), units.text.end()));
  print(file, "uint32_t", "composites", composites);
}
} // namespace

int main(int count, char **words) {
  try {
    if (count != 2)
      throw std::runtime_error("usage: quern_unicode FILE");
    FILE *file = std::fopen(words[1], "w");
    if (!file)
      throw std::runtime_error("cannot write " + std::string(words[1]));
    make(file);
    if (std::fclose(file) != 0)
      throw std::runtime_error("cannot write " + std::string(words[1]));
  } catch (const std::exception &error) {
    std::fprintf(stderr, "quern_unicode: %s\n", error.what());
    return 1;
  }
}
