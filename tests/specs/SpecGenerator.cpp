// Takes: decisions. Gives: a spec: dimensions, blocks, layers, a head.
// Why the spec and not the IR is random: people write specs, and what the frontend makes of them is where most shapes
// of IR come from that nobody thought of.
#include "tests/specs/SpecWriter.h"

using namespace quern::test;

std::string quern::test::join(const std::set<std::string> &dims) {
  std::string text;
  for (const std::string &dim : dims)
    text += (text.empty() ? "" : ", ") + dim;
  return text;
}

std::set<std::string> quern::test::without(std::set<std::string> dims, const std::string &dim) {
  dims.erase(dim);
  return dims;
}

std::set<std::string> quern::test::with(std::set<std::string> dims, const std::string &dim) {
  dims.insert(dim);
  return dims;
}

RandomSpec quern::test::makeSpec(Choices &choices) {
  return SpecWriter(choices).write();
}

void SpecWriter::line(const std::string &words) {
  text += indent + words + "\n";
}

int64_t SpecWriter::elements(const std::set<std::string> &dims) const {
  int64_t product = 1;
  for (const std::string &dim : dims)
    if (auto size = sizes.find(dim); size != sizes.end())
      product *= size->second;
  return product;
}

// ---- dimensions

/// Few sizes, so that kernels of other specs are met again in the cache; odd ones, ones, and ones beyond a vector.
void SpecWriter::chooseDims() {
  auto size = [&](std::initializer_list<int> options) { return options.begin()[choices.below(options.size())]; };
  int heads = size({2, 1, 3, 4}), half = size({2, 1, 3}), group = size({2, 1, 3});
  sizes = {{"V", size({11, 16, 33})},
           {"H", heads},
           {"G", group},
           {"R", heads},
           {"J", half},
           {"K", 2 * half},
           {"F", size({6, 8, 17})},
           {"A", size({3, 4, 1})},
           {"E", size({3, 4})},
           {"C", 2},
           {"P", 40}};
  sizes["D"] = size({8, 4, 6, 18});
  sizes["L"] = sizes["D"];              // as long as D
  sizes["M"] = sizes["H"] * sizes["K"]; // a group
  sizes["N"] = sizes["A"] + sizes["C"]; // a sum
  features = {"D", "H", "K", "F", "A", "C", "J", "L", "M", "N"};
  causal = !choices.chance(15);
  longest = 40;
}

void SpecWriter::declareDims(std::string &head) {
  bool config = choices.chance(50);
  auto number = [&](const char *dim) { return std::to_string(sizes[dim]); };
  head = "quern 1\nmodel random {\n";
  if (config)
    head += "  config { width = " + number("D") + ", heads = " + number("H") + ", vocab = " + number("V") + " }\n";
  head += "  dim V = " + (config ? "vocab" : number("V")) + ", D = " + (config ? "width" : number("D")) +
          ", H = " + (config ? "heads" : number("H")) + ", F = " + number("F") + ", J = " + number("J") +
          ", K = 2 * J\n";
  head += "  dim A = " + number("A") + ", C = " + number("C") + ", E = " + number("E") + ", G = " + number("G") +
          ", R = " + number("R") + ", P = " + number("P") + "\n";
  head += "  dim L = D, M = H * K, N = A + C\n";
}

// ---- blocks

/// block fN[D](x: [.., D]): algebra on one dimension; everything else passes through.
void SpecWriter::block() {
  std::string name = fresh("f"), outer;
  std::swap(outer, text);
  bool wasTimed = timed, hadTokens = hasTokens;
  timed = hasTokens = false;
  scope = {{"x", {"D"}, true}};
  indent = "    ";
  line("y = " + norm("x"));
  scope.push_back({"y", {"D"}, false});
  algebra(choices.between(1, 4));
  gatherUp("y");
  line("return y");
  scope.clear();
  timed = wasTimed, hasTokens = hadTokens;
  indent = "  ";
  text = outer + "  block " + name + "[D](x: [.., D]) {\n" + text + "  }\n";
  blocks.push_back(name);
}

std::string SpecWriter::norm(const std::string &x) {
  switch (choices.below(4)) {
  case 0:
    return "rms_norm[D](" + x + ")" + path();
  case 1:
    return "layer_norm[D](" + x + ", 1e-3)" + path();
  case 2:
    return x + " / sqrt(mean[D](" + x + " * " + x + ") + 0.01)";
  default:
    return "normalize[D](" + x + ", 0.1)";
  }
}

// ---- layers

void SpecWriter::layer(const std::string &x, int depth) {
  std::string h = fresh("h");
  line(h + " = " + norm(x));
  std::string part;
  switch (choices.below(6)) {
  case 0:
  case 1:
  case 2:
    part = mixer(h);
    break;
  case 3:
    part = choices.chance(40) ? experts(h) : feedForward(h);
    break;
  case 4:
    if (!blocks.empty()) {
      part = choices.of(blocks) + "[D](" + h + ")" + path();
      break;
    }
    [[fallthrough]];
  default: {
    // Algebra in the layer: what it makes is gathered up again before the layer ends.
    std::vector<Named> outer;
    std::swap(outer, scope);
    scope.push_back({h, {time, "D"}, false});
    algebra(choices.between(2, 6));
    std::string y = fresh("y");
    line(y + " = 0.5 * " + h);
    gatherUp(y);
    scope = outer;
    part = y;
  }
  }
  line(x + " = " + x + (choices.chance(80) ? " + " + part : " - 0.5 * (" + part + ")"));
  if (depth < 2 && choices.chance(10))
    layers(x);
}

