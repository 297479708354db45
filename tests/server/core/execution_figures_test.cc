#include "server/core/execution_figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "server/core/window_rules.h"
#include "tests/server/core/core_fixture.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

constexpr int kDeviceCount = 4;
constexpr int64_t kMaxBytes = int64_t{1} << 20;

void SetMilliseconds(int64_t milliseconds, google::protobuf::Duration* duration) {
  duration->set_seconds(milliseconds / 1000);
  duration->set_nanos(static_cast<int32_t>(milliseconds % 1000) * 1000000);
}

int64_t Milliseconds(const google::protobuf::Duration& duration) {
  return duration.seconds() * 1000 + duration.nanos() / 1000000;
}

void AddPhase(v1::Phase phase, int64_t milliseconds, v1::MeasuredWindow& window) {
  v1::PhaseDuration& entry = *window.add_phase_durations();
  entry.set_phase(phase);
  SetMilliseconds(milliseconds, entry.mutable_duration());
}

void AddItem(v1::MemoryItemKind kind, int64_t size, v1::MeasuredWindow& window) {
  v1::MemoryItem& item = *window.add_memory_items();
  item.set_kind(kind);
  item.set_size_bytes(size);
}

v1::CollectiveTiming& AddTiming(v1::MeasuredWindow& window) {
  v1::CollectiveTiming& timing = *window.add_collective_timings();
  timing.set_collective(v1::COLLECTIVE_ALL_REDUCE);
  timing.set_participant_count(2);
  timing.set_rank_stride(1);
  timing.set_message_size_bytes(1024);
  SetMilliseconds(2, timing.mutable_median_duration());
  return timing;
}

v1::MeasuredWindow Window(int rank, int64_t first_step, int64_t peak = 100) {
  v1::MeasuredWindow window;
  window.set_rank(rank);
  window.set_first_step(first_step);
  window.set_step_count(10);
  SetMilliseconds(50, window.mutable_median_step_duration());
  window.set_peak_memory_bytes(peak);
  return window;
}

std::map<v1::Phase, int64_t> Phases(
    const google::protobuf::RepeatedPtrField<v1::PhaseDuration>& entries) {
  std::map<v1::Phase, int64_t> phases;
  for (const v1::PhaseDuration& entry : entries) {
    phases[entry.phase()] = Milliseconds(entry.duration());
  }
  return phases;
}

std::map<v1::MemoryItemKind, int64_t> Items(
    const google::protobuf::RepeatedPtrField<v1::MemoryItem>& entries) {
  std::map<v1::MemoryItemKind, int64_t> items;
  for (const v1::MemoryItem& entry : entries) items[entry.kind()] = entry.size_bytes();
  return items;
}

// Two stages of two ranks.
v1::Execution TwoStages() {
  v1::Execution execution;
  SetMilliseconds(40, execution.mutable_predicted_step_duration());
  for (const int first : {0, 2}) {
    v1::ExecutionStage& stage = *execution.add_stages();
    stage.set_first_rank(first);
    stage.set_rank_count(2);
  }
  return execution;
}

WindowRecord Record(const v1::MeasuredWindow& window) {
  const absl::StatusOr<WindowRecord> record = ReadWindow(window, kDeviceCount, kMaxBytes);
  EXPECT_OK(record.status());
  return record.ok() ? *record : WindowRecord();
}

TEST(ExecutionFigures, StagesAreMeasuredByTheirOwnRanks) {
  v1::MeasuredWindow first = Window(0, 0);
  AddPhase(v1::PHASE_FORWARD, 10, first);
  AddPhase(v1::PHASE_PIPELINE, 4, first);
  v1::MeasuredWindow second = Window(1, 0);
  AddPhase(v1::PHASE_FORWARD, 12, second);
  v1::MeasuredWindow silent = Window(0, 10);
  v1::MeasuredWindow other = Window(3, 0);
  AddPhase(v1::PHASE_BACKWARD, 30, other);
  v1::Execution execution = TwoStages();
  ASSERT_OK_AND_ASSIGN(
      const ExecutionFigures figures,
      FiguresOfWindows({Record(first), Record(second), Record(silent), Record(other)}, execution));
  AddFigures(figures, &execution);
  // A window without phases has no information on them; a phase missing among others is 0.
  EXPECT_THAT(Phases(execution.stages(0).measured_phase_durations()),
              ElementsAre(Pair(v1::PHASE_FORWARD, 11), Pair(v1::PHASE_PIPELINE, 2)));
  EXPECT_THAT(Phases(execution.stages(1).measured_phase_durations()),
              ElementsAre(Pair(v1::PHASE_BACKWARD, 30)));
  EXPECT_DOUBLE_EQ(execution.step_duration_ratio(), 1.25);
}

