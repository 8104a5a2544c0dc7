// Takes: two texts. Gives: which lines are the same.
// How: lines that occur once on both sides are anchors, of which the longest increasing run is kept (patience diff);
// between anchors the same again, and short gaps by the longest common subsequence. Text of IR has many unique lines,
// so this is almost linear, and it never pairs two closing brackets across functions as the plain algorithm likes to
// do.
#include "tools/inspect/TextDiff.h"

#include <algorithm>
#include <map>
#include <unordered_map>

using namespace quern::tools;

namespace {

std::vector<std::string> linesOf(const std::string &text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

bool isName(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '#';
}

/// The line without the numbers of its values, which come back in `values`.
std::string masked(const std::string &line, std::vector<std::string> *values = nullptr) {
  std::string out;
  for (size_t i = 0; i < line.size(); ++i) {
    out += line[i];
    if (line[i] != '%')
      continue;
    size_t end = i + 1;
    while (end < line.size() && isName(line[end]))
      ++end;
    if (values)
      values->push_back(line.substr(i, end - i));
    i = end - 1;
  }
  return out;
}

class Aligner {
public:
  Aligner(const std::vector<std::string> &a, const std::vector<std::string> &b) {
    for (auto [lines, keys] : {std::pair(&a, &keysA), std::pair(&b, &keysB)})
      for (const std::string &line : *lines)
        keys->push_back(known.emplace(masked(line), static_cast<int>(known.size())).first->second);
  }
  std::vector<std::pair<int, int>> align() {
    range(0, static_cast<int>(keysA.size()), 0, static_cast<int>(keysB.size()));
    return std::move(out);
  }

private:
  void range(int a, int endA, int b, int endB) {
    for (; a < endA && b < endB && keysA[a] == keysB[b]; ++a, ++b)
      out.push_back({a, b});
    int tail = 0;
    for (; a < endA - tail && b < endB - tail && keysA[endA - 1 - tail] == keysB[endB - 1 - tail]; ++tail) {
    }
    middle(a, endA - tail, b, endB - tail);
    for (; tail > 0; --tail)
      out.push_back({endA - tail, endB - tail});
  }

  void middle(int a, int endA, int b, int endB) {
    if (a == endA || b == endB)
      return different(a, endA, b, endB);
    std::vector<std::pair<int, int>> anchors = uniqueIn(a, endA, b, endB);
    if (anchors.empty())
      return subsequence(a, endA, b, endB);
    for (auto [x, y] : anchors) {
      range(a, x, b, y);
      out.push_back({x, y});
      a = x + 1, b = y + 1;
    }
    range(a, endA, b, endB);
  }

  /// Lines that occur once here and once there, as their longest increasing run.
  std::vector<std::pair<int, int>> uniqueIn(int a, int endA, int b, int endB) {
    struct Count {
      int inA = 0, inB = 0, place = 0;
    };
    std::unordered_map<int, Count> counts;
    for (int i = a; i < endA; ++i)
      ++counts[keysA[i]].inA;
    for (int i = b; i < endB; ++i) {
      Count &count = counts[keysB[i]];
      ++count.inB, count.place = i;
    }
    std::vector<std::pair<int, int>> pairs;
    for (int i = a; i < endA; ++i)
      if (const Count &count = counts[keysA[i]]; count.inA == 1 && count.inB == 1)
        pairs.push_back({i, count.place});
    std::vector<int> piles, before(pairs.size(), -1); // piles: the last pair of the best run of each length
    for (int i = 0; i < static_cast<int>(pairs.size()); ++i) {
      auto pile = std::lower_bound(piles.begin(), piles.end(), pairs[i].second,
                                   [&](int pair, int place) { return pairs[pair].second < place; });
      if (pile != piles.begin())
        before[i] = *(pile - 1);
      if (pile == piles.end())
        piles.push_back(i);
      else
        *pile = i;
    }
    std::vector<std::pair<int, int>> run;
    for (int i = piles.empty() ? -1 : piles.back(); i >= 0; i = before[i])
      run.push_back(pairs[i]);
    std::reverse(run.begin(), run.end());
    return run;
  }

  void subsequence(int a, int endA, int b, int endB) {
    int rows = endA - a, columns = endB - b;
    if (int64_t(rows) * columns > 4'000'000) // nothing in common that is unique: not worth the wait
      return different(a, endA, b, endB);
    std::vector<int> length((rows + 1) * (columns + 1), 0);
    auto at = [&](int i, int k) -> int & { return length[i * (columns + 1) + k]; };
    for (int i = rows - 1; i >= 0; --i)
      for (int k = columns - 1; k >= 0; --k)
        at(i, k) = keysA[a + i] == keysB[b + k] ? at(i + 1, k + 1) + 1 : std::max(at(i + 1, k), at(i, k + 1));
    int i = 0, k = 0;
    while (i < rows && k < columns) {
      if (keysA[a + i] == keysB[b + k])
        out.push_back({a + i++, b + k++});
      else if (at(i + 1, k) >= at(i, k + 1))
        out.push_back({a + i++, -1});
      else
        out.push_back({-1, b + k++});
    }
    different(a + i, endA, b + k, endB);
  }

  void different(int a, int endA, int b, int endB) {
    for (; a < endA; ++a)
      out.push_back({a, -1});
    for (; b < endB; ++b)
      out.push_back({-1, b});
  }

  std::unordered_map<std::string, int> known;
  std::vector<int> keysA, keysB;
  std::vector<std::pair<int, int>> out;
};

/// Of lines that read the same, those that speak of other values than the lines before them let expect.
std::vector<bool> rewired(const std::vector<std::pair<int, int>> &pairs, const std::vector<std::string> &a,
                          const std::vector<std::string> &b) {
  std::vector<bool> result;
  std::map<std::string, std::string> meaning; // a value of a -> the same value of b, within the function
  for (auto [x, y] : pairs) {
    bool other = false;
    if (x >= 0 && y >= 0) {
      if (a[x].compare(0, 3, "  }") == 0)
        meaning.clear();
      std::vector<std::string> left, right;
      masked(a[x], &left), masked(b[y], &right);
      size_t defined = a[x].find(" = ") != std::string::npos ? 1 : 0;
      for (size_t i = 0; i < left.size(); ++i) {
        // The first value is what the line defines; arguments of functions and loops are defined where they first
        // occur.
        auto [entry, fresh] = meaning.emplace(left[i], right[i]);
        if (i < defined)
          entry->second = right[i];
        else if (!fresh && entry->second != right[i])
          other = true;
      }
    }
    result.push_back(other);
  }
  return result;
}

} // namespace

std::vector<std::pair<int, int>> quern::tools::alignLines(const std::vector<std::string> &a,
                                                          const std::vector<std::string> &b) {
  return Aligner(a, b).align();
}

std::string quern::tools::unifiedDiff(const std::string &a, const std::string &b, const std::string &nameA,
                                      const std::string &nameB, bool colour, int context) {
  std::vector<std::string> left = linesOf(a), right = linesOf(b);
  std::vector<std::pair<int, int>> pairs = alignLines(left, right);
  std::vector<bool> other = rewired(pairs, left, right);
  auto changed = [&](int i) { return pairs[i].first < 0 || pairs[i].second < 0 || other[i]; };
  int count = static_cast<int>(pairs.size());
  const char *red = colour ? "\033[31m" : "", *green = colour ? "\033[32m" : "", *dim = colour ? "\033[36m" : "",
             *plain = colour ? "\033[0m" : "";
  std::string out;
  for (int i = 0; i < count; ++i) {
    if (!changed(i))
      continue;
    if (out.empty())
      out = "--- " + nameA + "\n+++ " + nameB + "\n";
    int begin = std::max(0, i - context), end = i, quiet = 0;
    for (; end < count && quiet <= 2 * context; ++end)
      quiet = changed(end) ? 0 : quiet + 1;
    end -= std::max(0, quiet - context);
    int firstA = 0, firstB = 0, linesA = 0, linesB = 0;
    for (int k = begin; k < end; ++k) {
      if (pairs[k].first >= 0 && !linesA++)
        firstA = pairs[k].first + 1;
      if (pairs[k].second >= 0 && !linesB++)
        firstB = pairs[k].second + 1;
    }
    out += std::string(dim) + "@@ -" + std::to_string(firstA) + "," + std::to_string(linesA) + " +" +
           std::to_string(firstB) + "," + std::to_string(linesB) + " @@" + plain + "\n";
    for (int k = begin; k < end; ++k) {
      if (!changed(k)) {
        out += " " + right[pairs[k].second] + "\n";
        continue;
      }
      if (pairs[k].first >= 0)
        out += std::string(red) + "-" + left[pairs[k].first] + plain + "\n";
      if (pairs[k].second >= 0)
        out += std::string(green) + "+" + right[pairs[k].second] + plain + "\n";
    }
    i = end - 1;
  }
  return out;
}
