# What each test costs, and the tiers that follow: `fast` is what one runs before a commit, `full` what CI runs, `nightly` the rest.
# tests/costs.txt holds seconds on one core ("12.5 e2e.page"), written by `./dev test costs` after a run of all tests. Long tests start
# first. A test of at most quern_fast_seconds, or one whose cost is not known yet, is `fast`.
set(quern_fast_seconds 4)
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/../tests/costs.txt quern_costs REGEX "^[0-9]")
foreach(line ${quern_costs})
  string(REGEX MATCH "^([0-9.]+) (.+)$" line "${line}")
  set("quern_cost_${CMAKE_MATCH_2}" ${CMAKE_MATCH_1})
endforeach()

function(quern_test_tier name)
  set(cost 0)
  if(DEFINED "quern_cost_${name}")
    set(cost "${quern_cost_${name}}")
  endif()
  set(labels full)
  if(NOT cost GREATER quern_fast_seconds)
    set(labels "fast;full")
  endif()
  # Kernels one by one on devices (e2e.opencl, e2e.cuda and e2e.vulkan run whole models in `full`); every model in every number format;
  # the manual's exercises and what they train; every family on other processors, plans drawn with more seeds; suites that begin with `More`, of C++ or of Python:
  # where `full` has one of each kind.
  if(name MATCHES "^(opencl|cuda|vulkan)\\.|^e2e\\.(formats|labs)\\.|^e2e\\.(precision\\.Specs|worked\\.(Deeper|Learning))$|^(codegen|passes|tile|e2e\\.[a-z]+)\\.More")
    set(labels nightly)
  endif()
  set_tests_properties("${name}" PROPERTIES COST ${cost} LABELS "${labels}" TIMEOUT 1800)
endfunction()
