# How rooms declare what they build. Paths are relative to the room's folder.
#
#   quern_add_library(quern_ir SOURCES A.cpp B.cpp LINK quern_llvm [PCH std|llvm|mlir|halide] [DEPENDS target...])
#   quern_add_tool(quern SOURCES main.cpp LINK quern_frontend ... [PCH tools|mlir|halide])    -> build/bin/quern
#   quern_add_test(quern_ir_tests SOURCES ATest.cpp LINK quern_ir [PCH llvm|mlir])            -> CTest, one test a suite
#   quern_add_test_objects(quern_graphs SOURCES Maker.cpp LINK quern_kernels)                 -> what several tests share, compiled once
#   quern_tablegen(quern_ir_ops QuernOps.td  QuernOps.h.inc "-gen-op-decls"  QuernOps.cpp.inc "-gen-op-defs" ...)
#                                             -> build/ROOM/QuernOps.h.inc, included as "ir/QuernOps.h.inc"

# One precompiled header for all that see MLIR, one for all that see Halide, and so on, built once and shared. A target can share it
# only while its compile flags are the same, so per-target definitions belong in set_source_files_properties.
function(quern_precompile name header)
  add_library(quern_pch_${name} OBJECT EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/cmake/Pch.cpp)
  target_link_libraries(quern_pch_${name} PRIVATE quern_options ${ARGN})
  target_precompile_headers(quern_pch_${name} PRIVATE ${PROJECT_SOURCE_DIR}/cmake/${header})
endfunction()
# Half of a build's time is that of tests, which compile in three quarters of it at -O1 and run hardly slower: kernels take theirs.
set(quern_test_flags $<$<CONFIG:Release>:-O1>)
quern_precompile(std StdPch.h)
quern_precompile(llvm LlvmPch.h quern_llvm)
quern_precompile(mlir MlirPch.h quern_llvm)
quern_precompile(tools ToolsPch.h quern_llvm)
foreach(mlir mlir tools)
  add_dependencies(quern_pch_${mlir} quern_ir_inc quern_ir_interfaces_inc)
endforeach()
quern_precompile(halide HalidePch.h quern_halide)
if(QUERN_TESTS)
  quern_precompile(tests TestPch.h GTest::gmock)
  quern_precompile(tests_llvm TestPch.h GTest::gmock quern_llvm) # whose definitions are all that such a test has of LLVM
  quern_precompile(tests_mlir MlirTestPch.h GTest::gmock quern_llvm)
  add_dependencies(quern_pch_tests_mlir quern_ir_inc quern_ir_interfaces_inc)
  foreach(tests tests tests_llvm tests_mlir)
    target_compile_options(quern_pch_${tests} PRIVATE ${quern_test_flags})
  endforeach()
endif()

function(quern_configure_target name)
  cmake_parse_arguments(ARG "" "PCH" "SOURCES;LINK;DEPENDS" ${ARGN})
  if(ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "${name}: unexpected arguments ${ARG_UNPARSED_ARGUMENTS}")
  endif()
  target_sources(${name} PRIVATE ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC quern_options ${ARG_LINK})
  if(ARG_PCH)
    target_precompile_headers(${name} REUSE_FROM quern_pch_${ARG_PCH})
  endif()
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
endfunction()

function(quern_add_library name)
  add_library(${name} STATIC)
  quern_configure_target(${name} ${ARGN})
endfunction()

function(quern_add_tool name)
  add_executable(${name})
  quern_configure_target(${name} ${ARGN})
endfunction()

function(quern_configure_test name)
  cmake_parse_arguments(ARG "" "PCH" "SOURCES;LINK;DEPENDS" ${ARGN})
  set(header tests)
  if(ARG_PCH)
    set(header tests_${ARG_PCH})
  endif()
  target_compile_options(${name} PRIVATE ${quern_test_flags})
  quern_configure_target(${name} SOURCES ${ARG_SOURCES} LINK ${ARG_LINK} DEPENDS ${ARG_DEPENDS} PCH ${header})
endfunction()

function(quern_add_test_objects name)
  add_library(${name} OBJECT)
  target_link_libraries(${name} PUBLIC GTest::gmock)
  quern_configure_test(${name} ${ARGN})
endfunction()

# Suites are found when CTest runs, not when they are built, so that a broken test binary breaks its own tests only.
function(quern_add_test name)
  add_executable(${name})
  # Before the rooms: quern_runtime has a main of its own (that of emitted programs).
  target_link_libraries(${name} PUBLIC GTest::gmock GTest::gtest_main)
  quern_configure_test(${name} ${ARGN})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  string(REGEX REPLACE "^quern_(.*)_tests$" "\\1" room ${name})
  set(script ${CMAKE_CURRENT_BINARY_DIR}/${name}.cmake)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/AddSuites.cmake.in ${script}.in @ONLY)
  file(GENERATE OUTPUT ${script} INPUT ${script}.in)
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${PROJECT_SOURCE_DIR}/cmake/TestTiers.cmake ${script})
endfunction()

add_custom_target(quern_generated) # all of TableGen's output: what must exist before clang-tidy reads a header
function(quern_tablegen target definitions)
  set(LLVM_TARGET_DEFINITIONS ${definitions})
  set(TABLEGEN_OUTPUT "")
  while(ARGN)
    list(POP_FRONT ARGN file flags)
    separate_arguments(flags UNIX_COMMAND "${flags}")
    mlir_tablegen(${file} ${flags} EXTRA_INCLUDES ${PROJECT_SOURCE_DIR} ${MLIR_INCLUDE_DIRS})
  endwhile()
  add_custom_target(${target} DEPENDS ${TABLEGEN_OUTPUT})
  add_dependencies(quern_generated ${target})
endfunction()

if(QUERN_TESTS)
  include(TestTiers)
  # Where tests find data and programs. CTest reads this file before it starts any.
  file(WRITE ${PROJECT_BINARY_DIR}/tests/environment.cmake
    "set(ENV{QUERN_SOURCE} [[${PROJECT_SOURCE_DIR}]])\nset(ENV{QUERN_BUILD} [[${PROJECT_BINARY_DIR}]])\n"
    "set(ENV{QUERN_TEST_DATA} [[${PROJECT_SOURCE_DIR}/tests/data]])\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${PROJECT_BINARY_DIR}/tests/environment.cmake)
endif()
