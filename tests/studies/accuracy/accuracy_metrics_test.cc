#include "studies/accuracy/accuracy_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/clients/calibrate/accuracy_samples.h"

namespace parplan::accuracy {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

AccuracyFigures FiguresOfRows(const std::vector<AccuracyRow>& rows) {
  std::vector<const AccuracyRow*> pointers;
  for (const AccuracyRow& row : rows) pointers.push_back(&row);
  return FiguresOf(pointers);
}

// Errors +10 %, -20 %, +40 %.
TEST(FiguresOf, FollowsHandWorkedTimes) {
  const AccuracyFigures figures =
      FiguresOfRows({TimedRow("a", 1.1, 1.0), TimedRow("b", 1.6, 2.0), TimedRow("c", 7.0, 5.0)});
  EXPECT_EQ(figures.count, 3);
  EXPECT_EQ(figures.time_count, 3);
  EXPECT_NEAR(*figures.time_mape, 0.7 / 3, 1e-12);
  EXPECT_NEAR(*figures.time_median, 0.2, 1e-12);
  EXPECT_NEAR(*figures.time_bias, 0.3 / 3, 1e-12);
  EXPECT_FALSE(figures.memory_mape.has_value());
  EXPECT_FALSE(figures.time_in_range.has_value());
  EXPECT_EQ(figures.false_refusals, 0.0);
}

AccuracyRow MemoryRow(int64_t predicted, int64_t upper, std::optional<int64_t> measured,
                      std::optional<bool> out_of_memory) {
  AccuracyRow row = TimedRow("m", 1.0, 1.0);
  row.measured_step.reset();
  row.device_memory = Bytes::Of(100);
  row.prediction.memory = Bytes::Of(predicted);
  row.prediction.memory_bound = Bytes::Of(upper);
  row.prediction.memory_upper = Bytes::Of(upper);
  if (measured.has_value()) row.measured_memory = Bytes::Of(*measured);
  row.out_of_memory = out_of_memory;
  return row;
}

// A peak counts against the bound of what its source counts, not against that of the whole device.
TEST(FiguresOf, JudgesABoundInItsOwnView) {
  AccuracyRow row = MemoryRow(45, 60, 50, false);
  EXPECT_EQ(FiguresOfRows({row}).memory_over_bound, 0.0);
  row.prediction.memory_bound = Bytes::Of(49);
  EXPECT_EQ(FiguresOfRows({row}).memory_over_bound, 1.0);
}

// Two runs failed for reasons not said, one of which is refused.
TEST(FiguresOf, CountsRunsThatFailedForReasonsNotSaid) {
  AccuracyRow refused = MemoryRow(90, 101, std::nullopt, std::nullopt);
  AccuracyRow allowed = MemoryRow(70, 99, std::nullopt, std::nullopt);
  refused.failed = allowed.failed = true;
  const AccuracyFigures figures = FiguresOfRows({refused, allowed});
  EXPECT_EQ(figures.failed_total, 2);
  EXPECT_EQ(figures.failed_refused, 1);
  EXPECT_EQ(figures.oom_total, 0);
  EXPECT_FALSE(figures.false_refusals.has_value());
}

// Errors of -10 % and +25 %. Two runs failed, one of which is refused; of three that did not fail,
// one is refused; the outcome of one is unknown.
TEST(FiguresOf, FollowsHandWorkedMemory) {
  const AccuracyFigures figures = FiguresOfRows(
      {MemoryRow(45, 60, 50, false), MemoryRow(100, 110, 80, false),
       MemoryRow(70, 100, std::nullopt, false), MemoryRow(70, 101, std::nullopt, true),
       MemoryRow(70, 100, std::nullopt, true), MemoryRow(70, 200, std::nullopt, std::nullopt)});
  EXPECT_EQ(figures.count, 6);
  EXPECT_EQ(figures.time_count, 0);
  EXPECT_EQ(figures.memory_count, 2);
  EXPECT_NEAR(*figures.memory_mape, 0.175, 1e-12);
  EXPECT_NEAR(*figures.memory_bias, 0.075, 1e-12);
  EXPECT_EQ(figures.memory_under_rate, 0.5);
  EXPECT_EQ(figures.oom_total, 2);
  EXPECT_EQ(figures.oom_refused, 1);
  EXPECT_NEAR(*figures.false_refusals, 1.0 / 3, 1e-12);
}

TEST(FiguresOf, CountsStepsWithinTheirRanges) {
  AccuracyRow in = TimedRow("in", 1.1, 1.0);
  in.prediction.step_range = StepRange{Seconds::Of(1.0), Seconds::Of(1.2)};
  AccuracyRow out = in;
  out.measured_step = Seconds::Of(1.3);
  EXPECT_EQ(FiguresOfRows({in, out, TimedRow("no range", 1.0, 1.0)}).time_in_range, 0.5);
}

TEST(FiguresOf, HasNothingToSayOfNothing) {
  const AccuracyFigures figures = FiguresOf({});
  EXPECT_EQ(figures.count, 0);
  EXPECT_FALSE(figures.time_mape.has_value());
  EXPECT_FALSE(figures.false_refusals.has_value());
}

TEST(GroupsOf, NeedsThreeDifferentPlansOfOneJob) {
  std::vector<AccuracyRow> rows = {TimedRow("a", 1.0, 11.0), TimedRow("b", 2.0, 10.0),
                                   TimedRow("b2", 3.0, 12.0)};
  rows[2].plan_key = "b";
  EXPECT_THAT(GroupsOf(rows), IsEmpty());
  rows.push_back(TimedRow("c", 4.0, 30.0));
  rows.push_back(TimedRow("elsewhere", 0.1, 1.0));
  rows.back().job_key = "another job";
  rows.push_back(TimedRow("not measured", 0.1, 1.0));
  rows.back().measured_step.reset();
  const std::vector<JobGroup> groups = GroupsOf(rows);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].row_count, 4);
  EXPECT_EQ(groups[0].plan_count, 3);
  EXPECT_NEAR(groups[0].regret, 0.1, 1e-12);
  // Ranks 1 2 3 4 against 2 1 3 4: 1 - 6 * 2 / (4 * 15).
  EXPECT_NEAR(*groups[0].rank_correlation, 0.8, 1e-12);
}

