// --precision stored: the text for --quantize that keeps each weight as it is stored.
#include "tools/spec/StoredFormats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using quern::tools::formatsOf;

TEST(StoredFormats, LayersShareAPattern) {
  EXPECT_EQ(formatsOf({{"head.weight", "BF16"},
                       {"layers.0.q.weight", "BF16"},
                       {"layers.1.q.weight", "BF16"},
                       {"layers.1.k.weight", "F32"}}),
            "f32,head.weight=bf16,layers.*.q.weight=bf16");
}

TEST(StoredFormats, BlocksThatPacksHaveAreMoved) {
  EXPECT_EQ(formatsOf({{"a", "Q8_0"},
                       {"b", "Q4_0"},
                       {"c", "Q5_1"},
                       {"d", "F16"},
                       {"e", "F8_E4M3"},
                       {"f", "AWQ"},
                       {"g", "q4_z"},
                       {"h", "f8_e4m3"}}),
            "f32,a=int8,b=int4,c=q5_1,d=f16,g=q4_z,h=f8_e4m3");
  EXPECT_EQ(formatsOf({{"a", "Q4_K"},
                       {"b", "Q5_K"},
                       {"c", "Q6_K"},
                       {"d", "Q3_K"},
                       {"e", "Q2_K"},
                       {"f", "IQ4_XS"},
                       {"g", "IQ3_S"},
                       {"h", "NVFP4"}}),
            "f32,a=q4_k,b=q5_k,c=q6_k,d=q6_k,e=q6_k,f=q8_k,g=q6_k,h=bf16");
}

TEST(StoredFormats, AllOfF32SaysNothing) {
  EXPECT_EQ(formatsOf({{"a", "F32"}, {"b", "F64"}}), "");
}

TEST(StoredFormats, WhatF32TakesMoreBytesFor) {
  EXPECT_THAT(quern::tools::widenedTypes(
                  {{"a", "Q8_0"}, {"b", "Q6_K"}, {"c", "IQ2_XS"}, {"d", "F32"}, {"e", "F8_E4M3"}, {"f", "F16"}}),
              testing::ElementsAre("F8_E4M3", "IQ2_XS"));
}

/// As BERT's position_ids, and the masks of older GPT checkpoints.
TEST(StoredFormats, WholeNumbersAreNoWeights) {
  EXPECT_THAT(quern::tools::widenedTypes({{"position_ids", "I64"}, {"attention.bias", "U8"}, {"mask", "BOOL"}}),
              testing::IsEmpty());
}

/// As mixes of GGUF have it: some layers with more bits.
TEST(StoredFormats, WhatDiffersFromItsLikeHasARuleOfItsOwn) {
  EXPECT_EQ(formatsOf({{"layers.0.down", "Q8_0"}, {"layers.1.down", "Q4_0"}, {"layers.2.down", "Q4_0"}}),
            "f32,layers.*.down=int4,layers.0.down=int8");
}

/// "layers.*.weight" fits "layers.0.norm.weight", too.
TEST(StoredFormats, PatternsThatFitTooMuchAreCorrected) {
  EXPECT_EQ(formatsOf({{"layers.0.weight", "BF16"}, {"layers.0.norm.weight", "F32"}}),
            "f32,layers.*.weight=bf16,layers.0.norm.weight=f32");
}
