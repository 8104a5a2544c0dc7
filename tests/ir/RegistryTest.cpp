// What every operation of the dialect must have: a summary, its three interfaces, a test of its text, a test of each of
// its constraints. Adding an operation without them fails here.
#include "tests/ir/Support.h"

#include "ir/Attributes.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

using namespace quern::ir;
using namespace quern::ir::test;

namespace {

std::filesystem::path source() {
  const char *root = std::getenv("QUERN_SOURCE");
  EXPECT_TRUE(root) << "run by ctest, or set QUERN_SOURCE to the checkout";
  return root ? root : ".";
}

/// All files of a folder whose name has `prefix` and `suffix`, one after the other.
std::string read(const char *folder, const std::string &prefix, const std::string &suffix) {
  std::string text;
  for (const auto &entry : std::filesystem::directory_iterator(source() / folder)) {
    std::string name = entry.path().filename().string();
    if (name.rfind(prefix, 0) == 0 && name.size() > suffix.size() && name.substr(name.size() - suffix.size()) == suffix)
      text += std::string(std::istreambuf_iterator<char>(std::ifstream(entry.path()).rdbuf()), {});
  }
  EXPECT_FALSE(text.empty()) << folder;
  return text;
}

std::vector<mlir::RegisteredOperationName> operations(Module &m) {
  std::vector<mlir::RegisteredOperationName> found;
  for (mlir::RegisteredOperationName name : m.context.getRegisteredOperations())
    if (name.getDialectNamespace() == "quern")
      found.push_back(name);
  return found;
}

TEST(Registry, EveryOperationHasItsInterfaces) {
  Module m("");
  EXPECT_GT(operations(m).size(), 50u);
  for (mlir::RegisteredOperationName name : operations(m)) {
    EXPECT_TRUE(name.hasInterface<ReferenceOpInterface>()) << name.getStringRef().str() << ": no reference evaluation";
    EXPECT_TRUE(name.hasInterface<CostOpInterface>()) << name.getStringRef().str() << ": no cost";
    EXPECT_TRUE(name.hasInterface<TimeOpInterface>()) << name.getStringRef().str() << ": no time behaviour";
  }
}

TEST(Registry, EveryOperationIsWrittenAndReadInSomeTest) {
  Module m("");
  std::string tests = read("tests/lit/ir", "roundtrip-", ".mlir");
  for (mlir::RegisteredOperationName name : operations(m))
    EXPECT_TRUE(std::regex_search(tests, std::regex("CHECK: .*" + name.getStringRef().str() + "\\b")))
        << name.getStringRef().str() << " is in no tests/lit/ir/roundtrip-*.mlir";
}

TEST(Registry, EveryOperationIsEvaluatedInSomeTest) {
  Module m("");
  std::string tests = read("tests/ir", "Interpreter", ".cpp");
  for (mlir::RegisteredOperationName name : operations(m)) {
    // The tests write `quern.add`, or the mnemonic in quotes where a helper adds the dialect.
    std::string mnemonic = name.getStringRef().drop_front(6).str();
    EXPECT_TRUE(std::regex_search(tests, std::regex("(quern\\.|\")" + mnemonic + "\\b"))) << mnemonic;
  }
}

TEST(Registry, EveryLabelledConstraintHasANegativeTest) {
  std::string tests = read("tests/lit/ir", "invalid-", ".mlir"),
              code = read("ir", "", ".cpp") + read("ir/rules", "", ".cpp");
  std::regex label("\\b[a-z_0-9]+_c[0-9]+\\b");
  std::set<std::string> labels;
  for (std::sregex_iterator it(code.begin(), code.end(), label), end; it != end; ++it)
    labels.insert(it->str());
  EXPECT_GT(labels.size(), 40u);
  for (const std::string &name : labels)
    EXPECT_NE(tests.find("{{" + name + "}}"), std::string::npos) << name;
}

/// Passes, frontend, codegen and tools write and read discardable attributes; the verifier knows each of them, and
/// each has a test of its text.
TEST(Registry, EveryDiscardableAttributeHasAVerifier) {
  Module m("");
  std::vector<std::string> known;
  for (llvm::StringRef name : discardableAttributes())
    known.push_back(name.str());
  std::regex quoted("\"(quern\\.[a-z_][a-z_]+)\""); // quern.h is a file
  for (const char *room : {"ir", "frontend", "passes", "codegen", "tools"})
    for (const auto &entry : std::filesystem::recursive_directory_iterator(source() / room)) {
      std::string suffix = entry.path().extension().string();
      if (suffix != ".cpp" && suffix != ".h")
        continue;
      std::string text(std::istreambuf_iterator<char>(std::ifstream(entry.path()).rdbuf()), {});
      for (std::sregex_iterator it(text.begin(), text.end(), quoted), end; it != end; ++it) {
        std::string name = (*it)[1];
        EXPECT_TRUE(std::find(known.begin(), known.end(), name) != known.end() || m.context.isOperationRegistered(name))
            << name << " in " << entry.path() << " is neither an operation nor in the table of ir/Attributes.cpp";
      }
    }
  std::string tests = read("tests/lit/ir", "roundtrip-", ".mlir");
  for (const std::string &name : known)
    EXPECT_NE(tests.find(name), std::string::npos) << name << " is in no tests/lit/ir/roundtrip-*.mlir";
}

TEST(Registry, EveryOperationIsDescribed) {
  Module m("");
  std::string definitions = read("ir", "", ".td");
  for (mlir::RegisteredOperationName name : operations(m)) {
    std::string quoted = "\"" + name.getStringRef().drop_front(6).str() + "\"";
    size_t at = definitions.find(quoted);
    ASSERT_NE(at, std::string::npos) << quoted;
    // The families give the summary as the second argument, the others as a field.
    std::string rest = definitions.substr(at + quoted.size(), 200);
    EXPECT_TRUE(rest.rfind(", \"", 0) == 0 || rest.find("let summary") != std::string::npos) << quoted;
  }
}

} // namespace
