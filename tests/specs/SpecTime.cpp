// Takes: a tensor [B, T, D] by name. Gives: expressions that let positions see each other, and what stands between
// them.
#include "tests/specs/SpecWriter.h"

using namespace quern::test;

/// A comparison of positions, or of text at positions.
std::string SpecWriter::condition() {
  const std::string &s = twin;
  std::string n = std::to_string(choices.between(1, 4)), at = "index(" + s + ")", now = "index(" + time + ")";
  switch (choices.below(hasTokens ? 10 : 7)) {
  case 0:
    return now + " - " + n + " <= " + at;
  case 1:
    return at + " // " + std::to_string(choices.between(2, 4)) + " == " + now + " // " +
           std::to_string(choices.between(2, 4));
  case 2:
    return "(" + at + " % 3 == " + std::to_string(choices.below(3)) + " or " + now + " - " + at + " < 2)";
  case 3:
    return "not (" + at + " < " + n + " and " + now + " > 4)";
  case 4:
    return at + " != " + n;
  case 5:
    return now + " - " + n + " < " + at;
  case 6:
    return "(" + at + " < " + n + " or " + at + " == " + now + ")";
  case 7:
    return "(tokens != 1)[" + time + " -> " + s + "]";
  case 8:
    return hasMask ? "mask[" + time + " -> " + s + "]" : "tokens % 2 == (tokens % 2)[" + time + " -> " + s + "]";
  default:
    return hasSegments ? "segments == segments[" + time + " -> " + s + "]"
                       : "tokens[" + time + " -> " + s + "] <= tokens + 3";
  }
}

/// What position T may see of its twin.
std::string SpecWriter::mask() {
  std::string at = "index(" + twin + ")", now = "index(" + time + ")";
  std::string text;
  if (causal)
    text = choices.of({"%s <= %t", "%s <= %t", "%s <= %t", "%s < %t + 1", "not (%s > %t)", "%s < %t",
                       "%t - 3 < %s <= %t", "%t - 5 <= %s and %s <= %t"});
  else
    text = choices.of({"true", "%s <= %t + 1", "%s >= %t", "%t - 2 < %s < %t + 2", "%s <= %t"});
  for (size_t i; (i = text.find('%')) != std::string::npos;)
    text.replace(i, 2, text[i + 1] == 's' ? at : now);
  if (choices.chance(35))
    text = text == "true" ? condition() : text + " and " + condition();
  return text;
}

