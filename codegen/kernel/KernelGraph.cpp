// Takes: a kernel's graph. Gives: small questions about it that several families ask.
#include "codegen/kernel/KernelGraph.h"

namespace quern::codegen {

int Node::find(const std::string &name) const {
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims[i].name == name)
      return static_cast<int>(i);
  return -1;
}

std::vector<std::vector<int>> KernelGraph::users() const {
  std::vector<std::vector<int>> users(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i)
    for (int operand : nodes[i].operands)
      users[operand].push_back(static_cast<int>(i));
  return users;
}

bool KernelGraph::isElementwise(int node) const {
  Op op = nodes[node].op;
  return op >= Op::Neg && op <= Op::Where;
}

} // namespace quern::codegen
