// The C interface of a program that is measured to tune its kernels: each of these has several versions, of which launches
// call the current one.
//
// Takes: nothing but <stdint.h>; codegen/tuning makes the table, runtime/tuning reads it.
#ifndef QUERN_RUNTIME_ABI_VERSIONS_H
#define QUERN_RUNTIME_ABI_VERSIONS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct quern_versions_of {
  const char *kernel;               ///< as the description's launches name it
  const void **current;             ///< the function that launches call: one of `versions`, or `checked`
  const void *const *versions;      ///< [count]; the first is made by the default plan
  int32_t (*const *calls)(void **); ///< [count], the same with pointers to the arguments
  const void *checked;              ///< gives pointers to its arguments to quern_compare_versions
  int32_t count;
  int32_t lengths, inputs,
      results; ///< how many arguments are lengths (int32), then buffers that are read, then results
} quern_versions_of;

typedef struct quern_version_table {
  int32_t count;
  const quern_versions_of *kernels;
} quern_version_table;

extern const quern_version_table quern_versions;

/// Runs a launch by two of its kernel's versions and compares their results; those of the first one stay.
int32_t quern_compare_versions(int32_t kernel, void **arguments);

#ifdef __cplusplus
}
#endif
#endif
