// Chat templates against Jinja as transformers sets it up (tests/data/templates.json), and templates of strangers.
#include "runtime/Error.h"
#include "runtime/template/ChatTemplate.h"
#include "tests/runtime/TestData.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <optional>
#include <random>

namespace quern::runtime {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

std::optional<std::string> rendered(const std::string &text, const Json &names, std::string *message = nullptr) {
  try {
    return ChatTemplate(text).render(names);
  } catch (const UserError &error) {
    if (message)
      *message = error.what();
    return std::nullopt;
  }
}

TEST(Templates, GiveWhatTransformersGives) {
  Json all = test::readJson(test::dataPath("templates.json"));
  EXPECT_GT(all["cases"].size(), 70u);
  for (const Json &one : all["cases"]) {
    std::string text = one["template"], message;
    std::optional<std::string> found = rendered(text, all["names"][one["names"].get<size_t>()], &message);
    if (one["result"].is_null())
      EXPECT_FALSE(found) << text << "\ngave: " << *found;
    else
      EXPECT_EQ(found.value_or("(error) " + message), one["result"].get<std::string>()) << text;
  }
}

TEST(Templates, MessagesNameTheLine) {
  std::string message;
  EXPECT_FALSE(rendered("a\n{% if true %}\nb", {}, &message));
  EXPECT_THAT(message, HasSubstr("endif"));
  EXPECT_FALSE(rendered("a\n\n{{ 1 + 'x' }}", {}, &message));
  EXPECT_THAT(message, HasSubstr("line 3"));
  EXPECT_FALSE(rendered("{{ raise_exception('only two roles') }}", {}, &message));
  EXPECT_THAT(message, HasSubstr("only two roles"));
  EXPECT_FALSE(rendered("{{ nobody.name }}", {}, &message));
  EXPECT_THAT(message, HasSubstr("nobody"));
}

TEST(Templates, TellTheDate) {
  char wanted[100];
  std::time_t now = std::time(nullptr);
  std::strftime(wanted, sizeof wanted, "%d %b %Y, %A %B %j %y %H %a %-d %%", std::gmtime(&now));
  EXPECT_EQ(rendered("{{ strftime_now('%d %b %Y, %A %B %j %y %H %a %-d %%') }}", Json::object()), wanted);
  EXPECT_FALSE(rendered("{{ strftime_now('%Q') }}", Json::object()));
}

/// Templates that would take for ever, all memory, or the whole stack: an error.
TEST(Templates, AreBounded) {
  std::string deep(100000, '('), lists = "{{ ", blocks, chain = "{{ a";
  for (int i = 0; i < 100000; ++i) {
    lists += "[";
    blocks += "{% if 1 %}";
    chain += ".b";
  }
  for (const std::string &text :
       {std::string("{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}{% "
                    "endfor %}{% endfor %}"),
        std::string("{{ range(999999999) }}"),
        std::string(
            "{% set x = 'aaaaaaaa' %}{% for i in range(60) %}{% set x = x ~ x %}{{ x }}{% endfor %}"
            "{% set n = namespace(x='aaaaaaaa') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}"),
        std::string("{{ 'a' * 9999999999 }}"),
        std::string("{% set n = namespace(x=[1]) %}{% for i in range(60) %}{% set n.x = n.x + n.x %}{% endfor %}"),
        std::string("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"),
        std::string(
            "{% set n = namespace(x=[]) %}{% for i in range(3000) %}{% set n.x = [n.x] %}{% endfor %}{{ n.x }}"),
        std::string("{{ ('a' * 100000).replace('a', 'b' * 100000) }}"), std::string("{{ 9 ** 9 ** 9 }}"),
        std::string("{{ 9223372036854775807 + 1 }}"), std::string("{{ -9223372036854775807 * 9 }}"), "{{ " + deep,
        lists, blocks, chain + " }}"})
    EXPECT_FALSE(rendered(text, {})) << text.substr(0, 80);
}

TEST(Templates, SurviveDamage) {
  Json all = test::readJson(test::dataPath("templates.json"));
  std::mt19937 random(5);
  for (int round = 0; round < 1000; ++round) {
    const Json &one = all["cases"][random() % all["cases"].size()];
    std::string text = one["template"];
    for (unsigned i = 0, count = 1 + random() % 4; i < count && !text.empty(); ++i) {
      size_t at = random() % text.size();
      switch (random() % 3) {
      case 0:
        text.resize(at);
        break;
      case 1:
        text[at] = char(random());
        break;
      default:
        text.insert(at, text.substr(random() % text.size(), random() % 20));
      }
    }
    rendered(text, all["names"][one["names"].get<size_t>()]); // gives something or an error
  }
}

} // namespace
} // namespace quern::runtime
