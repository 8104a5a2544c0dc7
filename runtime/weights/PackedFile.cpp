// Takes: pieces of laid out weights. Gives: the file that PackedFile.h describes, and its pieces back.
#include "runtime/weights/PackedFile.h"

#include "runtime/Error.h"

#include <cstring>

namespace quern::runtime {

static constexpr char mark[] = "quern.packed";
static constexpr uint32_t version = 2;
static constexpr uint64_t alignment = 64;

static std::string layoutName(const WeightLayout &layout) {
  if (std::holds_alternative<DenseLayout>(layout))
    return "dense f32";
  if (const auto *narrow = std::get_if<NarrowLayout>(&layout))
    return std::string("dense ") + support::storageName(narrow->storage);
  const auto &packed = std::get<PackedLayout>(layout);
  auto number = [](int64_t n) { return std::to_string(n); };
  return std::string("packed ") + support::storageName(packed.storage) + " tile " + number(packed.tile) + " of [" +
         number(packed.outer) + ", " + number(packed.inner) + "], strides " + number(packed.outerStride) + " " +
         number(packed.innerStride) + (packed.offset ? " from " + number(packed.offset) : "") +
         (packed.beside > 1 ? ", " + number(packed.beside) + " beside each other" : "");
}

std::string pieceName(const Description &description, const std::vector<int> &parameters,
                      const std::vector<WeightLayout> &layouts) {
  std::string name;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (i < layouts.size())
      name += (i ? " + " : "") + layoutName(layouts[i]) + ": ";
    else
      name += ", ";
    name += description.parameters[size_t(parameters[i])].names[0];
  }
  return name;
}

bool isPacked(const TensorSource &source) {
  const StoredTensor *found = source.find(mark);
  return found && found->dtype == Dtype::U8;
}

const void *packedPiece(const TensorSource &source, const std::string &name, uint64_t bytes) {
  const StoredTensor *marked = source.find(mark), *found = source.find(name);
  uint32_t stored = 0;
  if (marked && marked->bytes == sizeof stored)
    std::memcpy(&stored, marked->data, sizeof stored);
  if (stored != version)
    throw UserError(source.path() +
                    " was packed by another version of Quern; pack it again: PROGRAM pack --weights CHECKPOINT");
  if (!found || found->dtype != Dtype::U8 || found->bytes != bytes || uintptr_t(found->data) % alignment)
    throw UserError(source.path() + " was packed for a program with other layouts: it has no " + quote(name) +
                    "; pack the checkpoint for this program: PROGRAM pack --weights CHECKPOINT -o FOLDER");
  return found->data;
}

void writePacked(const std::string &path, const std::vector<WeightPiece> &pieces) {
  static constexpr char zeros[alignment] = {};
  // A piece begins on a multiple of `alignment` from the start of the data, which the writer aligns in the file.
  std::vector<OutputTensor> tensors = {{mark, Dtype::U8, {sizeof version}, &version}};
  uint64_t end = sizeof version;
  for (const WeightPiece &piece : pieces) {
    if (uint64_t gap = (alignment - end % alignment) % alignment) {
      tensors.push_back({"~" + std::to_string(tensors.size()), Dtype::U8, {int64_t(gap)}, zeros});
      end += gap;
    }
    tensors.push_back({piece.name, Dtype::U8, {int64_t(piece.bytes)}, piece.data});
    end += piece.bytes;
  }
  writeSafetensors(path, tensors);
}

} // namespace quern::runtime
