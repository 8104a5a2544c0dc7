// `quern tokenizer train`: takes texts. Gives: a tokenizer.json for models that are to be trained.
#include "tools/cli/Commands.h"

#include "runtime/tokenizer/model/TrainBpe.h"
#include "runtime/weights/Checkpoint.h"
#include "support/OutputFile.h"

#include <boost/program_options.hpp>
#include <nlohmann/json.hpp>

#include <iostream>

namespace po = boost::program_options;

int quern::tools::tokenizerCommand(const Arguments &arguments) {
  std::vector<std::string> words, special;
  std::string output;
  size_t size = 0;
  int64_t least = 0;
  po::options_description options("options");
  options.add_options()("help,h", "this")("vocabulary", po::value(&size)->default_value(4096),
                                          "tokens at most, with the 256 bytes")(
      "special", po::value(&special), "a token that no text is cut into, as <|endoftext|> (may be given again)")(
      "least", po::value(&least)->default_value(2), "how often a pair must occur to become a token")(
      "output,o", po::value(&output)->default_value("tokenizer.json"), "where it goes")("words", po::value(&words), "");
  po::positional_options_description positions;
  positions.add("words", -1);
  po::variables_map map;
  po::store(po::command_line_parser(arguments).options(options).positional(positions).run(), map);
  po::notify(map);
  if (map.count("help")) {
    std::cout << "usage: quern tokenizer train TEXT... [--vocabulary N] [--special TOKEN] [-o FILE]\n"
                 "A byte-level byte-pair encoding of the texts, as a tokenizer.json.\n\n"
                 "  --vocabulary N   tokens at most, with the 256 bytes (4096)\n"
                 "  --special TOKEN  one that texts may contain and that is never cut, as <|endoftext|> (may be given "
                 "again)\n"
                 "  --least N        how often a pair must occur to become a token (2)\n"
                 "  -o FILE          where it goes (tokenizer.json)\n";
    return 0;
  }
  if (words.empty() || words[0] != "train")
    throw std::runtime_error("there is one thing to do: quern tokenizer train TEXT... [--vocabulary N] [-o FILE]");
  if (words.size() < 2)
    throw std::runtime_error("no text to learn from: quern tokenizer train TEXT...");
  if (size > (1 << 24))
    throw std::runtime_error("--vocabulary is at most 16777216");
  std::vector<std::string> texts;
  size_t bytes = 0;
  for (size_t i = 1; i < words.size(); ++i) {
    texts.push_back(support::readFile(words[i], uint64_t(1) << 36));
    if (texts.back().empty())
      throw std::runtime_error(words[i] + " is empty: there is nothing to learn from");
    bytes += texts.back().size();
  }
  std::string json = runtime::trainBpe({texts.begin(), texts.end()}, size, special, std::max<int64_t>(1, least));
  support::writeFile(output, json);
  size_t made = nlohmann::json::parse(json)["model"]["vocab"].size();
  std::cerr << output << ": " << made << " tokens from " << bytes << " bytes of text\n";
  if (made < size)
    std::cerr << "warning: fewer than --vocabulary " << size << ": no other pair occurs " << std::max<int64_t>(1, least)
              << " times in so short a text\n";
  return 0;
}
