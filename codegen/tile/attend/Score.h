// What a tile program evaluates for each row and key: a score without what need not be computed there.
#ifndef QUERN_CODEGEN_TILE_ATTEND_SCORE_H
#define QUERN_CODEGEN_TILE_ATTEND_SCORE_H

#include "codegen/tile/Program.h"

namespace quern::codegen::tile {

/// Of an attention whose bounds are known sets `score` (-1: there is no softmax), `scale` and what is `whole`.
void setScore(Values &values, int score, Attend &attend);

} // namespace quern::codegen::tile
#endif
