// The C interface between a compiled model and the runtime that is linked to it.
//
// Takes: nothing but <stdint.h>; the compiler's host code generator and the runtime both follow this file.
// Gives: `quern_program`, exported by the host object: a JSON description and a table of entry points.
// Why C: generated code calls and is called without any C++ in between.
#ifndef QUERN_RUNTIME_ABI_ABI_H
#define QUERN_RUNTIME_ABI_ABI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QUERN_ABI_VERSION 4
/// Scratch that a kernel asks for begins and ends at multiples of so many bytes: two cache lines (vectors need 64).
#define QUERN_SCRATCH_ALIGNMENT 128

/// Who is notified of each launch, before and after it, in the calling thread.
typedef struct quern_profile {
  /// `launch`: its number in the description's `launches`. `iteration`: of the loops around it, flattened.
  void (*begin)(struct quern_profile *self, int32_t launch, int32_t iteration);
  void (*end)(struct quern_profile *self);
} quern_profile;

/// What a program for a device asks it beside launches, which kernels do by themselves. All pointers are the device's.
typedef struct quern_device {
  /// Bytes within its memory, after all launches before. The two ranges are apart, or the same.
  void (*copy)(struct quern_device *self, void *to, const void *from, int64_t bytes);
  /// The byte there, after all launches before: whether a check failed.
  int32_t (*flag)(struct quern_device *self, const void *at);
} quern_device;

/// What one call of a compiled function works on. All pointers stay the caller's.
typedef struct quern_call {
  /// One length for each run-time symbol, in the order of the description's `symbols`
  /// (`past` and `cap` among them).
  const int64_t *sizes;
  /// Dense row-major tensors in the order of the function's `inputs`: real f32, int int32, bool uint8.
  const void *const *inputs;
  /// Where the results go, likewise.
  void *const *outputs;
  /// slots[s][iteration]: a parameter tensor in the layout that slot `s` of the description asks for.
  const void *const *const *slots;
  /// One buffer for each of the description's `states`; zero-filled when made. Those without `cap` (running sums) are
  /// zero again whenever a text begins (past = 0); caches then hold old rows, which are written before they are read.
  void *const *states;
  /// At least `arenaBytes(sizes)` bytes, aligned to 64.
  uint8_t *arena;
  /// Nonzero in the first call of a request: values that no new text changes (cross-attention's keys)
  /// are computed and kept in `kept`.
  int32_t first;
  /// At least `keptBytes(sizes)` bytes, aligned to 64; the same in all calls of a request.
  uint8_t *kept;
  /// Null: nobody is notified.
  quern_profile *profile;
  /// Of a program for a device: all pointers above but `sizes` and the tables of pointers are addresses in its memory, which
  /// only kernels read. Null: the processor computes.
  quern_device *device;
} quern_call;

/// Zero, or the (negative) number of an entry of the description's `checks` that failed:
/// -(index + 1).
typedef int32_t (*quern_function)(const quern_call *call);
/// Bytes for the lengths given.
typedef int64_t (*quern_bytes)(const int64_t *sizes);
/// Bits: the answers of all comparisons on the whole length that remembered values depend on
/// (longrope). Where they change between two calls of a request, its text must be run again from the start.
typedef uint64_t (*quern_epoch)(const int64_t *sizes);

typedef struct quern_entry {
  quern_function run;
  quern_bytes arenaBytes;
  quern_bytes keptBytes;
  quern_epoch epoch;         ///< null: nothing depends on the whole length
  quern_bytes callerScratch; ///< most that kernels ask for at one time: of the thread that calls; null: nothing
  quern_bytes workerScratch; ///< of each thread that helps it; null: nothing
} quern_entry;

typedef struct quern_program_table {
  int32_t abiVersion;
  int32_t entryCount;
  /// UTF-8 JSON, not terminated.
  const char *description;
  int64_t descriptionBytes;
  /// One for each of the description's `functions`, in order.
  const quern_entry *entries;
} quern_program_table;

extern const quern_program_table quern_program;

#ifdef __cplusplus
}
#endif
#endif
