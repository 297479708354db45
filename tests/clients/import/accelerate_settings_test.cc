#include "clients/import/accelerate_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(AccelerateSettings, ReadsVariables) {
  ASSERT_OK_AND_ASSIGN(AccelerateSettings settings,
                       AccelerateSettings::Read({"a.env", R"(# a comment
export A="two words"
B='#3'   # another
C=
D=None
E=Yes
)"}));
  EXPECT_EQ(settings.Text("A"), "two words");
  EXPECT_EQ(settings.Text("B"), "#3");
  EXPECT_EQ(settings.Text("C"), std::nullopt);
  EXPECT_EQ(settings.Text("D"), std::nullopt);
  EXPECT_EQ(settings.Text("F"), std::nullopt);
  EXPECT_THAT(settings.Unread(), ElementsAre("E"));
  EXPECT_TRUE(settings.Flag("E", false));
  EXPECT_TRUE(settings.Flag("F", true));
  EXPECT_OK(settings.status());
  EXPECT_EQ(settings.Count("A"), std::nullopt);
  EXPECT_THAT(
      settings.status(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("a.env: A: must be a whole number from 1 to 16777216, and is `two")));
}

// The launcher makes variables of the keys of a configuration.
TEST(AccelerateSettings, ReadsConfigurationsAsTheVariablesOfTheLauncher) {
  ASSERT_OK_AND_ASSIGN(AccelerateSettings settings, AccelerateSettings::Read({"a.yaml", R"(---
compute_environment: LOCAL_MACHINE
fsdp_config:
  fsdp_version: 2
  fsdp_transformer_layer_cls_to_wrap: LlamaDecoderLayer
parallelism_config: {}
mixed_precision: 'bf16'
)"}));
  EXPECT_EQ(settings.Count("FSDP_VERSION"), 2);
  EXPECT_EQ(settings.Text("FSDP_TRANSFORMER_CLS_TO_WRAP"), "LlamaDecoderLayer");
  EXPECT_EQ(settings.Text("ACCELERATE_MIXED_PRECISION"), "bf16");
  EXPECT_TRUE(settings.Has("section fsdp_config"));
  EXPECT_FALSE(settings.Has("section parallelism_config"));
  EXPECT_THAT(settings.Unread(), ElementsAre("compute_environment", "fsdp_config"));
}

TEST(AccelerateSettings, RefusesOtherTextsByLine) {
  const auto refuse = [](const std::string& text, const std::string& part) {
    EXPECT_THAT(
        AccelerateSettings::Read({"a", text}).status(),
        StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("a: "), HasSubstr(part))))
        << text;
  };
  refuse("", "a: has no settings");
  refuse("# nothing\n", "has no settings");
  refuse("A=1\nB\n", "line 2: must be `NAME=value`");
  refuse("A=1\nkey: value\n", "line 2: must be `NAME=value`");
  refuse("A=1\n=2\n", "line 2: must be");
  refuse("A=1\n1A=2\n", "line 2: must be");
  refuse("A=1\nA=2\n", "A: is given twice");
  refuse("A='1\n", "line 1: has a quotation");
  refuse("A=\"\n", "line 1: has a quotation");
  // The rest is YAML, whose reader names the line (yaml_text_test.cc).
  for (const char* const text : {"key: value\nA=1\n", "1A=2\n", "=2\n", "key: 1\n  inner: 2\n",
                                 "fsdp_config:\n  fsdp_version: 2\n  fsdp_version: 1\n"}) {
    EXPECT_THAT(AccelerateSettings::Read({"a", text}).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a: ")))
        << text;
  }
}

}  // namespace
}  // namespace parplan