TEST(FiguresOfGroups, AreMeansAndTheWorst) {
  JobGroup a;
  a.regret = 0.1;
  a.rank_correlation = 0.5;
  JobGroup b;
  b.regret = 0.3;
  const GroupFigures figures = FiguresOfGroups(std::vector<const JobGroup*>{&a, &b});
  EXPECT_EQ(figures.count, 2);
  EXPECT_DOUBLE_EQ(*figures.regret_mean, 0.2);
  EXPECT_DOUBLE_EQ(*figures.regret_max, 0.3);
  EXPECT_DOUBLE_EQ(*figures.rank_correlation_mean, 0.5);
}

// SHA-256 of the ids, taken as numbers with another program.
TEST(IsFitted, FollowsTheSliceRule) {
  EXPECT_FALSE(IsFitted("vtrain-single", "vtrain-single-0000"));
  for (const char* id : {"vtrain-single-0023", "vtrain-single-0029"})
    EXPECT_TRUE(IsFitted("vtrain-single", id)) << id;
  EXPECT_TRUE(IsFitted("megatron-ci-golden", "mlmci-gpt-gpt3_mcore_tp1_pp4-lts"));
  EXPECT_FALSE(IsFitted("megatron-ci-golden", "mlmci-gpt-gpt3_mcore_tp1_pp2-lts"));
  EXPECT_FALSE(IsFitted("vtrain-multi", "vtrain-single-0023"));
}

TEST(Summarise, SeparatesUnfittedRowsAndRanksTheWorst) {
  std::vector<AccuracyRow> rows;
  for (int i = 0; i < 8; ++i) {
    rows.push_back(TimedRow(std::string(1, static_cast<char>('a' + i)), 1.0 + 0.1 * i, 1.0));
    rows.back().fitted = i == 7;
  }
  const AccuracySummary summary = Summarise(std::move(rows), {{"s", "other", "why"}}, "built-in");
  const SourceAccuracy& accuracy = summary.sources.at("a-source");
  EXPECT_EQ(accuracy.all.count, 8);
  EXPECT_EQ(accuracy.unfitted.count, 7);
  EXPECT_NEAR(*accuracy.unfitted.time_bias, 0.3, 1e-12);
  std::string worst;
  for (const AccuracyRow* row : accuracy.worst_time) worst += row->id;
  EXPECT_EQ(worst, "hgfed");
  EXPECT_THAT(accuracy.worst_memory, IsEmpty());
  EXPECT_EQ(summary.sources.at("other").skipped, 1);
  EXPECT_EQ(summary.sources.at("other").all.count, 0);
}

