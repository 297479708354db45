#include "clients/import/feed_forward_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/clients/import/hugging_face_cases.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::HasSubstr;

TEST(ReadGate, FlagsOfManyNamesSayWhetherThereAreThreeMatrices) {
  for (const char* plain :
       {R"({"gated_mlp": false})", R"({"use_glu": false})", R"({"ffn_with_glu": false})"}) {
    EXPECT_EQ(ParametersOf(kGated) - ParametersOf(With(kGated, plain)), 3 * 64 * 96) << plain;
  }
}

TEST(ReadFeedForwardSize, AFactorIsTimesTheWidth) {
  EXPECT_EQ(ParametersOf(With(kGated, R"({"intermediate_size": null, "ff_factor": 3})")),
            ParametersOf(With(kGated, R"({"intermediate_size": 192})")));
  EXPECT_THAT(ImportConfigText(With(kGated, R"({"ff_factor": 3})")).status().ToString(),
              HasSubstr("config.json: ff_factor: times the width is 192, which contradicts"));
}

}  // namespace
}  // namespace parplan
