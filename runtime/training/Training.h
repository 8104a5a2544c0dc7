// What the compiler says of training (the description's `training`), and what every use of the loss needs.
#ifndef QUERN_RUNTIME_TRAINING_TRAINING_H
#define QUERN_RUNTIME_TRAINING_TRAINING_H

#include "runtime/cli/Commands.h"

namespace quern::runtime {

struct Training {
  int function = -1; ///< the loss, then the gradients
  int loss = -1;     ///< the loss alone
  bool nextToken = false;
  struct Gradient {
    std::string output;
    std::vector<size_t> parameters; ///< whose gradients are in it, one after the other
  };
  std::vector<Gradient> gradients;
};

Training readTraining(const Program &program);

/// The loss's input of that name; UserError, with what it takes, if a file names another.
const TensorInfo &lossInput(const std::string &path, const Description &description, const FunctionInfo &function,
                            const std::string &name);

/// Without labels a text is its own: position t predicts token t + 1.
void shiftToNextToken(Values &inputs, const FunctionInfo &function);

/// Throws UserError for texts longer than some table of the model; limits are known for the functions that the loss is
/// made of.
void checkLength(const Session &session, int function, const Values &inputs);
/// The longest text that no table forbids.
int64_t longestTraining(const Description &description);

/// How many positions the loss is the mean of: labels that are not -100; 1 where the loss has no labels.
double countLabels(const Values &inputs);

int gradCommand(const Command &command);
int trainCommand(const Command &command);

} // namespace quern::runtime
#endif