// The run of GptRow with what a predictor says of it.
AccuracySummary EvaluateRow(const std::string& row, const std::vector<std::string>& sources,
                            const RunPredictor& predict) {
  return Evaluate(*ReadPublishedRuns(RunsFile({row})), sources, predict, "c");
}

TEST(Evaluate, JoinsPredictionsWithWhatWasMeasured) {
  RunPrediction prediction;
  prediction.step = Seconds::Of(3.0);
  const RunPredictor three = [&prediction](const RunQuestion&) { return prediction; };
  const AccuracySummary summary = EvaluateRow(GptRow(), {}, three);
  ASSERT_EQ(summary.rows.size(), 1u);
  EXPECT_NEAR(*summary.rows[0].TimeError(), 1.0, 1e-12);
  EXPECT_NEAR(*summary.rows[0].MemoryError(), -1.0, 1e-12);
  EXPECT_EQ(summary.rows[0].out_of_memory, false);
  EXPECT_EQ(summary.calibration_id, "c");
  EXPECT_THAT(EvaluateRow(GptRow(), {"another"}, three).sources, IsEmpty());
  // For memory only.
  const AccuracySummary memory =
      EvaluateRow(With(GptRow(), R"("validation")", R"("memory-validation")"), {}, three);
  EXPECT_FALSE(memory.rows[0].TimeError().has_value());
  EXPECT_TRUE(memory.rows[0].MemoryError().has_value());
  // A run with a time has run, even if its source does not say so.
  EXPECT_EQ(EvaluateRow(With(GptRow(), R"("oom": false)", R"("oom": null)"), {}, three)
                .rows[0]
                .out_of_memory,
            false);
}

TEST(Evaluate, ListsWhatItCouldNotPredict) {
  const RunPredictor refuses = [](const RunQuestion&) -> absl::StatusOr<RunPrediction> {
    return absl::FailedPreconditionError("nothing is known");
  };
  const AccuracySummary summary = EvaluateRow(GptRow(), {}, refuses);
  EXPECT_THAT(summary.rows, IsEmpty());
  ASSERT_EQ(summary.skipped.size(), 1u);
  EXPECT_EQ(summary.skipped[0].reason, "nothing is known");
  EXPECT_EQ(summary.sources.at("a-source").skipped, 1);
}

TEST(DominatingTerms, NamesTheTwoLargest) {
  MemoryItems items;
  EXPECT_EQ(DominatingTerms(items), "");
  items[MemoryItemKind::kActivations] = Bytes::Of(60);
  EXPECT_EQ(DominatingTerms(items), "activations 100 %");
  items[MemoryItemKind::kParameters] = Bytes::Of(30);
  items[MemoryItemKind::kContext] = Bytes::Of(10);
  EXPECT_EQ(DominatingTerms(items), "activations 60 %, parameters 30 %");
}

TEST(ItemsInView, CountsWhatASourceCanSee) {
  MemoryItems items;
  for (int i = 0; i < kMemoryItemKindCount; ++i) items.size[i] = Bytes::Of(1);
  EXPECT_EQ(ItemsInView(items, MemoryView::kDeviceTotal).Total(), items.Total());
  EXPECT_EQ(ItemsInView(items, MemoryView::kReservedMax).Total() + Bytes::Of(2), items.Total());
  EXPECT_EQ(ItemsInView(items, MemoryView::kAllocatedMax).Total() + Bytes::Of(3), items.Total());
  EXPECT_EQ(ItemsInView(items, MemoryView::kReservedFirstRank),
            ItemsInView(items, MemoryView::kReservedMax));
  for (const MemoryView one : {MemoryView::kAllocatedLastRank, MemoryView::kAllocatedFirstRank}) {
    EXPECT_EQ(ItemsInView(items, one), ItemsInView(items, MemoryView::kAllocatedMax));
  }
}

}  // namespace
}  // namespace parplan::accuracy
