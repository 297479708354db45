// Sizes and stages that files of torchtitan name, compared with the model or read as one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/clients/import/torchtitan_files.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Releases behind 0.3.0 call the list of stages otherwise.
TEST(ImportTorchtitanPlan, ReadsTheLaterNameOfTheStages) {
  const auto read = [](const std::string& more) {
    std::string layers;
    for (int i = 1; i < 9; ++i) absl::StrAppend(&layers, ", \"layers.", i, "\"");
    return ReadTorchtitan(
        "run.py", absl::StrCat("def run():\n    return Trainer.Config(training=TrainingConfig("
                               "num_tokens_per_microbatch_per_dp_rank=4096), "
                               "parallelism=ParallelismConfig(pipeline_parallel_degree=2, "
                               "fsdp_symm_mem_scope=\"dense\", num_pp_microbatches=6, "
                               "pipeline_parallel_module_fqns_per_model_part=[[\"tok_embeddings\", "
                               "\"layers.0\"",
                               layers, "], [\"layers.9\", \"norm\", \"lm_head\"]]", more,
                               "), activation_checkpoint=FullAC.Config())\n"));
  };
  ASSERT_OK_AND_ASSIGN(const TorchtitanPlanImport import, read(""));
  ASSERT_EQ(import.plan.stages.size(), 2);
  EXPECT_EQ(import.plan.stages[0].layer_count(), 10);
  EXPECT_EQ(import.plan.stages[1].layer_count(), 2);
  EXPECT_THAT(import.notes, IsEmpty());
  EXPECT_THAT(read(", module_fqns_per_model_part=[[\"tok_embeddings\"]]"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("give one of them")));
  // It would gather parameters again, which no level of sharding says.
  EXPECT_THAT(
      read(", pp_max_unsharded_active_stages=1"),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("pp_max_unsharded_active_stages")));
}

TEST(ImportTorchtitanPlan, ComparesTheWidthsAndExpertsThatAFileNames) {
  const std::string training =
      "TRAINING = dict(seq_len=1024)\nACTIVATION_CHECKPOINT = FullAC.Config()\n";
  const auto read = [&training](const std::string& sizes) {
    return ReadTorchtitan("run.py", absl::StrCat("MODEL = dict(", sizes, ")\n", training));
  };
  EXPECT_OK(read("hidden_dim=1536, head_dim=8"));
  for (const char* const sizes : {"hidden_dim=1535", "head_dim=16", "num_experts=16"}) {
    EXPECT_THAT(read(sizes), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("model")))
        << sizes;
  }
  // Sizes of a mixture do not say which layers have experts.
  EXPECT_THAT(ImportTorchtitanModel(
                  {"run.py", absl::StrCat("MODEL = dict(num_experts=16)\n", training)}, "", {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("model.num_experts: is of a model whose sizes")));
}

TEST(ImportTorchtitanModel, ReadsTheSizesThatAFileNames) {
  const std::string text = R"(
ARGS = TransformerModelArgs(
    dim=4096, n_layers=32, n_heads=32, n_kv_heads=8, vocab_size=128256, hidden_dim=14336, head_dim=256)
TRAINING = dict(seq_len=8192)
)";
  ASSERT_OK_AND_ASSIGN(const TorchtitanModelImport import,
                       ImportTorchtitanModel({"run.py", text}, "", {}));
  const v1::LayerDefinition& layer = import.model.layer_definitions(1);
  EXPECT_EQ(layer.hidden_size(), 4096);
  EXPECT_EQ(layer.key_value_head_count(), 8);
  EXPECT_EQ(layer.feed_forward_size(), 14336);
  EXPECT_EQ(layer.head_size(), 256);
  EXPECT_EQ(layer.sequence_length(), 8192);
  EXPECT_EQ(import.model.layer_runs(1).layer_count(), 32);
  EXPECT_THAT(ImportTorchtitanModel({"run.toml", "[job]\ndump_folder = \"./outputs\"\n"}, "", {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--hidden-size")));
}

}  // namespace
}  // namespace parplan