TEST(ExecutionFigures, MemoryItemsAreThoseOfTheHighestPeak) {
  v1::MeasuredWindow low = Window(0, 0, 100);
  AddItem(v1::MEMORY_ITEM_KIND_PARAMETERS, 60, low);
  v1::MeasuredWindow high = Window(1, 0, 200);
  AddItem(v1::MEMORY_ITEM_KIND_PARAMETERS, 50, high);
  AddItem(v1::MEMORY_ITEM_KIND_ACTIVATIONS, 150, high);
  const v1::MeasuredWindow higher_without_items = Window(1, 10, 300);
  v1::Execution execution = TwoStages();
  ASSERT_OK_AND_ASSIGN(
      const ExecutionFigures figures,
      FiguresOfWindows({Record(low), Record(high), Record(higher_without_items)}, execution));
  AddFigures(figures, &execution);
  EXPECT_THAT(Items(execution.stages(0).measured_memory_items()),
              ElementsAre(Pair(v1::MEMORY_ITEM_KIND_PARAMETERS, 50),
                          Pair(v1::MEMORY_ITEM_KIND_ACTIVATIONS, 150)));
  EXPECT_EQ(execution.stages(0).measured_peak_memory_bytes(), 300);
  EXPECT_FALSE(execution.stages(1).has_measured_peak_memory_bytes());
  EXPECT_EQ(execution.measured_peak_memory_bytes(), 300);
}

TEST(ExecutionFigures, ExecutionsOfOlderServersHaveNoStagesAndStillAMedian) {
  v1::Execution execution;
  v1::MeasuredWindow window = Window(0, 0);
  AddPhase(v1::PHASE_FORWARD, 10, window);
  ASSERT_OK_AND_ASSIGN(const ExecutionFigures figures,
                       FiguresOfWindows({Record(window)}, execution));
  AddFigures(figures, &execution);
  EXPECT_THAT(execution.stages(), IsEmpty());
  EXPECT_EQ(Milliseconds(execution.measured_step_duration()), 50);
}

TEST(ExecutionFigures, ADamagedWindowIsNamedAsOne) {
  WindowRecord record = Record(Window(0, 0));
  record.items = "\xff\xff";
  EXPECT_THAT(FiguresOfWindows({record}, TwoStages()).status(),
              StatusIs(absl::StatusCode::kDataLoss));
}

TEST(ReportRatios, LeaveOutWhatIsSmallAndWhatWasNotMeasured) {
  v1::Execution execution = TwoStages();
  v1::ExecutionStage& stage = *execution.mutable_stages(0);
  const auto phase = [](v1::Phase phase, int64_t milliseconds, v1::PhaseDuration* entry) {
    entry->set_phase(phase);
    SetMilliseconds(milliseconds, entry->mutable_duration());
  };
  SetMilliseconds(400, execution.mutable_predicted_step_duration());
  phase(v1::PHASE_FORWARD, 100, stage.add_predicted_phase_durations());
  phase(v1::PHASE_PIPELINE, 20, stage.add_predicted_phase_durations());
  phase(v1::PHASE_IDLE, 4, stage.add_predicted_phase_durations());
  phase(v1::PHASE_FORWARD, 110, stage.add_measured_phase_durations());
  *execution.mutable_stages(1)->add_predicted_phase_durations() =
      stage.predicted_phase_durations(0);
  const auto item = [](v1::MemoryItemKind kind, int64_t size, v1::MemoryItem* entry) {
    entry->set_kind(kind);
    entry->set_size_bytes(size);
  };
  stage.set_predicted_peak_memory_bytes(1000);
  item(v1::MEMORY_ITEM_KIND_LOGITS, 500, stage.add_predicted_memory_items());
  item(v1::MEMORY_ITEM_KIND_CONTEXT, 10, stage.add_predicted_memory_items());
  item(v1::MEMORY_ITEM_KIND_LOGITS, 400, stage.add_measured_memory_items());
  RecordingObserver observer;
  ReportRatios(execution, "lab", observer);
  EXPECT_THAT(observer.phase_ratios(),
              ElementsAre(Pair(v1::PHASE_FORWARD, 1.1), Pair(v1::PHASE_PIPELINE, 0.0)));
  EXPECT_THAT(observer.item_ratios(), ElementsAre(Pair(v1::MEMORY_ITEM_KIND_LOGITS, 0.8)));
}

