// RUN: quern-opt %s -split-input-file -verify-diagnostics
// Texts that are no type or attribute. Each constraint is labelled as in its verifier.

// expected-error @+1 {{a tensor is real, int, bool, bf16}}
func.func private @f(!quern.tensor<float[A]>)

// -----

// expected-error @+1 {{dimension A occurs twice in one tensor}}
func.func private @f(!quern.tensor<real[A, B, A]>)

// -----

// expected-error @+1 {{'T *' is no size: a polynomial over run-time lengths is needed}}
func.func private @f(!quern.tensor<real[A = "T *"]>)
