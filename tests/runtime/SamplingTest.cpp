// Sampling rules against their definitions and against transformers' (tests/data/decoding.json).
#include "runtime/Error.h"
#include "runtime/sampling/Draw.h"
#include "runtime/sampling/PortableMath.h"
#include "runtime/sampling/Sampler.h"
#include "runtime/sampling/SamplingRules.h"
#include "tests/runtime/TestData.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

namespace quern::runtime {
namespace {

using Json = nlohmann::json;

TEST(Sampling, KeepsWhatTheRulesAllow) {
  std::vector<float> logits = {0, 3, 2, 2.9f, -1};
  auto seen = [&](std::map<std::string, double> rules) {
    rules["temp"] = 1;
    Sampler sampler({rules, 0});
    std::vector<int> counts(5);
    for (int i = 0; i < 4000; ++i)
      ++counts[size_t(sampler.next({}, logits))];
    return counts;
  };
  std::vector<int> all = seen({});
  EXPECT_GT(all[4], 0);
  double sum = 0;
  for (float logit : logits)
    sum += std::exp(logit);
  for (int i = 0; i < 5; ++i)
    EXPECT_NEAR(all[size_t(i)] / 4000.0, std::exp(logits[size_t(i)]) / sum, 0.03);
  EXPECT_EQ(seen({{"top-k", 2}})[2], 0);
  EXPECT_EQ(seen({{"top-p", 0.5}})[2], 0);
  EXPECT_GT(seen({{"top-p", 0.5}})[3], 0);
  EXPECT_EQ(seen({{"min-p", 0.5}})[2], 0);
  EXPECT_EQ(Sampler({}).next({}, logits), 1);
  std::vector<float> broken = {NAN, NAN};
  EXPECT_THROW(Sampler({}).next({}, broken), UserError);
  EXPECT_THROW(Sampler({{{"top-q", 1}}, 0}), UserError);
  EXPECT_THROW(Sampler({{{"top-p", 1.5}}, 0}), UserError);
  EXPECT_THROW(Sampler({{{"top-k", 1.5}}, 0}), UserError);
}

TEST(Sampling, TheSameSeedGivesTheSameTokensForEver) {
  // Made by the version of November 2026: a change of these is a change of what users see.
  std::vector<float> logits(50);
  for (size_t i = 0; i < logits.size(); ++i)
    logits[i] = float((i * 37) % 50) / 7;
  auto draw = [&](std::map<std::string, double> rules) {
    Sampler sampler({rules, 42});
    std::vector<int> tokens;
    for (int i = 0; i < 12; ++i)
      tokens.push_back(sampler.next(tokens, logits));
    return tokens;
  };
  EXPECT_EQ(draw({{"temp", 0.8}}), (std::vector<int>{27, 31, 39, 5, 29, 43, 16, 47, 43, 35, 39, 4}));
  EXPECT_EQ(draw({{"temp", 1.3}, {"top-k", 20}, {"top-p", 0.9}, {"min-p", 0.05}}),
            (std::vector<int>{27, 8, 16, 1, 5, 43, 16, 47, 43, 12, 16, 31}));
  EXPECT_EQ(draw({{"top-p", 0.95}}), (std::vector<int>{27, 8, 16, 5, 40, 20, 43, 24, 43, 12, 16, 31}));
}

/// Many at a time are each what it is alone; what is no number, or far below, is 0.
TEST(Sampling, ExponentialsSideBySide) {
  std::vector<double> x = {NAN, -701, -700, -INFINITY, 0, -0.0};
  for (int i = 0; x.size() < 37; ++i)
    x.push_back(-0.37 * i * i);
  std::vector<double> all = x;
  portableExp(all);
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(all[i], portableExp(x[i])) << x[i];
    EXPECT_NEAR(all[i], x[i] > -700 ? std::exp(x[i]) : 0, 1e-15) << x[i];
  }
}

TEST(Sampling, TheOrderOfWholeWeights) {
  std::mt19937 random(3);
  for (int range : {3, 1000, 1 << 30}) { // many are equal, or none
    Choices choices;
    for (int token = 0; token < 3000; ++token)
      choices.list.push_back({double(1 + random() % unsigned(range)), token});
    choices.list[1234].weight = heaviest;
    Choices compared = choices;
    choices.sortWhole();
    compared.sort();
    for (size_t i = 0; i < choices.list.size(); ++i) {
      EXPECT_EQ(choices.list[i].token, compared.list[i].token) << i;
      EXPECT_EQ(choices.list[i].weight, compared.list[i].weight) << i;
    }
  }
}

/// The same tokens as of a whole order, which a rule asks for that here takes nothing away.
TEST(Sampling, AChoiceSortsOnlyWhatItNeeds) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  const std::map<std::string, double> every[] = {{},
                                                 {{"top-k", 1}},
                                                 {{"top-k", 40}, {"repeat-penalty", 1.5}},
                                                 {{"top-p", 0.9}, {"temp", 0.7}},
                                                 {{"top-p", 1e-9}},
                                                 {{"min-p", 0.02}, {"temp", 3}},
                                                 {{"top-k", 700}, {"top-p", 0.6}, {"min-p", 0.001}, {"temp", 1.5}}};
  for (float spread : {0.f, 1e-7f, 1.f, 6.f}) // all equal, nearly, and as models have them
    for (int words : {1, 7, 2000}) {
      std::vector<float> logits;
      for (int i = 0; i < words; ++i)
        logits.push_back(i % 11 == 5 ? NAN : i % 11 == 6 ? -INFINITY : std::floor(normal(random) * 64) / 64 * spread);
      for (std::map<std::string, double> rules : every) {
        rules.insert({"temp", 1.0});
        Sampler some({rules, 9});
        rules.insert({"epsilon-cutoff", 1e-300});
        Sampler whole({rules, 9});
        std::vector<int> history = {1, 2, 3};
        for (int i = 0; i < 30; ++i) {
          const int token = some.next(history, logits);
          ASSERT_EQ(token, whole.next(history, logits)) << words << " words, spread " << spread;
          history.push_back(token);
        }
      }
    }
}

