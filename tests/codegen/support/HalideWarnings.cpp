// A warning of Halide's fails the test: a schedule that it finds fault with is wrong, even if the kernel's numbers are right.
#include <Halide.h>

#include <gtest/gtest.h>

namespace {

class Failures : public Halide::CompileTimeErrorReporter {
  void warning(const char *text) override { ADD_FAILURE() << text; }
  void error(const char *text) override { throw Halide::CompileError(text); }
};

const bool reported = [] {
  static Failures failures;
  Halide::set_custom_compile_time_error_reporter(&failures);
  return true;
}();

} // namespace
