// From a kernel's graph to a scheduled Halide pipeline.
//
// Values are index functions: asked for an element by positions along named dimensions, they answer with an expression.
// Elementwise and shape operations are only that. What combines positions (and what is expensive and needed repeatedly)
// becomes a stage, a Func of its own.
#ifndef QUERN_CODEGEN_HALIDE_KERNELBUILDER_H
#define QUERN_CODEGEN_HALIDE_KERNELBUILDER_H

#include "codegen/halide/Family.h"
#include "codegen/halide/lowered/AskBesideSums.h"
#include "codegen/halide/lowered/FetchAhead.h"
#include "codegen/halide/lowered/FetchNext.h"
#include "codegen/halide/lowered/TurnWords.h"
#include "codegen/halide/words/TileProducts.h"
#include "codegen/kernel/KernelMatch.h"
#include "codegen/kernel/KernelPlan.h"
#include "codegen/kernel/Storage.h"

#include <Halide.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace quern::codegen {

using Halide::Expr;
using Halide::Func;
using Halide::RVar;
using Halide::Var;

/// Of the parameters that are lengths, apart from the names of loops.
inline constexpr char lengthPrefix[] = "length_";

/// Positions along named dimensions.
using Index = std::map<std::string, Expr>;

/// A Func with what scheduling it needs to know.
struct Stage {
  Func func;
  std::vector<Dim> dims;                 ///< outermost first; the Func's arguments are these reversed
  std::vector<std::vector<RVar>> over{}; ///< per update definition its reduction variables, innermost first
  bool vectorOver = false;               ///< updates are vectorised along their first reduction variable (concat)
  std::vector<Func> lanes{};             ///< partial sums, on a device the sum itself, that only this stage reads
  bool scheduled = false;                ///< a family did it
  int node = -1;                         ///< whose value it holds
  bool scattered = false;                ///< its update writes anywhere: it is computed whole
  bool oneByOne = false;                 ///< an element at a time: what it adds up is in vectors
};

/// Rows that a kernel quantises: groups of numbers along their depth become codes and a scale.
struct CodedRows {
  std::vector<Dim> dims, groups; ///< with a depth of whole groups; with groups in place of the depth
  int group;                     ///< codes that share a scale
  int ofPair;                    ///< what the magnitudes of two neighbours come to at most
  Func codes, wide; ///< int8 over `dims`, 0 beyond the row's end; the same in int16, where something reads that
  Func scale;       ///< f32 over `groups`
  /// By length, where something reads them: sums of so many codes (int32); times the scale; in f32.
  std::map<int, Func> sums, shares, counts;
  std::map<std::pair<int, int>, Func> starts; ///< by length and a factor, which these sums are subtracted times
};

struct BuiltKernel {
  Halide::Pipeline pipeline;
  std::vector<Halide::Argument> arguments;
  std::string halide; ///< the features that it may use, as CpuTarget::halide
};

class KernelBuilder {
public:
  /// `plan`: checked, of what `matchKernel` finds in the graph. All four must outlive the builder.
  KernelBuilder(const KernelGraph &graph, const KernelPlan &plan, const CpuTarget &target,
                const KernelFamilies &families);
  BuiltKernel build();

  // What families and schedulers build with.

  /// `define` gives the node its value, as soon as all that it is computed from is defined. `inside`: nodes that it computes
  /// where it needs them.
  void take(int node, std::function<void()> define, const std::vector<int> &inside = {});

  /// The numbers of the part that stands at a node, or of what remains (`row`, `map`).
  const PlanPart &part(int node) const;
  const PlanPart &part(const std::string &family) const;

