// A set of strings with numbers, searched byte by byte.
#ifndef QUERN_RUNTIME_TOKENIZER_TEXT_BYTETRIE_H
#define QUERN_RUNTIME_TOKENIZER_TEXT_BYTETRIE_H

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace quern::runtime {

/// A trie whose edges are in one open-addressed table: 12 bytes an edge at most half full, whatever the vocabulary.
class ByteTrie {
public:
  ByteTrie() : values(1, -1), table(64) {}

  void insert(std::string_view key, int value) {
    uint32_t node = 0;
    for (char c : key)
      node = child(node, static_cast<uint8_t>(c));
    values[node] = value;
  }
  bool empty() const { return values.size() == 1; }
  static constexpr uint32_t root = 0, none = UINT32_MAX;
  /// The node behind `node` by this byte, or none.
  uint32_t step(uint32_t node, uint8_t byte) const {
    uint64_t key = uint64_t(node) << 8 | byte;
    for (size_t at = hash(key) & (table.size() - 1);; at = (at + 1) & (table.size() - 1)) {
      if (table[at].node == 0)
        return none;
      if (table[at].key == key)
        return table[at].node;
    }
  }
  /// The number of the string that ends at this node, or -1.
  int value(uint32_t node) const { return values[node]; }

  /// The longest string that begins `text`: its number and its bytes; {-1, 0} if there is none.
  std::pair<int, size_t> longest(std::string_view text) const {
    std::pair<int, size_t> found{-1, 0};
    uint32_t node = root;
    for (size_t i = 0; i < text.size(); ++i) {
      node = empty() ? none : step(node, static_cast<uint8_t>(text[i]));
      if (node == none)
        break;
      if (values[node] >= 0)
        found = {values[node], i + 1};
    }
    return found;
  }

private:
  struct Edge {
    uint64_t key = 0;
    uint32_t node = 0; // 0 (the root) is nobody's child: free
  };
  std::vector<int> values;
  std::vector<Edge> table;

  static size_t hash(uint64_t key) { return size_t((key + 1) * 0x9e3779b97f4a7c15ull >> 29); }
  uint32_t child(uint32_t node, uint8_t byte) {
    uint32_t found = step(node, byte);
    if (found != none)
      return found;
    if (values.size() * 2 > table.size())
      grow();
    uint32_t made = uint32_t(values.size());
    values.push_back(-1);
    place({uint64_t(node) << 8 | byte, made});
    return made;
  }
  void place(Edge edge) {
    size_t at = hash(edge.key) & (table.size() - 1);
    while (table[at].node != 0)
      at = (at + 1) & (table.size() - 1);
    table[at] = edge;
  }
  void grow() {
    std::vector<Edge> old(table.size() * 2);
    old.swap(table);
    for (const Edge &edge : old)
      if (edge.node != 0)
        place(edge);
  }
};

} // namespace quern::runtime
#endif