/// Attention with heads, as the library has it: every way to say the projections, positions, biases, caps and sinks.
std::string SpecWriter::headed(const std::string &h) {
  std::string q = fresh("q"), k = fresh("k"), v = fresh("v"), names = q + ", " + k + ", " + v + " = ";
  bool grouped = choices.chance(30);
  std::string heads = grouped ? "G, R" : "H";
  std::string bias = choices.chance(25) ? "linear" : "";
  std::string with = choices.chance(20) ? "(" + h + ", true)" : "(" + h + ")";
  if (grouped) {
    switch (choices.below(3)) {
    case 0:
      line(names + "linear[D -> (G, R, K) + (G, K) + (G, K)]" + with + path());
      break;
    case 1:
      line(names + "linear[D -> (G, (R, K) + K + K)]" + with + path());
      break;
    default:
      line(names + "linear[D -> (G, R, K)]" + with + path() + ", linear[D -> (G, K)]" + with + path() +
           ", linear[D -> (G, K)](" + h + ")" + path());
    }
  } else {
    switch (choices.below(5)) {
    case 0:
      line(names + "linear[D -> (H, K) + (H, K) + (H, K)]" + with + path());
      break;
    case 1:
      line(names + "linear[D -> (H, K + K + K)]" + with + path());
      break;
    case 2:
      line(names + "transposed_affine[D -> (H, K) + (H, K) + (H, K)](" + h + ")" + path());
      break;
    case 3: // one head of keys and values for all
      line(names + "linear[D -> (H, K)]" + with + path() + ", linear[D -> K]" + with + path() + ", linear[D -> K](" +
           h + ")" + path());
      break;
    default:
      line(names + "linear[D -> (H, K)]" + with + path() + ", linear[D -> (H, K)]" + with + path() +
           ", linear[D -> (H, K)](" + h + ")" + path());
    }
  }
  if (choices.chance(35)) {
    std::string cosine = fresh("c"), sine = fresh("s"), rope = choices.of({"rope", "rope_pairs"});
    bool partial = sizes["J"] > 1 && choices.chance(30);
    std::string pairs = "J";
    if (partial) {
      pairs = fresh("Z");
      line("dim " + pairs + " = 1");
    }
    line(cosine + ", " + sine + " = rotary[" + pairs + "](index(" + time + "), 100)");
    for (const std::string &name : {q, k})
      line(name + " = " + rope + "[K, " + pairs + "](" + name + ", " + cosine + ", " + sine + ")");
  }
  std::string call = "attention[" + twin + ", K](" + q + ", " + k + "[" + time + " -> " + twin + "], " + v + "[" +
                     time + " -> " + twin + "]";
  if (std::string seen = mask(); seen != "true")
    call += ", mask: " + seen;
  if (choices.chance(25)) {
    std::string distance = "(index(" + twin + ") - index(" + time + "))";
    if (grouped)
      call += ", bias: 0.1 * " + distance;
    else if (choices.chance(50))
      call += ", bias: alibi_slopes[H]() * " + distance;
    else {
      std::string table = fresh("w"), u = fresh("U");
      line("dim " + u + " = 6");
      line("param " + table + ": [" + u + ", H]" + path());
      call += ", bias: " + table + "[" + u + " = min(max(0 - " + distance + ", 0), 5)]";
    }
  }
  if (choices.chance(15))
    call += ", cap: 2.5";
  if (choices.chance(15))
    call += ", scale: 0.7";
  if (choices.chance(15)) {
    std::string sinks = fresh("k");
    line("param " + sinks + ": [" + heads + "]" + path());
    call += ", sink: " + sinks;
  }
  std::string a = fresh("a");
  line(a + " = " + call + ")");
  return "linear[(" + heads + ", K) -> D](" + a + ")" + path();
}

/// The same idea spelled out, without heads.
std::string SpecWriter::plain(const std::string &h) {
  std::string w = fresh("w"), renamed = h + "[" + time + " -> " + twin + "]", m = mask();
  std::string score = "sum[D](" + h + " * " + renamed + ")";
  switch (choices.below(5)) {
  case 0: // retention: decays with distance
    line(w + " = where(" + m + ", 0.8 ^ abs(index(" + time + ") - index(" + twin + ")) * " + score + ", 0)");
    return "sum[" + twin + "](" + w + " * " + renamed + ") / max(sum[" + twin + "](abs(" + w + ")), 1)";
  case 1: // the largest, without scores
    return "max[" + twin + "](where(" + m + ", " + renamed + ", " + (choices.chance(50) ? "-2" : "-5") + "))";
  case 2: { // keys are another projection, values the text
    std::string k = fresh("k");
    line(k + " = linear[D -> D](" + h + ")" + path());
    line(w + " = softmax[" + twin + "](where(" + m + ", sum[D](" + h + " * " + k + "[" + time + " -> " + twin +
         "]) / D, -inf))");
    return "sum[" + twin + "](" + w + " * " + renamed + ")";
  }
  case 3: // softmax by hand
    line(w + " = where(" + m + ", exp(tanh(" + score + ")), 0)");
    return "sum[" + twin + "](" + w + " * " + renamed + ") / (sum[" + twin + "](" + w + ") + 0.1)";
  default:
    line(w + " = softmax[" + twin + "](where(" + m + ", 0.3 * " + score + ", -inf))");
    return "sum[" + twin + "](" + w + " * " + renamed + ")";
  }
}

/// A memory of keys and values that fades, with or without a delta rule.
std::string SpecWriter::remembering(const std::string &h) {
  std::string q = fresh("q"), k = fresh("k"), v = fresh("v"), keep = fresh("g"), m = fresh("m"), y = fresh("y");
  line(q + ", " + k + ", " + v + " = linear[D -> (H, K) + (H, K) + (H, A)](" + h + ")" + path());
  line(k + ", " + keep + " = l2_norm[K](" + k + "), sigmoid(linear[D -> H](" + h + ")" + path() + ")");
  line(m + ": [B, H, K, A] = 0");
  line("scan " + time + (!causal && choices.chance(30) ? " from end {" : " {"));
  line("  " + m + " = " + keep + " * " + m);
  std::string written = choices.chance(60) ? "(" + v + " - sum[K](" + m + " * " + k + "))" : v;
  line("  " + m + " = " + m + " + " + k + " * (0.5 * " + written + ")");
  line("  " + y + " = sum[K](" + m + " * " + q + ")");
  line("}");
  return "linear[(H, A) -> D](" + y + ")" + path();
}

