// `chat`: takes what somebody types. Gives: the model's answers, as its chat template has the conversation. What the
// model has read stays read: of each turn only what is new since the last one.
#include "runtime/Error.h"
#include "runtime/cli/Commands.h"
#include "runtime/cli/ProfileReport.h"
#include "runtime/cli/SamplingOptions.h"
#include "runtime/engine/Sequence.h"
#include "runtime/engine/StopRules.h"
#include "runtime/machine/Terminal.h"
#include "runtime/template/ChatTemplate.h"
#include "runtime/tokenizer/text/Unicode.h"
#include "support/Json.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <poll.h>
#include <unistd.h>

namespace quern::runtime {

namespace {

std::atomic<bool> interrupted{false}; // Ctrl-C

/// A JSON file beside the weights; null if there is none.
nlohmann::json readJsonBeside(const Command &command, const Options &options, const char *name) {
  std::optional<std::string> text = command.readBeside(options, name);
  if (!text)
    return nullptr;
  nlohmann::json json = support::parseJson(*text, name);
  if (!json.is_object())
    throw UserError(std::string(name) + " is no JSON object");
  return json;
}

/// "chat_template" of tokenizer_config.json: a text, or a list of named ones of which "default" is meant.
std::string templateIn(const nlohmann::json &config) {
  auto found = config.is_object() ? config.find("chat_template") : config.end();
  if (!config.is_object() || found == config.end())
    return "";
  if (found->is_string())
    return found->get<std::string>();
  if (found->is_array())
    for (const nlohmann::json &one : *found)
      if (one.is_object() && one.value("name", nlohmann::json()) == "default" && one.contains("template") &&
          one["template"].is_string())
        return one["template"].get<std::string>();
  return "";
}

std::string findTemplate(const Command &command, const Options &options, const nlohmann::json &config) {
  if (options.has("--template"))
    return readFile(options.text("--template"), 1 << 20);
  std::string text = command.readBeside(options, "chat_template.jinja").value_or("");
  if (text.empty())
    text = templateIn(config);
  if (text.empty())
    text = templateIn(readJsonBeside(command, options, "chat_template.json"));
  if (text.empty())
    throw UserError("this model has no chat template (chat_template.jinja, or chat_template in tokenizer_config.json, "
                    "beside the weights): 'generate' continues texts, --template FILE gives one");
  return text;
}

/// "bos_token" and the like: texts, or objects with one.
void addSpecialTokens(nlohmann::json &names, const nlohmann::json &config) {
  if (!config.is_object())
    return;
  for (const auto &[name, value] : config.items()) {
    if (name.ends_with("_token") && value.is_string())
      names[name] = value;
    else if (name.ends_with("_token") && value.is_object() && value.contains("content"))
      names[name] = value["content"];
  }
}

std::vector<Options::Known> chatOptions() {
  std::vector<Options::Known> known = {
      weightsOption,
      adapterOption,
      {"--tokenizer", "FILE",
       "tokenizer.json, a .model or .tiktoken file, or a folder with one; else the one in or beside the weights"},
      {"--template", "FILE", "the chat template; else the one in or beside the weights"},
      {"--system", "TEXT", "what the model reads before the conversation"},
      {"-n", "N", "tokens of an answer at most (4096)"}};
  addSamplingOptions(known);
  known.push_back({"--context", "N", "tokens of the conversation at most (the config's length)"});
  known.push_back({"--threads", "N", "threads (all that this process may use)"});
  known.push_back({"-v", nullptr, "the speed of each answer"});
  known.push_back({"--help", nullptr, "this"});
  return known;
}

/// Lines of standard input, which Ctrl-C interrupts.
class Lines {
public:
  enum class End { Line, Input, Interrupt };
  End read(std::string &line) {
    while (true) {
      if (size_t at = pending.find('\n'); at != std::string::npos) {
        line = pending.substr(0, at);
        pending.erase(0, at + 1);
        return End::Line;
      }
      if (pending.size() > 1 << 24)
        throw UserError("a line is longer than 16 MB");
      if (!waitForInput()) {
        pending.clear();
        return End::Interrupt;
      }
      char buffer[4096];
      ssize_t count = ::read(STDIN_FILENO, buffer, sizeof buffer);
      if (count < 0 && errno == EINTR)
        continue;
      if (count < 0)
        throw UserError("cannot read standard input: " + systemMessage(errno));
      if (count == 0) {
        line = std::exchange(pending, "");
        return line.empty() ? End::Input : End::Line;
      }
      pending.append(buffer, size_t(count));
    }
  }

private:
  std::string pending;