TEST(PredictedStages, PhasesAddUpToTheStep) {
  v1::PlanPayload payload;
  payload.set_micro_batch_count(4);
  v1::StagePlan& ranks = *payload.add_stages();
  ranks.set_rank_count(8);
  v1::Prediction& prediction = *payload.mutable_prediction();
  SetMilliseconds(200, prediction.mutable_step_duration());
  v1::StagePrediction& stage = *prediction.add_stages();
  const auto add = [&](v1::TimeItemKind kind, int64_t milliseconds) {
    v1::TimeItem& item = *stage.add_time_items();
    item.set_kind(kind);
    SetMilliseconds(milliseconds, item.mutable_duration());
  };
  add(v1::TIME_ITEM_KIND_FORWARD_COMPUTE, 10);
  add(v1::TIME_ITEM_KIND_BACKWARD_COMPUTE, 20);
  add(v1::TIME_ITEM_KIND_LAUNCH, 1);
  add(v1::TIME_ITEM_KIND_RECOMPUTE, 0);
  SetMilliseconds(15, stage.mutable_gradient_sync_duration());
  SetMilliseconds(5, stage.mutable_optimizer_step_duration());
  stage.set_idle_ratio(0.25);
  stage.set_peak_memory_bytes(7);
  const std::vector<v1::ExecutionStage> stages = PredictedStages(payload);
  ASSERT_EQ(stages.size(), 1);
  EXPECT_EQ(stages[0].rank_count(), 8);
  EXPECT_EQ(stages[0].predicted_peak_memory_bytes(), 7);
  // 4 x 1 ms of launches and 6 ms of nothing are idle.
  EXPECT_THAT(Phases(stages[0].predicted_phase_durations()),
              ElementsAre(Pair(v1::PHASE_FORWARD, 40), Pair(v1::PHASE_BACKWARD, 80),
                          Pair(v1::PHASE_PIPELINE, 50), Pair(v1::PHASE_GRADIENT_SYNC, 15),
                          Pair(v1::PHASE_OPTIMIZER, 5), Pair(v1::PHASE_IDLE, 10)));
}

// Nobody checks them, so they could be of any size.
TEST(WindowRules, FieldsThatNobodyKnowsAreNotStored) {
  v1::MeasuredWindow window = Window(0, 0);
  AddPhase(v1::PHASE_FORWARD, 10, window);
  AddTiming(window);
  const WindowRecord plain = Record(window);
  for (google::protobuf::Message* message :
       {static_cast<google::protobuf::Message*>(&window),
        static_cast<google::protobuf::Message*>(window.mutable_phase_durations(0)),
        static_cast<google::protobuf::Message*>(window.mutable_collective_timings(0))}) {
    message->GetReflection()->MutableUnknownFields(message)->AddLengthDelimited(
        1000, std::string(100000, 'x'));
  }
  EXPECT_EQ(Record(window), plain);
}

// Invalid windows, and the field that the error names.
TEST(WindowRules, NameTheFieldThatBreaksOne) {
  const auto field = [](const auto& change) {
    v1::MeasuredWindow window = Window(0, 0);
    AddPhase(v1::PHASE_FORWARD, 10, window);
    AddItem(v1::MEMORY_ITEM_KIND_PARAMETERS, 60, window);
    AddTiming(window);
    EXPECT_OK(ReadWindow(window, kDeviceCount, kMaxBytes).status());
    change(window);
    return FactOf(ReadWindow(window, kDeviceCount, kMaxBytes).status(), "field");
  };
  using W = v1::MeasuredWindow;
  EXPECT_EQ(field([](W& w) { w.set_rank(4); }), "window.rank");
  EXPECT_EQ(field([](W& w) { w.set_first_step(-1); }), "window.first_step");
  EXPECT_EQ(field([](W& w) { w.set_step_count(0); }), "window.step_count");
  EXPECT_EQ(field([](W& w) { w.clear_median_step_duration(); }), "window.median_step_duration");
  EXPECT_EQ(field([](W& w) { AddPhase(v1::PHASE_UNSPECIFIED, 1, w); }),
            "window.phase_durations[1].phase");
  EXPECT_EQ(field([](W& w) { AddPhase(static_cast<v1::Phase>(77), 1, w); }),
            "window.phase_durations[1].phase");
  EXPECT_EQ(field([](W& w) { AddPhase(v1::PHASE_FORWARD, 1, w); }),
            "window.phase_durations[1].phase");
  EXPECT_EQ(field([](W& w) { AddPhase(v1::PHASE_IDLE, -1000, w); }),
            "window.phase_durations[1].duration");
  EXPECT_EQ(field([](W& w) { AddItem(v1::MEMORY_ITEM_KIND_PARAMETERS, 1, w); }),
            "window.memory_items[1].kind");
  EXPECT_EQ(field([](W& w) { AddItem(v1::MEMORY_ITEM_KIND_LOGITS, -1, w); }),
            "window.memory_items[1].size_bytes");
  EXPECT_EQ(field([](W& w) { AddItem(v1::MEMORY_ITEM_KIND_LOGITS, 41, w); }),
            "window.memory_items[1].size_bytes");
  EXPECT_EQ(field([](W& w) { w.set_peak_memory_bytes(0); }), "window.memory_items[0].size_bytes");
  EXPECT_EQ(field([](W& w) { AddTiming(w).clear_collective(); }),
            "window.collective_timings[1].collective");
  EXPECT_EQ(field([](W& w) { AddTiming(w).set_participant_count(1); }),
            "window.collective_timings[1].participant_count");
  EXPECT_EQ(field([](W& w) {
              v1::CollectiveTiming& timing = AddTiming(w);
              timing.set_collective(v1::COLLECTIVE_SEND_RECEIVE);
              timing.set_participant_count(3);
            }),
            "window.collective_timings[1].participant_count");
  EXPECT_EQ(field([](W& w) { AddTiming(w).set_rank_stride(0); }),
            "window.collective_timings[1].rank_stride");
  EXPECT_EQ(field([](W& w) { AddTiming(w).set_message_size_bytes(0); }),
            "window.collective_timings[1].message_size_bytes");
  EXPECT_EQ(field([](W& w) { AddTiming(w).clear_median_duration(); }),
            "window.collective_timings[1].median_duration");
  EXPECT_EQ(field([](W& w) { SetMilliseconds(1, AddTiming(w).mutable_p90_duration()); }),
            "window.collective_timings[1].p90_duration");
  EXPECT_EQ(field([](W& w) { AddTiming(w).set_sample_count(-1); }),
            "window.collective_timings[1].sample_count");
  EXPECT_EQ(field([](W& w) {
              while (w.collective_timings_size() <= 1024) AddTiming(w);
            }),
            "window.collective_timings");
}

