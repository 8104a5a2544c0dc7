// What nearly every test includes. No header of streams, files or random numbers: each file would pay for what it leaves unused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