  // Values
  Expr at(int node, const Index &index);
  Expr real(int node, const Index &index);
  /// `wide`: in 64 bits. Of two conditions that ask for one product of lengths, Halide lifts the product out, and then sees conditions
  /// that depend on the loops.
  Expr extent(const ir::Size &size, bool wide = false) const;
  static Var var(const std::string &dim);
  static Index varsOf(const std::vector<Dim> &dims);
  static std::vector<Expr> call(const std::vector<Dim> &dims, const Index &index);
  static std::vector<Var> pureArgs(const std::vector<Dim> &dims);
  /// Of a packed argument that has no codes, as memory holds it. `args`: the column in its tile, the depth, the tile, others.
  Expr packedNumber(int argument, std::vector<Expr> args) const;
  /// A value as memory of a storage holds it.
  static Expr stored(const Expr &value, Storage storage) {
    if (bitsOfCode(storage))
      throw std::logic_error("a kernel stores codes");
    return Halide::cast(storedType(storage), value);
  }

  // Index functions (BuildElementwise.cpp, BuildShape.cpp)
  Expr elementwise(const Node &node, const Index &index);
  Expr shape(const Node &node, const Index &index);
  Expr constants(int node, const Index &index);

  // Stages (BuildStages.cpp, BuildReduce.cpp, BuildCodes.cpp)
  Func newFunc(const std::string &what, int node);
  int addStage(Stage stage);
  void readFrom(int node, Func func) { readFrom(node, std::move(func), graph.nodes[node].dims); }
  void readFrom(int node, Func func, std::vector<Dim> dims); ///< whose arguments are `dims`, innermost first
  void materialize(int node);
  bool wantsStage(int node) const;
  const CodedRows *codedRows(int node) const;
  Func wideCodes(int node);
  /// Of rows that a node dequantises, for each `length` codes of a group: `-added` times their sum, what
  /// the sum stands for, and the sum in f32.
  Func startsOfSums(int node, int length, int added);
  Func sharesOfRows(int node, int length);
  Func countsOfRows(int node, int length);
  bool multipliesIntegers(const ContractionPattern &pattern) const;
  bool multipliesPairs(const ContractionPattern &pattern) const;
  /// Combines `body` over dims: the value per kept position. Max and min keep infinities.
  Func reduceOver(const std::string &what, int node, const std::vector<Dim> &kept, const std::vector<Dim> &over,
                  Kind kind, Reduction reduction, const std::function<Expr(const Index &)> &body);
  /// What the first argument of a Func, so many lanes, comes to: by halves, which are vectors as long as they can be. Adds the
  /// halves to `halves`; they are to be computed where the result is.
  Expr foldLanes(const Func &lanes, int count, const std::function<Expr(const Expr &, const Expr &)> &combine,
                 std::vector<Func> &halves) const;
  /// The sum of `body` over dims of known lengths, computed where it is used.
  void writeOut(int node, const std::vector<Dim> &over, std::function<Expr(const Index &)> body);
  static Expr identity(Reduction reduction, Kind kind);
  static Expr combine(Reduction reduction, const Expr &a, const Expr &b);
  int sourceOf(int node) const; ///< by the first operands: the argument that a view shows
  /// In the update of `func`, so many bytes ahead (0: not at all): of the argument that a node is read from, if it is one's; of a
  /// copy.
  void fetchAhead(const Func &func, int node, int bytes);
  void fetchAhead(const Func &func, const Func &copy, int bytes);
  /// Where `func` copies rows, `each` of them in an iteration of its loop `row`: of a later row of the same.
  void fetchRowsAhead(const Func &func, const Var &row, int node, int each = 1);
  /// Of a tile of rows, whose columns are those of the argument that a node is read from, if it is one's.
  void askBesideSums(const Func &sums, int node);
  /// A copy of columns of the argument that a node is read from, if it is one's.
  void fetchNext(FetchedNext strip, int node);
  /// Loops of the update of `func`, which are serial in its schedule (lowered/UnrollLast.h).
  void unrollLast(const Func &func, const std::vector<Halide::VarOrRVar> &loops) {
    for (const Halide::VarOrRVar &loop : loops)
      unrolledLast.push_back(func.name() + ".s1." + loop.name());
  }
  bool onDevice() const { return !target.device.empty(); }
  /// Lets a family schedule a result; false if another already does.
  bool fusedInto(int result, std::function<void(Stage &)> schedule) {
    return fused.emplace(result, std::move(schedule)).second;
  }