TEST(WindowRules, KeepPhasesAndItemsApartFromCollectives) {
  v1::MeasuredWindow window = Window(0, 0);
  EXPECT_EQ(Record(window).items, "");
  AddTiming(window);
  EXPECT_EQ(Record(window).items, "");
  AddItem(v1::MEMORY_ITEM_KIND_PARAMETERS, 60, window);
  v1::MeasuredWindow items;
  ASSERT_TRUE(items.ParseFromString(Record(window).items));
  EXPECT_EQ(items.memory_items_size(), 1);
  EXPECT_EQ(items.collective_timings_size(), 0);
}

class ExecutionStages : public CoreTest {};

TEST_F(ExecutionStages, AnExecutionHasThePredictionByStageAndAListLeavesItOut) {
  StartMeasured();
  ASSERT_OK_AND_ASSIGN(const SharedPlan plan, Ask(Question()));
  v1::CreateExecutionRequest request;
  request.set_parent(plan->name());
  request.set_request_id("one");
  ASSERT_OK_AND_ASSIGN(const v1::Execution opened, core().executions().Create(request));
  const v1::PlanPayload payload = PayloadOf(*plan);
  ASSERT_EQ(opened.stages_size(), payload.prediction().stages_size());
  EXPECT_EQ(opened.calibration_digest(), payload.calibration_digest());
  v1::ReportMetricsRequest report;
  report.set_execution(opened.name());
  *report.mutable_window() = Window(0, 0, 1000);
  AddPhase(v1::PHASE_FORWARD, 10, *report.mutable_window());
  AddItem(v1::MEMORY_ITEM_KIND_LOGITS, 900, *report.mutable_window());
  ASSERT_OK(core().executions().StartReport()->Add(report));
  v1::GetExecutionRequest get;
  get.set_name(opened.name());
  ASSERT_OK_AND_ASSIGN(const v1::Execution measured, core().executions().Get(get));
  EXPECT_THAT(Phases(measured.stages(0).measured_phase_durations()),
              ElementsAre(Pair(v1::PHASE_FORWARD, 10)));
  EXPECT_THAT(Items(measured.stages(0).measured_memory_items()),
              ElementsAre(Pair(v1::MEMORY_ITEM_KIND_LOGITS, 900)));
  EXPECT_EQ(Items(measured.stages(0).predicted_memory_items()),
            Items(opened.stages(0).predicted_memory_items()));
  v1::ListExecutionsRequest list;
  list.set_parent(plan->name());
  ASSERT_OK_AND_ASSIGN(const v1::ListExecutionsResponse listed, core().executions().List(list));
  ASSERT_EQ(listed.executions_size(), 1);
  EXPECT_THAT(listed.executions(0).stages(), IsEmpty());
  EXPECT_TRUE(listed.executions(0).has_step_duration_ratio());
}

}  // namespace
}  // namespace parplan
