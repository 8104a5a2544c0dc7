// `pack`: takes a checkpoint. Gives: a folder with the weights as this program's kernels read them, and what goes with them.
#include "runtime/Error.h"
#include "runtime/cli/Commands.h"
#include "runtime/machine/Terminal.h"
#include "runtime/tokenizer/files/VocabularyFiles.h"
#include "support/CheckpointFiles.h"
#include "support/OutputFile.h"

#include <cerrno>
#include <sys/stat.h>

namespace quern::runtime {

int packCommand(const Command &command) {
  Options options("pack", {weightsOption,
                           adapterOption,
                           {"-o", "FOLDER", "the folder to write; other commands take it as --weights"},
                           {"--threads", "N", "threads (all that this process may use)"},
                           {"--help", nullptr, "this"}});
  options.parse(command.arguments);
  if (options.has("--help")) {
    writeOutput(options.usage("PROGRAM"));
    return 0;
  }
  if (!options.has("-o"))
    throw UserError("pack needs -o FOLDER, where the packed weights go");
  configureThreads(options);
  const std::string folder = options.text("-o"), file = folder + "/model.safetensors";
  std::unique_ptr<Weights> weights = command.openWeights(options);
  if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST)
    throw UserError("cannot make the folder " + folder + ": " + systemMessage(errno));
  if (fileExists(file) && !isPacked(*TensorSource::open(file)))
    throw UserError(file + " is a checkpoint, which packed weights would overwrite; choose another folder");
  for (const char *name : support::filesBesideWeights)
    if (std::optional<std::string> text = command.readBeside(options, name)) {
      OutputFile out(folder + "/" + name);
      out.write(*text);
      out.commit();
    }
  if (!command.readBeside(options, "tokenizer.json")) // another vocabulary goes along as what it means
    if (std::optional<TokenizerText> text =
            findTokenizer([&](auto &name) { return command.readBeside(options, name); })) {
      OutputFile out(folder + "/tokenizer.json");
      out.write(text->json);
      out.commit();
    }
  writePacked(file, weights->pieces());
  writeOutput(format("%s: %.1f MB\n", file.c_str(), double(weights->totalBytes()) / 1e6));
  return 0;
}

} // namespace quern::runtime