  /// False: Ctrl-C. Outside of the wait the signal is held back, so that one between a look at `interrupted` and the
  /// wait is not lost.
  static bool waitForInput() {
    sigset_t held, before;
    sigemptyset(&held);
    sigaddset(&held, SIGINT);
    ::sigprocmask(SIG_BLOCK, &held, &before);
    pollfd input{STDIN_FILENO, POLLIN, 0};
    bool stopped = interrupted.exchange(false);
    while (!stopped && ::ppoll(&input, 1, nullptr, &before) < 0 && errno == EINTR)
      stopped = interrupted.exchange(false);
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    return !stopped;
  }
};

class Chat {
public:
  Chat(const Command &command, const Options &options);
  int run();

private:
  const Options &options;
  Tokenizer tokenizer;
  nlohmann::json names = nlohmann::json::object(); // of the template, with the messages
  ChatTemplate pattern;
  SamplerOptions sampling;
  StopRules stop;
  int64_t context = 0;
  std::unique_ptr<Weights> weights;
  std::optional<Engine> engine;
  std::optional<Sequence> text;
  bool terminal = ::isatty(STDIN_FILENO) && outputIsTerminal();

  void reset();
  bool obey(const std::string &line);
  size_t read(const std::vector<int> &tokens);
  void answer();
};

Chat::Chat(const Command &command, const Options &options)
    : options(options), tokenizer(command.needTokenizer(options)), pattern([&] {
        nlohmann::json config = readJsonBeside(command, options, "tokenizer_config.json");
        addSpecialTokens(names, config);
        return ChatTemplate(findTemplate(command, options, config));
      }()),
      sampling(samplerOptions(options)) {
  const nlohmann::json &config = command.program.description.fileConfig;
  nlohmann::json generation = readGenerationConfig(command, options);
  addRecommended(sampling, generation);
  Sampler check(sampling); // refuses before gigabytes of weights are touched
  stop.most = options.integer("-n", 4096, 1, INT32_MAX);
  stop.ends = idsOf(config, "eos_token_id");
  stop.ends.merge(idsOf(generation, "eos_token_id"));
  if (auto end = names.find("eos_token"); end != names.end() && end->is_string())
    if (int token = tokenizer.findToken(end->get<std::string>()); token >= 0)
      stop.ends.insert(token);
  context = options.integer("--context", statedContext(config), 1, INT32_MAX);
  weights = command.openWeights(options);
  engine.emplace(command.program, *weights);
  if (engine->functions().hasSource())
    throw UserError("this model reads a source and writes another text: use 'generate'");
  if (engine->longest() < INT64_MAX)
    context = context > 0 ? std::min(context, engine->longest()) : engine->longest();
  names["add_generation_prompt"] = true;
  reset();
}

/// A new conversation. What was read of the old one is kept as far as it is the new one's beginning.
void Chat::reset() {
  names["messages"] = nlohmann::json::array();
  if (options.has("--system"))
    names["messages"].push_back({{"role", "system"}, {"content", repairUtf8(options.text("--system"))}});
  if (!text) {
    Sequence::Options how;
    how.sampling = sampling;
    how.room = context > 0 ? std::min<int64_t>(context, 1024) : 1024;
    text.emplace(*engine, how);
  }
}

/// Lines that begin with a slash: false where the chat ends.
bool Chat::obey(const std::string &line) {
  if (line == "/exit" || line == "/quit")
    return false;
  if (line == "/reset")
    reset();
  else
    printNote((line == "/help" ? "" : "there is no " + quote(line) + "; ") +
              "/reset begins anew, /exit ends; Ctrl-C stops an answer; a \\ at the end of a line continues it");
  return true;
}

/// Makes the text these tokens: only what differs from what has been read is read. Gives how many that are.
size_t Chat::read(const std::vector<int> &tokens) {
  if (context > 0 && int64_t(tokens.size()) >= context)
    throw UserError(format("the conversation has %zu tokens, and the model's context is %lld; /reset begins anew",
                           tokens.size(), static_cast<long long>(context)));
  for (int token : tokens)
    if (token >= engine->tokenBound())
      throw UserError(format("the tokenizer's token %d is unknown to the model: do they belong together?", token));
  size_t same = 0;
  while (same < std::min(tokens.size(), text->tokens().size()) && tokens[same] == text->tokens()[same])
    ++same;
  text->truncate(same);
  text->append(std::vector<int>(tokens.begin() + std::ptrdiff_t(same), tokens.end()));
  return tokens.size() - same;
}

void Chat::answer() {
  std::vector<int> tokens = tokenizer.encode(pattern.render(names), false);
  if (tokens.empty())
    throw UserError("the chat template makes an empty text");
  size_t fresh = read(tokens);
  double begin = now(), first = begin;
  StopCheck check(stop, &tokenizer, tokens);
  std::string said;
  int64_t count = 0;
  auto show = [&](const std::string &piece) {
    said += piece;
    writeOutput(piece);
  };
  interrupted = false;
  while (!check.done() && !interrupted && text->hasRoom() &&
         (context == 0 || int64_t(text->tokens().size()) < context)) {
    show(check.push(text->choose()));
    if (++count == 1)
      first = now();
  }
  show(check.finish());
  writeOutput("\n");
  if (interrupted.exchange(false))
    printNote("stopped");
  else if (!check.done())
    printNote("the context is full; /reset begins anew");
  else if (check.reason() == Stop::Length)
    printNote(format("stopped after %lld tokens; -n N allows more", static_cast<long long>(count)));
  names["messages"].push_back({{"role", "assistant"}, {"content", said}});
  if (options.has("-v") && count > 0)
    printNote(format("%zu tokens read, %lld written, %.1f a second; the first after %.0f ms", fresh,
                     static_cast<long long>(count), double(count - 1) / std::max(now() - first, 1e-9),
                     1000 * (first - begin)));
}

int Chat::run() {
  if (terminal)
    printNote("/help lists the other commands; Ctrl-D ends");
  Lines lines;
  std::string message, line;
  bool once = false; // Ctrl-C was pressed here before
  while (true) {
    if (terminal)
      writeOutput(message.empty() ? "> " : "  ");
    Lines::End end = lines.read(line);
    if (end == Lines::End::Input || (end == Lines::End::Interrupt && once))
      break;
    once = end == Lines::End::Interrupt;
    if (once) {
      message.clear();
      writeOutput("\n");
      printNote("Ctrl-C again, Ctrl-D or /exit ends");
      continue;
    }
    if (!line.empty() && line.back() == '\\') {
      message += line.substr(0, line.size() - 1) + "\n";
      continue;
    }
    message += line;
    if (message.empty())
      continue;
    if (message[0] == '/' && message.find('\n') == std::string::npos) {
      if (!obey(message))
        return 0;
    } else {
      names["messages"].push_back({{"role", "user"}, {"content", repairUtf8(message)}});
      try {
        answer();
      } catch (const UserError &error) { // the conversation stays as it was
        names["messages"].erase(names["messages"].size() - 1);
        if (!terminal)
          throw;
        printError(error.what());
      }
    }
    message.clear();
  }
  if (terminal)
    writeOutput("\n");
  return 0;
}

} // namespace

int chatCommand(const Command &command) {
  Options options("chat", withProfileOptions(chatOptions()));
  options.parse(command.arguments);
  if (options.has("--help")) {
    writeOutput(options.usage("PROGRAM"));
    return 0;
  }
  TextFunctions::find(command.program.description, true); // before gigabytes of weights are touched
  configureThreads(options);
  struct sigaction action = {};
  action.sa_handler = [](int) { interrupted = true; };
  ::sigaction(SIGINT, &action, nullptr); // without SA_RESTART: a line that is being read ends
  ProfileReport report(options, command.program.description);
  return report.finish(Chat(command, options).run());
}

} // namespace quern::runtime
