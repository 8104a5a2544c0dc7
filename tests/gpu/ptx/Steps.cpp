// Takes: an instruction's name, "mad.lo.s32". Gives: what it does.
#include "tests/gpu/ptx/Steps.h"

#include "tests/gpu/ptx/Async.h"
#include "tests/gpu/ptx/Operations.h"
#include "tests/gpu/ptx/Warps.h"

namespace quern::ptx {
namespace {

using namespace operations;

/// The words between a name's dots, read one after the other.
struct Words {
  std::string text;
  bool take(const std::string &word) {
    if (text != word && !text.starts_with(word + "."))
      return false;
    text = text.size() == word.size() ? "" : text.substr(word.size() + 1);
    return true;
  }
};

/// Calls `make` with a number of the type that is next: std::type_identity.
template <typename Make> Step typed(Words &words, Make make) {
#define QUERN_TYPE(word, type)                                                                                         \
  if (words.take(word))                                                                                                \
    return make(std::type_identity<type>());
  QUERN_TYPE("f32", float)
  QUERN_TYPE("f64", double)
  QUERN_TYPE("s8", int8_t)
  QUERN_TYPE("s16", int16_t)
  QUERN_TYPE("s32", int32_t)
  QUERN_TYPE("s64", int64_t)
  QUERN_TYPE("u8", uint8_t)
  QUERN_TYPE("u16", uint16_t)
  QUERN_TYPE("u32", uint32_t)
  QUERN_TYPE("u64", uint64_t)
  QUERN_TYPE("b8", uint8_t)
  QUERN_TYPE("b16", uint16_t)
  QUERN_TYPE("b32", uint32_t)
  QUERN_TYPE("b64", uint64_t)
#undef QUERN_TYPE
  return nullptr;
}
template <typename T> constexpr bool isReal = std::is_floating_point_v<T>;
template <typename T> constexpr bool hasWide = std::is_integral_v<T> && sizeof(T) >= 2;
template <typename T> constexpr bool isWord = std::is_integral_v<T> && sizeof(T) >= 2 && sizeof(T) <= 8;

/// Where the ISA has an operation for integers, for reals, or for both.
#define QUERN_INTEGERS(what)                                                                                           \
  typed(w, []<typename T>(std::type_identity<T>) -> Step {                                                             \
    if constexpr (hasWide<T>)                                                                                          \
      return what;                                                                                                     \
    else                                                                                                               \
      return nullptr;                                                                                                  \
  })
#define QUERN_NARROW(what)                                                                                             \
  typed(w, []<typename T>(std::type_identity<T>) -> Step {                                                             \
    if constexpr (hasWide<T> && sizeof(T) <= 4)                                                                        \
      return what;                                                                                                     \
    else                                                                                                               \
      return nullptr;                                                                                                  \
  })
#define QUERN_REALS(what)                                                                                              \
  typed(w, []<typename T>(std::type_identity<T>) -> Step {                                                             \
    if constexpr (isReal<T>)                                                                                           \
      return what;                                                                                                     \
    else                                                                                                               \
      return nullptr;                                                                                                  \
  })
#define QUERN_ALL(what)                                                                                                \
  typed(w, []<typename T>(std::type_identity<T>) -> Step {                                                             \
    if constexpr (isReal<T> || hasWide<T>)                                                                             \
      return what;                                                                                                     \
    else                                                                                                               \
      return nullptr;                                                                                                  \
  })

template <Space space> Step access(Words &w, bool loads) {
  int many = w.take("v2") ? 2 : w.take("v4") ? 4 : 1;
  return typed(w, [&]<typename T>(std::type_identity<T>) -> Step {
    if (loads)
      return many == 1 ? load<T, space, 1> : many == 2 ? load<T, space, 2> : load<T, space, 4>;
    return many == 1 ? store<T, space, 1> : many == 2 ? store<T, space, 2> : store<T, space, 4>;
  });
}
Step accessOf(Words &w, bool loads) {
  w.take("weak");
  w.take("volatile");
  if (w.take("relaxed"))
    w.take("gpu");
  if (w.take("global")) {
    w.take("nc");
    return access<Space::Global>(w, loads);
  }
  return w.take("local")    ? access<Space::Local>(w, loads)
         : w.take("shared") ? access<Space::Shared>(w, loads)
         : w.take("const")  ? access<Space::Table>(w, loads)
         : w.take("param")  ? access<Space::Parameter>(w, loads)
                            : access<Space::Any>(w, loads);
}

template <Compare how> Step compareOf(Words &w, bool unordered) {
  return unordered ? QUERN_ALL((compare<T, how, true>)) : QUERN_ALL((compare<T, how, false>));
}
Step setOf(Words &w) {
  if (w.take("num"))
    return compareOf<Compare::Num>(w, false);
  if (w.take("nan"))
    return compareOf<Compare::Nan>(w, false);
  struct Form {
    const char *word, *unordered, *ofUnsigned;
    Step (*make)(Words &, bool);
  };
  for (const Form &form :
       {Form{"eq", "equ", "", compareOf<Compare::Eq>}, Form{"ne", "neu", "", compareOf<Compare::Ne>},
        Form{"lt", "ltu", "lo", compareOf<Compare::Lt>}, Form{"le", "leu", "ls", compareOf<Compare::Le>},
        Form{"gt", "gtu", "hi", compareOf<Compare::Gt>}, Form{"ge", "geu", "hs", compareOf<Compare::Ge>}}) {
    if (w.take(form.word) || (*form.ofUnsigned && w.take(form.ofUnsigned)))
      return form.make(w, false);
    if (w.take(form.unordered))
      return form.make(w, true);
  }
  return nullptr;
}

template <typename To> Step convertOf(Words &w, Round how) {
  return typed(w, [&]<typename From>(std::type_identity<From>) -> Step {
    switch (how) {
    case Round::Nearest:
      return convert<To, From, Round::Nearest>;
    case Round::Zero:
      return convert<To, From, Round::Zero>;
    case Round::Down:
      return convert<To, From, Round::Down>;
    case Round::Up:
      return convert<To, From, Round::Up>;
    default:
      return convert<To, From, Round::None>;
    }
  });
}

/// The rounding that is everywhere, and what only says how small numbers are treated.
void dropRounding(Words &w) {
  for (const char *word : {"rn", "approx", "full", "ftz", "uni", "relu"})
    w.take(word);
}

Step find(Words &w) {
  if (w.take("ld"))
    return accessOf(w, true);
  if (w.take("st"))
    return accessOf(w, false);
  if (w.take("setp"))
    return setOf(w);
  if (w.take("cvt")) {
    if (w.take("rn.bf16.f32"))
      return roundToBF16;
    if (w.take("rn.bf16x2.f32"))
      return roundPairToBF16;
    if (w.take("f32.f16"))
      return widenHalf;
    Round how = w.take("rni")   ? Round::Nearest
                : w.take("rzi") ? Round::Zero
                : w.take("rmi") ? Round::Down
                : w.take("rpi") ? Round::Up
                                : Round::None;
    dropRounding(w);
    return typed(w, [&]<typename To>(std::type_identity<To>) { return convertOf<To>(w, how); });
  }
  if (w.take("cvta"))
    return w.text = "", Step(copy<uint64_t>);
  if (w.take("mov"))
    return w.take("pred") ? copy<uint64_t>
                          : typed(w, []<typename T>(std::type_identity<T>) -> Step { return copy<T>; });
  if (w.take("split"))
    return w.take("b64") ? split<uint32_t> : w.take("b32") ? split<uint16_t> : nullptr;
  if (w.take("join"))
    return w.take("b64") ? join<uint32_t> : w.take("b32") ? join<uint16_t> : nullptr;
  if (w.take("copysign"))
    return QUERN_REALS(withSign<T>);
  if (w.take("cp.async")) {
    Step step = w.take("cg.shared.global") ? beginCopy : w.take("commit_group") ? commitCopies : awaitCopies;
    return step != awaitCopies || w.take("wait_group") ? step : nullptr;
  }
  if (w.take("selp"))
    return typed(w, []<typename T>(std::type_identity<T>) -> Step { return choose<T>; });
  if (w.take("shf")) {
    bool left = w.take("l");
    return (left || w.take("r")) && w.take("wrap") && w.take("b32") ? (left ? funnel<true> : funnel<false>) : nullptr;
  }
  if (w.take("prmt"))
    return w.take("b32") ? permute : nullptr;
  if (w.take("prefetch.global.L2"))
    return prefetch;
  if (w.take("atom.global.add.u32"))
    return countUp;
  if (w.take("membar") || w.take("fence"))
    return w.text = "", Step(nothing);
  struct Logic {
    const char *word;
    Step ofPredicates, ofBits[3];
  };
  for (const Logic &logic :
       {Logic{"and", ofPredicates<0>, {two<uint16_t, both>, two<uint32_t, both>, two<uint64_t, both>}},
        Logic{"or", ofPredicates<1>, {two<uint16_t, either>, two<uint32_t, either>, two<uint64_t, either>}},
        Logic{"xor", ofPredicates<2>, {two<uint16_t, differ>, two<uint32_t, differ>, two<uint64_t, differ>}},
        Logic{"not", ofPredicates<3>, {one<uint16_t, invert>, one<uint32_t, invert>, one<uint64_t, invert>}}})
    if (w.take(logic.word))
      return w.take("pred")  ? logic.ofPredicates
             : w.take("b16") ? logic.ofBits[0]
             : w.take("b32") ? logic.ofBits[1]
             : w.take("b64") ? logic.ofBits[2]
                             : nullptr;
  if (w.take("shl"))
    return QUERN_INTEGERS(shiftLeft<T>);
  if (w.take("shr"))
    return QUERN_INTEGERS(shiftRight<T>);
  if (w.take("bfe"))
    return QUERN_INTEGERS(extract<T>);
  if (w.take("mul")) {
    if (w.take("lo"))
      return QUERN_INTEGERS((two<T, mulLow>));
    if (w.take("hi"))
      return QUERN_INTEGERS((two<T, mulHigh>));
    if (w.take("wide"))
      return QUERN_NARROW(mulWide<T>);
    dropRounding(w);
    return QUERN_REALS((two<T, mulReal>));
  }
  if (w.take("mad")) {
    if (w.take("lo"))
      return QUERN_INTEGERS((three<T, madLow>));
    if (w.take("wide"))
      return QUERN_NARROW(madWide<T>);
    return nullptr;
  }
  if (w.take("fma")) {
    dropRounding(w);
    return QUERN_REALS((three<T, fma3>));
  }
  for (auto [word, make] : std::initializer_list<std::pair<const char *, Step (*)(Words &)>>{
           {"add", [](Words &w) { return QUERN_ALL((two<T, add>)); }},
           {"sub", [](Words &w) { return QUERN_ALL((two<T, sub>)); }},
           {"div", [](Words &w) { return QUERN_ALL((two<T, divide>)); }},
           {"rem", [](Words &w) { return QUERN_INTEGERS((two<T, remainder>)); }},
           {"neg", [](Words &w) { return QUERN_ALL((one<T, negate>)); }},
           {"abs", [](Words &w) { return QUERN_ALL((one<T, absolute>)); }},
           {"min", [](Words &w) { return QUERN_ALL((two<T, least>)); }},
           {"max", [](Words &w) { return QUERN_ALL((two<T, most>)); }},
           {"sqrt", [](Words &w) { return QUERN_REALS((one<T, root>)); }},
           {"rcp", [](Words &w) { return QUERN_REALS((one<T, inverse>)); }},
           {"ex2", [](Words &w) { return QUERN_REALS((one<T, powerOfTwo>)); }},
           {"lg2", [](Words &w) { return QUERN_REALS((one<T, ofTwo>)); }}})
    if (w.take(word)) {
      dropRounding(w);
      return make(w);
    }
  return nullptr;
}

} // namespace

Step stepOf(const std::string &name) {
  if (Step async = asyncStepOf(name))
    return async;
  Words words{name};
  Step step = find(words);
  if (!step || !words.text.empty())
    throw std::runtime_error("'" + name + "' is not known");
  return step;
}

} // namespace quern::ptx