  const KernelGraph &graph;
  const KernelPlan &plan;
  const CpuTarget &target;
  KernelMatch match;
  std::vector<std::vector<int>> users;
  std::vector<Halide::ImageParam> arguments;
  std::vector<std::function<Expr(const Index &)>> values;
  std::vector<std::vector<std::pair<std::vector<Expr>, Expr>>> memo;
  std::vector<char> isStage;
  std::vector<Stage> stages;
  std::vector<Stage> outputs;
  std::map<int, std::function<void(Stage &)>> fused;
  std::map<int, std::function<void(Stage &)>> written; ///< results of which a family also defines what is stored
  std::vector<int> prologues;                          ///< nodes that are made for a contraction: norms
  bool integers = false;                               ///< whether products of integers are made
  bool routes = false;                                 ///< whether rows are routed to experts: loops ask what has some
  std::vector<TileSums> tileSums;                      ///< by AMX's registers
  std::vector<TurnedWords> turnedWords;                ///< rows for columns
  std::vector<FetchedAhead> fetchedAhead;              ///< lines of memory that single rows read
  std::vector<FetchedNext> fetchedNext;                ///< and those that copies of columns will
  std::vector<SumsOfTile> besideSums;                  ///< and those that tiles store to, and later tasks read

private:
  // Arguments and results (KernelBuilder.cpp)
  void declareArguments();
  void define(int node);
  void output(size_t result);
  bool storesTogether() const;
  void outputTogether();
  void describe(Halide::OutputImageParam buffer, size_t result, bool besides = false) const;
  Expr readArgument(int node, const Index &index);
  static Expr loaded(const Expr &value, Storage storage) {
    return storage == Storage::U8 ? value != Halide::cast<uint8_t>(0) : value;
  }

  bool writtenByParts(int node) const;
  void defineConcat(int node);
  void writeConcat(const Node &node, Stage &stage);
  void defineReduce(int node);
  void defineSoftmax(int node);
  void defineArgmax(int node);
  void defineTopK(int node);
  void defineCumsum(int node);
  void defineQuantize(int node);
  Func sumsOfCodes(int node, int length);
  Func ofSums(const char *name, int node, int length, const std::function<Expr(const Expr &, const Index &)> &value);
  void defineScatterAdd(int node);
  std::vector<RVar> scatterInto(Func &sums, int node);
  void findScatteredResults();
  struct DeviceSum { ///< what all its launches have in common
    std::string what;
    int node;
    Expr first;
    std::function<Expr(const Expr &, const Expr &)> combine;
    bool along; ///< memory runs along what is summed
    bool ofParts = false;
  };
  /// `reduceOver` on a device (gpu/SumInParts.cpp).
  Func sumInParts(const DeviceSum &sum, const std::vector<Dim> &kept, const std::vector<Dim> &over,
                  const std::function<Expr(const Index &)> &body);
  void computeCosts();

  const KernelFamilies &families;
  std::vector<std::string> unrolledLast;
  std::vector<std::function<void()>> taken; ///< by nodes; empty: the general way
  std::map<std::string, Halide::Param<int32_t>> symbols;
  std::vector<int> cost;                            ///< of one element, with everything that is computed along with it
  std::vector<char> inlineOnly;                     ///< a family computes them where it needs them
  std::map<int, std::pair<int, int>> scatteredInto; ///< result: what it is first, and the scatter that is added to it
  int current = 0;                                  ///< the node that is being defined
  std::map<int, Halide::Buffer<float>> tables;
  std::map<int, CodedRows> coded; ///< by their `quantize`
};

} // namespace quern::codegen
#endif