TEST(Sampling, RepeatedTokensBecomeLessLikely) {
  std::vector<float> logits = {1, 3, -1, 2.9f};
  Sampler sampler({{{"repeat-penalty", 2}}, 0});
  EXPECT_EQ(sampler.next({}, logits), 1);
  EXPECT_EQ(sampler.next(std::vector<int>{1, 1, 99}, logits), 3); // 3 becomes 1.5, once
  EXPECT_EQ(sampler.next(std::vector<int>{1, 3}, logits), 1);
}

TEST(Sampling, LogProbabilitiesAreTheModelsOwn) {
  std::vector<float> logits = {0, 3, 2, 2.9f, NAN};
  double sum = 0;
  for (int i = 0; i < 4; ++i)
    sum += std::exp(double(logits[size_t(i)]));
  Chosen chosen = Sampler({{{"temp", 0}}, 0}).nextScored({}, logits);
  EXPECT_EQ(chosen.token, 1);
  EXPECT_NEAR(chosen.logProbability, 3 - std::log(sum), 1e-12);
  EXPECT_NEAR(logProbability(logits, 2), 2 - std::log(sum), 1e-12);
}

/// "typical=0.3" as options.
SamplerOptions rulesOf(const std::string &text) {
  size_t equals = text.find('=');
  return {{{text.substr(0, equals), std::stod(text.substr(equals + 1))}}, 0};
}

class Golden : public testing::Test {
protected:
  Json all = test::readJson(test::dataPath("decoding.json"))["processors"];
  std::vector<double> scores = all["scores"];
  std::vector<int> history = all["history"];
  void expectEqual(Sampler sampler, const Json &wanted, const std::string &rules) {
    std::vector<double> found = scores;
    sampler.adjust(history, found);
    for (size_t i = 0; i < found.size(); ++i)
      if (wanted[i].is_null())
        EXPECT_EQ(found[i], -INFINITY) << rules << ", token " << i;
      else
        EXPECT_NEAR(found[i], wanted[i].get<double>(), 1e-8) << rules << ", token " << i;
  }
};

