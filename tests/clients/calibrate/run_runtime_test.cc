#include "clients/calibrate/run_runtime.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/units.h"
#include "clients/calibrate/run_problem.h"
#include "tests/clients/calibrate/accuracy_samples.h"

namespace parplan::accuracy {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

RunQuestion QuestionOfRow(const std::string& row) {
  absl::StatusOr<RunQuestion> question = QuestionOf(RunOf(row));
  if (!question.ok()) ADD_FAILURE() << question.status();
  PARPLAN_CHECK(question.ok());
  return *std::move(question);
}

TEST(RuntimeOf, KnowsWhichPeakARowTells) {
  PublishedRun run = RunOf(GptRow());
  const auto view = [&run](const char* framework, const char* note) {
    run.framework = framework;
    run.note = note;
    return QuestionOf(run)->memory_view;
  };
  EXPECT_EQ(view("Megatron-LM", ""), MemoryView::kAllocatedMax);
  EXPECT_EQ(view("Megatron-LM", "peak allocated on the LAST rank"), MemoryView::kAllocatedLastRank);
  EXPECT_EQ(view("Megatron-LM", "as nvidia-smi shows it"), MemoryView::kDeviceTotal);
  EXPECT_EQ(view("Megatron-LM", "per-GPU max as read from tools"), MemoryView::kDeviceTotal);
  EXPECT_EQ(view("torchtitan", "torch max reserved"), MemoryView::kReservedMax);
  EXPECT_EQ(view("nanotron", ""), MemoryView::kReservedFirstRank);
  EXPECT_EQ(view("nanotron", "taken as reserved"), MemoryView::kReservedFirstRank);
  EXPECT_EQ(view("nanotron", "as nvidia-smi shows it"), MemoryView::kDeviceTotal);
  // The remark may be one on memory alone.
  run = RunOf(With(GptRow(), R"("recompute": "full")",
                   R"("recompute": "full", "memory_note": "of the logging rank")"));
  EXPECT_EQ(QuestionOf(run)->memory_view, MemoryView::kAllocatedFirstRank);
}

// Tools of the device print whole mebibytes; a rounded figure is whole by chance.
TEST(RuntimeOf, TakesWholeMebibytesForThoseOfTheDevice) {
  PublishedRun run = RunOf(GptRow());
  const auto view = [&run](int64_t bytes, bool to_the_byte) {
    run.peak_memory = Bytes::Of(bytes);
    run.peak_memory_to_the_byte = to_the_byte;
    return QuestionOf(run)->memory_view;
  };
  constexpr int64_t kWhole = int64_t{35554} << 20;
  EXPECT_EQ(view(kWhole, true), MemoryView::kDeviceTotal);
  EXPECT_EQ(view(kWhole + 512, true), MemoryView::kAllocatedMax);
  EXPECT_EQ(view(kWhole, false), MemoryView::kAllocatedMax);
}

// A row says itself how it ran, so the name of its collection changes nothing.
TEST(RuntimeOf, IsTheSameWhateverTheSourceIsCalled) {
  for (const char* framework : {"Megatron-LM", "Megatron-DeepSpeed", "torchtitan", "nanotron"}) {
    PublishedRun run = RunOf(With(GptRow(), "Megatron-LM", framework));
    const RunQuestion plain = *QuestionOf(run);
    for (const char* source : {"bigscience-176b-prequel", "sailor-clariden", "korthikanti22-table5",
                               "megatron-ci-golden", "nanotron-8b", "mlperf-v5.0-llama31_405b",
                               "vtrain-single", "torchtitan-8b"}) {
      SCOPED_TRACE(absl::StrCat(framework, " of ", source));
      run.source = source;
      const RunQuestion named = *QuestionOf(run);
      EXPECT_TRUE(named.runtime == plain.runtime);
      EXPECT_TRUE(*named.model == *plain.model);
      EXPECT_EQ(named.topology->cluster(), plain.topology->cluster());
      EXPECT_EQ(named.memory_view, plain.memory_view);
      EXPECT_EQ(named.assumptions, plain.assumptions);
    }
  }
}

// Megatron-LM 3.0 is of May 2022.
TEST(RuntimeOf, KnowsReleasesByTheMonthOfThePaper) {
  const auto runtime = [](const char* framework, const char* gpu, const char* cite) {
    return QuestionOfRow(
               With(With(With(GptRow(), "Megatron-LM", framework), R"("gpu": "A100-SXM-80GB")",
                         absl::StrCat(R"("gpu": ")", gpu, "\"")),
                    R"("recompute": "full")",
                    absl::StrCat(R"("recompute": "full", "cite": ")", cite, "\"")))
        .runtime.runtime_id;
  };
  constexpr char kA100[] = "A100-SXM-80GB";
  EXPECT_EQ(runtime("Megatron-LM", kA100, "arXiv:2205.05198 Table 5"), "megatron-2022");
  EXPECT_EQ(runtime("Megatron-LM", kA100, "arXiv:2104.04473 Table 1"), "megatron-2021");
  EXPECT_EQ(runtime("Megatron-LM", kA100, "arXiv:none"), "megatron-2021");
  EXPECT_EQ(runtime("Megatron-LM", kA100, "a table"), "megatron-2021");
  EXPECT_EQ(runtime("Megatron-LM", "H100", "arXiv:2205.05198"), "megatron-core");
  EXPECT_EQ(runtime("Megatron-DeepSpeed", kA100, "arXiv:2312.12391"), "megatron-deepspeed");
}

TEST(RuntimeOf, KnowsTheModelsAndPrecisionOfSailor) {
  const std::string row = With(GptRow(), "Megatron-LM", "Sailor (Megatron-DeepSpeed)");
  const RunQuestion said = QuestionOfRow(row);
  EXPECT_EQ(said.runtime.runtime_id, "megatron-deepspeed");
  EXPECT_FALSE(said.runtime.attention_dropout);
  EXPECT_TRUE(said.runtime.hidden_dropout);
  EXPECT_FALSE(said.runtime.fused_softmax);
  EXPECT_EQ(said.model->precision(), Precision::kFp16);
  const RunQuestion open = QuestionOfRow(With(row, R"("fp16")", R"("see repo")"));
  EXPECT_EQ(open.model->precision(), Precision::kFp32);
  EXPECT_THAT(open.assumptions, Contains(HasSubstr("precision is not said; taken as fp32")));
}

TEST(RuntimeOf, LeavesTheClusterToWhatTheRowSaysOfItsMachine) {
  const auto cluster = [](const char* text) {
    return std::string(
        QuestionOfRow(With(GptRow(), "8x200Gb/s HDR IB per node", text)).topology->cluster());
  };
  EXPECT_EQ(cluster("4x OmniPath 100Gb/s per node (Jean Zay)"), "jean-zay");
  EXPECT_EQ(cluster("8x200Gb/s HDR IB per node (Selene)"), "selene");
  EXPECT_EQ(cluster("Slingshot (CSCS Alps Clariden)"), "clariden");
}

// Transformer Engine's loss writes gradients over 16-bit logits.
TEST(RuntimeOf, KnowsTheFusedCrossEntropyByItsNote) {
  const std::string row = With(GptRow(), R"("recompute": "full")",
                               R"("recompute": "full", "notes": ["cross-entropy fusion"])");
  EXPECT_EQ(QuestionOfRow(row).runtime.loss_bytes_per_logit, 2);
  EXPECT_GT(QuestionOfRow(GptRow()).runtime.loss_bytes_per_logit, 2);
}

}  // namespace
}  // namespace parplan::accuracy
