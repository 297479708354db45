#include "clients/import/megatron_layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "clients/import/megatron_rules.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kEight[] =
    "--num-layers 8 --hidden-size 512 --num-attention-heads 8 --seq-length 64 ";

absl::StatusOr<MegatronSizes> Read(const std::string& arguments) {
  absl::StatusOr<ArgumentList> list =
      ArgumentList::Read({"run.args", absl::StrCat(kEight, arguments)}, MegatronRules());
  if (!list.ok()) return list.status();
  return ReadMegatronSizes(*list);
}

TEST(ReadMegatronSizes, HasTheDefaultsOfTheProgram) {
  ASSERT_OK_AND_ASSIGN(const MegatronSizes sizes, Read(""));
  EXPECT_EQ(sizes.dense.feed_forward_size, 2048);
  EXPECT_EQ(sizes.dense.key_value_head_count, 8);
  EXPECT_EQ(sizes.dense.head_size, 0);
  EXPECT_FALSE(sizes.mixture.has_value());
  EXPECT_EQ(sizes.window, 0);
  EXPECT_EQ(sizes.prediction_count, 0);
  EXPECT_EQ(sizes.vocabulary_size, 0);
  EXPECT_TRUE(sizes.tied_embedding);
  EXPECT_EQ(sizes.position_count, 64);
  EXPECT_EQ(sizes.precision, v1::PRECISION_FP32);
  EXPECT_EQ(sizes.optimizer, v1::OPTIMIZER_ADAM);
  ASSERT_OK_AND_ASSIGN(const MegatronSizes latent, Read("--multi-latent-attention"));
  EXPECT_EQ(
      latent.dense.latent_attention,
      (LatentAttention{
          .query_rank = 0, .key_value_rank = 32, .rotary_head_size = 64, .value_head_size = 128}));
  EXPECT_EQ(latent.dense.head_size, 192);
}

// core_transformer_config_from_args and validate_args of megatron/training/arguments.py: both are
// gated, and --swiglu alone has another width by default.
TEST(ReadMegatronSizes, TakesTheGatedKindsApart) {
  ASSERT_OK_AND_ASSIGN(const MegatronSizes swiglu, Read("--swiglu"));
  EXPECT_EQ(swiglu.dense.feed_forward_kind, v1::FEED_FORWARD_KIND_SWIGLU);
  EXPECT_EQ(swiglu.dense.feed_forward_size, 1344);
  ASSERT_OK_AND_ASSIGN(const MegatronSizes geglu, Read("--quick-geglu"));
  EXPECT_EQ(geglu.dense.feed_forward_kind, v1::FEED_FORWARD_KIND_SWIGLU);
  EXPECT_EQ(geglu.dense.feed_forward_size, 2048);
}

// A window of `left` tokens before a token, and itself.
TEST(ReadMegatronSizes, CountsTheTokensOfWindows) {
  for (const char* const text : {"--window-size 15,0", "--window-size=(15,0)",
                                 "--window-size '(15, 0)'", "--window-size=15,-1"}) {
    ASSERT_OK_AND_ASSIGN(const MegatronSizes sizes, Read(text));
    EXPECT_EQ(sizes.window, 16) << text;
    EXPECT_THAT(sizes.has_window, ElementsAre(1, 1, 1, 1, 1, 1, 1, 1));
  }
  ASSERT_OK_AND_ASSIGN(const MegatronSizes all, Read("--window-size=-1,0"));
  EXPECT_EQ(all.window, 0);
  EXPECT_THAT(all.has_window, IsEmpty());
}

// is_layer_window_attention of megatron/core/transformer/utils.py: with n, the layers that n
// divides, counted from 1, have none; with a list, a 1 is a window.
TEST(ReadMegatronSizes, FindsTheLayersWithWindows) {
  const std::string window = "--window-size 15,0 --window-attn-skip-freq ";
  ASSERT_OK_AND_ASSIGN(MegatronSizes sizes, Read(window + "4 --mtp-num-layers 1"));
  EXPECT_THAT(sizes.has_window, ElementsAre(1, 1, 1, 0, 1, 1, 1, 0, 1));
  ASSERT_OK_AND_ASSIGN(sizes, Read(window + "1"));
  EXPECT_THAT(sizes.has_window, ElementsAre(0, 0, 0, 0, 0, 0, 0, 0));
  ASSERT_OK_AND_ASSIGN(sizes, Read(window + "([1]*3+[0])*2"));
  EXPECT_THAT(sizes.has_window, ElementsAre(1, 1, 1, 0, 1, 1, 1, 0));
}

TEST(ReadMegatronSizes, RefusesContradictionsByArgument) {
  const auto refuse = [](const std::string& arguments, const std::string& part) {
    EXPECT_THAT(Read(arguments).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(part)))
        << arguments;
  };
  refuse("--q-lora-rank 16", "--q-lora-rank: needs --multi-latent-attention");
  refuse("--v-head-dim 16", "--v-head-dim: needs --multi-latent-attention");
  refuse("--multi-latent-attention --group-query-attention",
         "--group-query-attention: contradicts");
  refuse("--window-attn-skip-freq 2", "--window-attn-skip-freq: needs --window-size");
  for (const char* const size : {"15", "15,0,0", "x,0", "-2,0", "99999999,0", ""}) {
    refuse(absl::StrCat("--window-size='", size, "'"), "--window-size: must be two whole numbers");
  }
  refuse("--swiglu --quick-geglu", "--quick-geglu: contradicts --swiglu");
  refuse("--window-size 15,2", "attention of decoders reads no tokens ahead");
  const std::string window = "--window-size 15,0 --window-attn-skip-freq=";
  for (const char* const layers : {"0", "-1", "[1]*7", "[1]*9", "[2]*8", "x"}) {
    refuse(window + layers, "lists of 0 and 1 for 8 layers");
  }
  refuse(window + "[1]*8 --mtp-num-layers 1", "leaves open the layers of --mtp-num-layers");
  refuse("--mtp-num-layers 16777216", "--mtp-num-layers: and --num-layers must be at most");
}

TEST(ReadMegatronExpertLayers, CountsFromTheFirstLayer) {
  EXPECT_THAT(*ReadMegatronExpertLayers("3", 7), ElementsAre(1, 0, 0, 1, 0, 0, 1));
  EXPECT_THAT(*ReadMegatronExpertLayers("[0]+[1]*2", 3), ElementsAre(0, 1, 1));
}

TEST(MegatronFeedForwardSize, IsTheProgramsDefault) {
  EXPECT_EQ(MegatronFeedForwardSize(4096, false), 16384);
  // 4 x 4096 x 2 / 3 = 10922.67, in steps of 64.
  EXPECT_EQ(MegatronFeedForwardSize(4096, true), 10880);
}

}  // namespace
}  // namespace parplan
