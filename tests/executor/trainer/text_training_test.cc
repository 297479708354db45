// Bytes of a text as tokens.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>

#include "executor/trainer/rank_trainer.h"
#include "executor/trainer/token_source.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

constexpr char kVerse[] =
    "Whose woods these are I think I know. His house is in the village though; "
    "he will not see me stopping here to watch his woods fill up with snow. ";

TEST(MakeTextTokens, GivesTheBytesOfTheText) {
  const std::string text = kVerse;
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<TokenSource> tokens,
                       MakeTextTokens(text, /*sequence_length=*/16, /*vocabulary_size=*/256, 3));
  for (int64_t sample = 0; sample < 20; ++sample) {
    std::string bytes;
    for (int64_t position = 0; position <= 16; ++position) {
      bytes.push_back(static_cast<char>(tokens->TokenAt(/*step=*/2, sample, position)));
    }
    EXPECT_NE(text.find(bytes), std::string::npos) << bytes;
  }
  EXPECT_THAT(MakeTextTokens("short", 16, 256, 3).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::HasSubstr("5 bytes; a sample needs 17; give")));
  EXPECT_THAT(MakeTextTokens(text, 16, 128, 3).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::HasSubstr("256, not 128; give a model")));
}

// A small model comes to know a text far better than the bytes' frequencies.
TEST(MakeTextTokens, CanBeLearned) {
  constexpr int kHidden = 32, kLength = 16;
  const auto layer = [](LayerDefinition raw) {
    raw.hidden_size = kHidden;
    raw.sequence_length = kLength;
    return *LayerDefinition::Create(raw, "layer");
  };
  ASSERT_OK_AND_ASSIGN(
      const ModelSpec model,
      ModelSpec::Create(
          "bytes",
          {layer({.layer_definition_id = "embedding",
                  .kind = LayerKind::kEmbedding,
                  .vocabulary_size = 256}),
           layer({.layer_definition_id = "decoder",
                  .kind = LayerKind::kDecoder,
                  .attention_head_count = 4,
                  .feed_forward_size = 96,
                  .feed_forward_kind = FeedForwardKind::kSwiglu}),
           layer(
               {.layer_definition_id = "head", .kind = LayerKind::kHead, .vocabulary_size = 256})},
          {{0, 1}, {1, 2}, {2, 1}}, Precision::kFp32, Optimizer::kAdam));
  Plan plan{.device_count = 1, .global_batch_size = 8};
  plan.stages = {{.first_rank = 0, .rank_count = 1, .layer_runs = {{0, 4, Strategy()}}}};
  ASSERT_OK_AND_ASSIGN(const RankProgram program, RankProgram::Create(plan, model, 0));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<TokenSource> tokens,
                       MakeTextTokens(kVerse, kLength, 256, 3));
  const std::unique_ptr<LayerKernels> kernels = MakeCpuKernels(ElementType::kFloat32);
  const std::unique_ptr<DeviceMemory> memory = MakeHostMemory();
  ArrayPool pool(*memory);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<RankTrainer> trainer,
                       RankTrainer::Create(program, model,
                                           {.kernels = kernels.get(),
                                            .pool = &pool,
                                            .tokens = tokens.get(),
                                            .optimizer = AdamSettings{.learning_rate = 1e-2}}));
  double loss = 0.0;
  for (int step = 0; step < 80; ++step) {
    ASSERT_OK_AND_ASSIGN(loss, trainer->Step());
    if (step == 0) {
      EXPECT_NEAR(loss, std::log(256.0), 0.1);
    }
  }
  EXPECT_LT(loss, 1.5);
}

}  // namespace
}  // namespace parplan
