// From what is known of some nodes at their places on to the nodes that are made of them.
#ifndef QUERN_CODEGEN_TILE_ATTEND_ONWARD_H
#define QUERN_CODEGEN_TILE_ATTEND_ONWARD_H

#include "codegen/tile/Places.h"

namespace quern::codegen::tile {

/// A node's value at one of its places.
struct Here {
  Place place;
  int value = 0;
};

/// All nodes that are made of the `known` ones element by element, where those stand. Everything else that they read is
/// evaluated by `places`. Throws Refusal for a node that needs several of their elements.
std::map<int, Here> onward(const KernelGraph &graph, Places &places, Values &values, std::map<int, Here> known);

} // namespace quern::codegen::tile
#endif
