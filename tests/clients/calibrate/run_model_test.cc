#include "clients/calibrate/run_model.h"

#include <gtest/gtest.h>

#include <string>

#include "clients/calibrate/run_problem.h"
#include "tests/clients/calibrate/accuracy_samples.h"

namespace parplan::accuracy {
namespace {

TEST(QuestionOf, FreezesWhatAdaptersStandBeside) {
  const RunQuestion question = *QuestionOf(
      RunOf(With(GptRow(), R"("fp16")", R"("bf16", "peft": {"kind": "lora", "rank": 4})")));
  for (const LayerDefinition& layer : question.model->layer_definitions()) {
    EXPECT_TRUE(layer.frozen);
    EXPECT_EQ(layer.attention_adapter_rank, HasAttention(layer.kind) ? 4 : 0);
    EXPECT_EQ(layer.feed_forward_adapter_rank, 0);
  }
  EXPECT_EQ(QuestionOf(RunOf(With(GptRow(), R"("fp16")",
                                  R"("bf16", "peft": {"kind": "lora", "targets": "all, mlp"})")))
                ->model->layer(1)
                .feed_forward_adapter_rank,
            16);
}

// The hidden state passes through all layers and then through the one that predicts.
TEST(QuestionOf, PutsPredictionLayersBehindTheLastOnTheLastStage) {
  std::string row = With(GptRow(), R"("heads": 16,)", R"("heads": 16, "mtp_layers": 1,)");
  row = With(row, R"("tp": 2, "pp": 1, "dp": 4)", R"("tp": 2, "pp": 2, "layout": "Et|tmL")");
  const RunQuestion question = *QuestionOf(RunOf(row));
  ASSERT_EQ(question.model->layer_count(), 5);
  EXPECT_EQ(question.model->layer(3).prediction_depth, 1);
  EXPECT_EQ(question.model->layer(4).further_token_count, 1);
  ASSERT_EQ(question.plan.stages.size(), 2u);
  EXPECT_EQ(question.plan.stages[0].layer_count(), 2);
  EXPECT_EQ(question.plan.stages[1].layer_count(), 3);
}

}  // namespace
}  // namespace parplan::accuracy
