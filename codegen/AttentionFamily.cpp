#include "codegen/AttentionFamily.h"
namespace quern::codegen {
std::vector<char> AttentionFamily::claim(KernelBuilder &b) { return std::vector<char>(b.graph.nodes.size()); }
}