TEST_F(Golden, RulesChangeLogitsAsTransformersDoes) {
  for (const Json &one : all["adjust"])
    expectEqual(Sampler(rulesOf(one["rules"])), one["result"], one["rules"]);
  SamplerOptions bias;
  bias.bias = {{4, 2.5}, {0, -1.25}, {1000, 1}};
  expectEqual(Sampler(bias), all["bias"]["result"], "bias");
}

TEST_F(Golden, RulesKeepTheTokensThatTransformersKeeps) {
  std::vector<float> logits(scores.begin(), scores.end());
  for (const Json &one : all["kept"]) {
    SamplerOptions options = rulesOf(one["rules"]);
    options.rules["temp"] = 1;
    std::set<int> wanted = one["kept"], found;
    Sampler sampler(options);
    // The rarest that any case keeps has one chance in 700 of each draw: e^-28 to be missed.
    for (int i = 0; i < 20000; ++i)
      found.insert(sampler.next(history, logits));
    EXPECT_EQ(found, wanted) << one["rules"];
  }
}

/// What 4000 draws at temperature 1 give.
static std::set<int> drawn(std::map<std::string, double> rules, const std::vector<float> &logits) {
  rules["temp"] = 1;
  Sampler sampler({rules, 0});
  std::set<int> found;
  for (int i = 0; i < 4000; ++i)
    found.insert(sampler.next({}, logits));
  return found;
}

TEST(Sampling, EpsilonCutoffKeepsProbableTokens) {
  std::vector<float> logits = {0, 3, 2, 2.9f, -1}; // probabilities 0.021, 0.427, 0.157, 0.387, 0.008
  auto kept = [&](std::map<std::string, double> rules) { return drawn(rules, logits); };
  EXPECT_EQ(kept({{"epsilon-cutoff", 0}}), (std::set<int>{0, 1, 2, 3, 4}));
  EXPECT_EQ(kept({{"epsilon-cutoff", 0.02}}), (std::set<int>{0, 1, 2, 3}));
  EXPECT_EQ(kept({{"epsilon-cutoff", 0.1}}), (std::set<int>{1, 2, 3}));
  EXPECT_EQ(kept({{"epsilon-cutoff", 0.4}}), std::set<int>{1});
  EXPECT_EQ(kept({{"epsilon-cutoff", 0.9}}), std::set<int>{1}) << "the likeliest stays";
  // Of two tokens that another rule leaves, both have 0.4.
  EXPECT_EQ(kept({{"top-k", 2}, {"epsilon-cutoff", 0.4}}), (std::set<int>{1, 3}));
}

TEST(Sampling, EtaCutoffFallsWithTheEntropy) {
  std::vector<float> logits = {0, 3, 2, 2.9f, -1}; // probabilities 0.021, 0.427, 0.157, 0.387, 0.008; entropy 1.142
  auto kept = [&](double eta) { return drawn({{"eta-cutoff", eta}}, logits); };
  EXPECT_EQ(kept(0), (std::set<int>{0, 1, 2, 3, 4}));
  EXPECT_EQ(kept(0.02), (std::set<int>{0, 1, 2, 3})) << "0.02, less than 0.141 * e^-1.142";
  EXPECT_EQ(kept(0.2), (std::set<int>{1, 2, 3})) << "0.143: the entropy lets 0.157 in";
  EXPECT_EQ(kept(0.9), (std::set<int>{1, 3})) << "0.303";
  EXPECT_EQ(drawn({{"eta-cutoff", 1}}, {9, 0, 0}), std::set<int>{0}) << "the likeliest stays";
}