std::string SpecWriter::running(const std::string &h) {
  switch (choices.below(4)) {
  case 3:
    return remembering(h);
  case 0:
    return "cumsum[" + time + "](" + h + ") / (1 + index(" + time + "))";
  case 1: { // linear attention
    std::string q = fresh("q"), k = fresh("k"), v = fresh("v"), kv = fresh("m"), z = fresh("z");
    line(q + ", " + k + " = exp(tanh(linear[D -> (H, K)](" + h + ")" + path() + ")), exp(tanh(linear[D -> (H, K)](" +
         h + ")" + path() + "))");
    line(v + " = linear[D -> (H, A)](" + h + ")" + path());
    line(kv + ", " + z + " = cumsum[" + time + "](" + k + " * " + v + "), cumsum[" + time + "](" + k + ")");
    return "linear[(H, A) -> D](sum[K](" + q + " * " + kv + ") / sum[K](" + q + " * " + z + "))" + path();
  }
  default: // a decayed sum: positions weigh the terms before and after
    return "cumsum[" + time + "](" + h + " * 1.1 ^ index(" + time + ")) / (6 * 1.1 ^ index(" + time + "))";
  }
}

std::string SpecWriter::shifted(const std::string &h) {
  std::string n = std::to_string(choices.between(1, 3)), s = fresh("s");
  line(s + " = " + h + "[" + time + " = max(index(" + time + ") - " + n + ", 0)]");
  switch (choices.below(3)) {
  case 0:
    return "where(index(" + time + ") >= " + n + ", " + s + ", 0)";
  case 1:
    return "linear[D -> D](" + s + " - 0.5 * " + h + ")" + path();
  default:
    return "0.5 * " + s + " + " + h + "[" + time + " = index(" + time + ") // 2]";
  }
}

std::string SpecWriter::mixer(const std::string &h) {
  if (!causal && choices.chance(20))
    return "(" + h + " - mean[" + time + "](" + h + "))";
  switch (choices.below(8)) {
  case 0:
  case 1:
    return plain(h);
  case 2:
    return running(h);
  case 3:
    return shifted(h);
  default:
    return headed(h);
  }
}

std::string SpecWriter::feedForward(const std::string &h) {
  std::string act = choices.of({"relu", "silu", "gelu", "gelu_tanh", "tanh"});
  switch (choices.below(4)) {
  case 0:
    return "affine[F -> D](" + act + "(affine[D -> F](" + h + ")" + path() + "))" + path();
  case 1: {
    std::string gate = fresh("g"), up = fresh("u");
    line(gate + ", " + up + " = linear[D -> F + F](" + h + ")" + path());
    return "linear[F -> D](" + act + "(" + gate + ") * " + up + ")" + path();
  }
  case 2: {
    std::string gate = fresh("g"), up = fresh("u");
    line(gate + ", " + up + " = linear[D -> (F, 1 + 1)](" + h + ", true)" + path());
    return "linear[F -> D](" + act + "(" + gate + ") * (1 + " + up + "))" + path();
  }
  default:
    return "transposed_affine[F -> D](" + act + "(transposed_affine[D -> F](" + h + ")" + path() + "))" + path();
  }
}

std::string SpecWriter::experts(const std::string &h) {
  std::string score = fresh("s"), chosen = fresh("n"), y = fresh("y"), e = fresh("e");
  bool after = choices.chance(30);
  std::string gates = "linear[D -> E](" + h + ")" + path();
  line(score + ", " + chosen + " = top_k[E -> C](" + (after ? gates : "softmax[E](" + gates + ")") + ")");
  if (after)
    line(score + " = softmax[C](" + score + ")");
  line(y + " = linear[F -> D](silu(linear[D -> F](" + h + ") @ \"" + e + ".{E}.in\")) @ \"" + e + ".{E}.out\"");
  return "sum[C](" + y + "[E = " + chosen + "] * " + score + ")";
}
