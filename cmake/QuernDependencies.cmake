# Outside libraries as interface targets: quern_llvm, quern_lld, quern_halide, quern_malloc. Rooms link these, never the packages themselves.
# runtime/ may link neither (emitted programs carry it).

# --- LLVM and MLIR 22 -----------------------------------------------------------------------------
if(NOT MLIR_DIR)
  set(MLIR_DIR /usr/lib/llvm-22/lib/cmake/mlir)
endif()
find_package(MLIR REQUIRED CONFIG) # its version file accepts only an exact minor version, so the check is ours
if(NOT LLVM_VERSION_MAJOR EQUAL 22)
  message(FATAL_ERROR "Quern needs LLVM and MLIR 22; ${MLIR_DIR} is ${LLVM_VERSION_MAJOR}")
endif()
set(MLIR_BINARY_DIR ${PROJECT_BINARY_DIR}) # else mlir-doc writes to the root of the disk
set(LLVM_RUNTIME_OUTPUT_INTDIR ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
set(LLVM_LIBRARY_OUTPUT_INTDIR ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
include(TableGen)
include(AddLLVM)
include(AddMLIR)

separate_arguments(quern_llvm_definitions NATIVE_COMMAND ${LLVM_DEFINITIONS})
add_library(quern_llvm INTERFACE)
target_include_directories(quern_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
target_compile_definitions(quern_llvm INTERFACE ${quern_llvm_definitions})
# The shared libraries only: naming an MLIRFoo archive links a second copy, and two copies break type uniquing.
target_link_libraries(quern_llvm INTERFACE MLIR LLVM)

# --- LLD 22: the linker of emitted programs -----------------------------------------------------------
find_package(LLD REQUIRED CONFIG HINTS ${LLVM_LIBRARY_DIRS}/cmake/lld)
add_library(quern_lld INTERFACE)
target_link_libraries(quern_lld INTERFACE lldELF lldCommon quern_llvm)

# --- Halide 21, from its PyPI wheel -----------------------------------------------------------------
# One header and one library; the wheel's own CMake package wants CMake 3.28, Debian 12 has 3.25.
set(Halide_ROOT ${PROJECT_SOURCE_DIR}/build/halide/halide CACHE PATH "Folder of the Halide wheel that holds include and lib64")
find_library(QUERN_HALIDE_LIBRARY Halide PATHS ${Halide_ROOT}/lib64 NO_DEFAULT_PATH)
find_path(QUERN_HALIDE_INCLUDE Halide.h PATHS ${Halide_ROOT}/include NO_DEFAULT_PATH)
if(NOT QUERN_HALIDE_LIBRARY OR NOT QUERN_HALIDE_INCLUDE)
  message(FATAL_ERROR "no Halide in ${Halide_ROOT}; run './dev build', which fetches it, or set -DHalide_ROOT=DIR")
endif()
file(STRINGS ${QUERN_HALIDE_INCLUDE}/HalideRuntime.h halide_version REGEX "define HALIDE_VERSION_MAJOR ")
if(NOT halide_version MATCHES " 21$")
  message(FATAL_ERROR "Quern needs Halide 21; ${Halide_ROOT} has '${halide_version}'")
endif()
add_library(quern_halide INTERFACE)
target_include_directories(quern_halide SYSTEM INTERFACE ${QUERN_HALIDE_INCLUDE})
target_link_libraries(quern_halide INTERFACE ${QUERN_HALIDE_LIBRARY})

# --- jemalloc: malloc of programs that compile kernels -------------------------------------------------
# Halide's passes allocate and free small nodes all the time: a kernel compiles in 92% of the time. (mimalloc is as fast, but its
# operator new calls no handler where memory ends.) For executables: all of a process must have the same malloc.
find_library(QUERN_JEMALLOC_LIBRARY jemalloc REQUIRED)
add_library(quern_malloc INTERFACE)
target_link_libraries(quern_malloc INTERFACE ${QUERN_JEMALLOC_LIBRARY})

# --- Small ones --------------------------------------------------------------------------------------
find_package(Boost 1.74 REQUIRED COMPONENTS program_options)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(SQLite3 REQUIRED)
if(QUERN_TESTS)
  find_package(GTest REQUIRED)
endif()