void SpecWriter::layers(const std::string &x) {
  std::string i = fresh("i");
  int iterations = choices.between(1, 3), parts = choices.between(1, 2);
  bool path = choices.chance(85);
  line("repeat " + i + " in " + std::to_string(iterations) + (path ? " @ \"" + fresh("l") + ".{" + i + "}\"" : "") +
       " {");
  indent += "  ";
  for (int n = 0; n < parts; ++n) {
    if (path && choices.chance(20)) { // another layer in some iterations
      line("if " + i + " % 2 == " + std::to_string(choices.below(2)) + " {");
      indent += "  ";
      layer(x, 2);
      indent.resize(indent.size() - 2);
      line("} else {");
      indent += "  ";
      layer(x, 2);
      indent.resize(indent.size() - 2);
      line("}");
    } else {
      layer(x, indent.size() > 6 ? 2 : 1);
    }
  }
  if (choices.chance(20))
    line(x + " = " + x + " * " + (choices.chance(50) ? "(1 - 0.1 * " + i + ")" : "0.9"));
  indent.resize(indent.size() - 2);
  line("}");
}

// ---- functions

void SpecWriter::forward(const std::string &head) {
  hasMask = choices.chance(20), hasSegments = choices.chance(15);
  bool positions = choices.chance(10), pooled = !causal && choices.chance(30), logits = choices.chance(50);
  std::string inputs = "tokens: int[B, T]";
  if (hasMask)
    inputs += ", mask: bool[B, T] = true";
  if (hasSegments)
    inputs += ", segments: int[B, T] = 0";
  if (positions)
    inputs += ", positions: int[B, T] = index(T)";
  std::string result = pooled ? "[B, D]" : logits ? "[B, T, V]" : "[B, T, D]";
  line("forward(" + inputs + ") -> " + result + " {");
  indent = "    ";
  line("dim S = T");
  line("param words: [V, D] @ \"words\"");
  line("x = words[V = tokens]");
  if (choices.chance(40))
    line("param places: [P, D] @ \"places\"\n" + indent +
         "x = x + places[P = " + (positions ? "positions" : "index(T)") + "]");
  else if (positions)
    line("x = x + 0.1 * sin(positions)");
  if (hasSegments)
    line("x = x + 0.1 * (segments % 3)");
  if (hasMask)
    line("x = where(mask, x, 0.5 * x)");
  layers("x");
  if (choices.chance(40))
    layers("x");
  if (choices.chance(50))
    line("x = " + norm("x"));
  if (pooled)
    line("return mean[T](x)");
  else if (logits)
    line(choices.chance(50) ? "return sum[D](x * words)" : "return linear[D -> V](x) @ \"head\"");
  else
    line("return x");
  text = head + text + "  }\n}\n";
}

/// An encoder and a decoder that sees it.
void SpecWriter::translate(const std::string &head) {
  hasMask = choices.chance(50);
  std::string mask = hasMask ? ", mask: bool[B, S] = true" : "", seen = hasMask ? ", mask" : "";
  line("param words: [V, D] @ \"words\"");
  line("encode(tokens: int[B, S]" + mask + ") -> [B, S, D] {");
  line("  dim Q = S");
  line("  x = words[V = tokens] + sinusoid[D](index(S))");
  line("  repeat i in 2 @ \"e.{i}\" {");
  line("    q, k, v = linear[D -> (H, K) + (H, K) + (H, K)](x) @ \"qkv\"");
  line("    a = attention[S, K](q[S -> Q], k, v" + seen + ")");
  line("    x = x + linear[(H, K) -> D](a[Q -> S]) @ \"o\"");
  line("    x = " + norm("x"));
  line("  }\n    return x\n  }");
  bool used = hasMask;
  hasMask = hasSegments = hasTokens = false;
  causal = true;
  line("decode(target: int[B, T], memory: [B, S, D]" + mask + ") -> [B, T, V] {");
  indent = "    ";
  twin = "U";
  line("dim U = T");
  line("x = words[V = target]");
  layers("x");
  line("repeat i in 2 @ \"d.{i}\" {");
  line("  q = linear[D -> (H, K)](x) @ \"q\"");
  line("  k, v = linear[D -> (H, K) + (H, K)](memory) @ \"kv\"");
  line("  x = x + linear[(H, K) -> D](attention[S, K](q, k, v" + std::string(used ? ", mask" : "") + ")) @ \"o\"");
  line("}");
  layers("x");
  line("return sum[D](x * words)");
  text = head + text + "  }\n}\n";
}

RandomSpec SpecWriter::write() {
  chooseDims();
  std::string head;
  declareDims(head);
  for (int n = choices.below(3); n > 0; --n)
    block();
  if (choices.chance(10))
    translate(head);
  else
    forward(head);
  return {text, causal, sizes["V"], longest};
}