TEST(Sampling, PenaltiesCountUses) {
  std::vector<double> logits = {1, 1, 1, -1};
  std::vector<int> history = {0, 1, 1, 3, 3, 3};
  auto adjusted = [&](std::map<std::string, double> rules) {
    std::vector<double> result = logits;
    Sampler({rules, 0}).adjust(history, result);
    return result;
  };
  EXPECT_EQ(adjusted({{"frequency-penalty", 0.5}}), (std::vector<double>{0.5, 0, 1, -2.5}));
  EXPECT_EQ(adjusted({{"presence-penalty", 0.5}}), (std::vector<double>{0.5, 0.5, 1, -1.5}));
  EXPECT_EQ(adjusted({{"presence-penalty", 0.5}, {"frequency-penalty", -1}}), (std::vector<double>{1.5, 2.5, 1, 1.5}));
  EXPECT_EQ(adjusted({{"presence-penalty", 1}, {"repeat-window", 4}}), (std::vector<double>{1, 0, 1, -2}));
  EXPECT_EQ(adjusted({{"repeat-penalty", 2}, {"repeat-window", 1}}), (std::vector<double>{1, 1, 1, -2}));
}

TEST(Sampling, TopNSigmaKeepsTheSameAtAnyTemperature) {
  float inf = __builtin_inff();
  std::vector<double> logits = {0, 3, 2, 1, -1, 1, -inf, NAN}; // of the six that can be: mean 1, variance 5/3
  std::vector<size_t> wanted = {1, 2};                         // 3 - 1.29 is the least
  for (double temperature : {0.1, 1.0, 30.0}) {
    std::vector<double> found = logits;
    Sampler({{{"temp", temperature}, {"top-n-sigma", 1}}, 0}).adjust({}, found);
    std::vector<size_t> kept;
    for (size_t token = 0; token < found.size(); ++token)
      if (std::isfinite(found[token]))
        kept.push_back(token);
    EXPECT_EQ(kept, wanted) << temperature;
  }
  std::vector<float> forbidden(3, -inf), equal = {2, 2, 2};
  Sampler sampler({{{"top-n-sigma", 1}}, 0});
  EXPECT_THROW(sampler.next({}, forbidden), UserError);
  std::set<int> found;
  for (int i = 0; i < 200; ++i)
    found.insert(sampler.next({}, equal));
  EXPECT_EQ(found, (std::set<int>{0, 1, 2}));
}

TEST(Sampling, ABiasCanForbid) {
  std::vector<float> logits = {1, 3, 2};
  SamplerOptions options;
  options.bias = {{1, -INFINITY}};
  EXPECT_EQ(Sampler(options).next({}, logits), 2);
  options.bias = {{0, -INFINITY}, {1, -INFINITY}, {2, -INFINITY}};
  EXPECT_THROW(Sampler(options).next({}, logits), UserError);
  options.rules["temp"] = 1;
  EXPECT_THROW(Sampler(options).next({}, logits), UserError);
}

/// The mean surprise, in bits among the choices that were left, of many draws from a distribution with a long tail.
TEST(Sampling, MirostatKeepsItsSurprise) {
  std::vector<float> logits(5000);
  for (size_t i = 0; i < logits.size(); ++i)
    logits[i] = float(-1.1 * std::log(double(i + 1)));
  double total = 0;
  for (float logit : logits)
    total += std::exp(double(logit));
  for (double target : {2.0, 4.0, 6.0}) {
    Sampler sampler({{{"mirostat", target}, {"mirostat-rate", 0.05}}, 3});
    double limit = 2 * target, seen = 0;
    for (int i = 0; i < 3000; ++i) {
      double kept = 0;
      size_t count = 0;
      auto surprise = [&](size_t token) { return -std::log2(std::exp(double(logits[token])) / total); };
      while (count < logits.size() && (count == 0 || surprise(count) <= limit))
        kept += std::exp(double(logits[count++])) / total;
      size_t token = size_t(sampler.next({}, logits));
      ASSERT_LT(token, count) << "draw " << i;
      double bits = surprise(token) + std::log2(kept);
      limit -= 0.05 * (bits - target);
      seen += bits;
    }
    EXPECT_NEAR(seen / 3000, target, 0.15);
  }
}

} // namespace
} // namespace quern::runtime
