#include "planner/cost/pipeline_schedule.h"

#include <algorithm>

#include "planner/base/check.h"

namespace parplan {
namespace {

// One step of work of a stage.
struct Task {
  bool is_backward;
  int64_t micro_batch_index;
};

// The order of work of stage `stage` is fixed by the schedule: `warm_up`
// forward passes, then one forward and one backward in turn, then what is left
// of the backward passes. GPipe warms up with all.
class StageOrder {
 public:
  StageOrder(Schedule schedule, int stage_count, int stage, int64_t micro_batch_count)
      : micro_batch_count_(micro_batch_count),
        warm_up_(schedule == Schedule::kGpipe && stage_count > 1
                     ? micro_batch_count
                     : std::min<int64_t>(stage_count - stage - 1, micro_batch_count)) {}

  int64_t size() const { return 2 * micro_batch_count_; }

  Task At(int64_t position) const {
    if (position < warm_up_) return {false, position};
    const int64_t steady = 2 * (micro_batch_count_ - warm_up_);
    const int64_t offset = position - warm_up_;
    if (offset >= steady) return {true, position - micro_batch_count_};
    if (offset % 2 == 0) return {false, warm_up_ + offset / 2};
    return {true, offset / 2};
  }

 private:
  int64_t micro_batch_count_;
  int64_t warm_up_;
};

// Walks all tasks of all stages in an order in which everything a task waits
// for is done, and calls `visit(stage, task, start, end)`. Returns the end of
// the step.
//
// A task waits for at most one other: micro-batch k forward for k forward of
// the stage before, k backward for k backward of the stage behind. A boundary
// carries micro-batches in order, so each direction is a queue of arrival
// times; a stage that can't go on yields to its neighbour.
template <typename Visit>
Seconds Simulate(Schedule schedule, absl::Span<const StageTimes> stages, int64_t micro_batch_count,
                 Visit visit) {
  const int stage_count = static_cast<int>(stages.size());
  PARPLAN_CHECK(stage_count > 0 && micro_batch_count > 0);
  const size_t slots = static_cast<size_t>(stage_count) * static_cast<size_t>(micro_batch_count);
  std::vector<Seconds> forward_arrival(slots);
  std::vector<Seconds> backward_arrival(slots);
  std::vector<int64_t> forward_ready(stage_count, 0);
  std::vector<int64_t> backward_ready(stage_count, 0);
  forward_ready.front() = micro_batch_count;
  std::vector<int64_t> position(stage_count, 0);
  std::vector<Seconds> free_at(stage_count);
  std::vector<StageOrder> orders;
  for (int i = 0; i < stage_count; ++i) {
    orders.emplace_back(schedule, stage_count, i, micro_batch_count);
  }
  const auto slot = [micro_batch_count](int stage, int64_t micro_batch) {
    return static_cast<size_t>(stage) * static_cast<size_t>(micro_batch_count) +
           static_cast<size_t>(micro_batch);
  };

  int64_t left = 2 * micro_batch_count * stage_count;
  int stage = 0;
  int direction = 1;
  while (left > 0) {
    bool moved = false;
    while (position[stage] < orders[stage].size()) {
      const Task task = orders[stage].At(position[stage]);
      const int64_t k = task.micro_batch_index;
      if (!task.is_backward) {
        if (k >= forward_ready[stage]) break;
        const Seconds start = std::max(free_at[stage], forward_arrival[slot(stage, k)]);
        const Seconds end = start + stages[stage].forward;
        visit(stage, task, start, end);
        free_at[stage] = end;
        if (stage + 1 < stage_count) {
          forward_arrival[slot(stage + 1, k)] = end + stages[stage].send;
          forward_ready[stage + 1] = k + 1;
        } else {
          backward_arrival[slot(stage, k)] = end;
          backward_ready[stage] = k + 1;
        }
      } else {
        if (k >= backward_ready[stage]) break;
        const Seconds start = std::max(free_at[stage], backward_arrival[slot(stage, k)]);
        const Seconds end = start + stages[stage].backward;
        visit(stage, task, start, end);
        free_at[stage] = end;
        if (stage > 0) {
          backward_arrival[slot(stage - 1, k)] = end + stages[stage - 1].send;
          backward_ready[stage - 1] = k + 1;
        }
      }
      ++position[stage];
      --left;
      moved = true;
    }
    // Sweep down and up: what a stage waits for is made by a neighbour.
    if (stage + direction < 0 || stage + direction >= stage_count) direction = -direction;
    if (stage_count > 1) stage += direction;
    PARPLAN_CHECK(moved || stage_count > 1 || left == 0);
  }
  Seconds end;
  for (int i = 0; i < stage_count; ++i) {
    end = std::max(end, free_at[i] + stages[i].gradient_sync);
  }
  return end;
}

}  // namespace

Seconds StepTime(Schedule schedule, absl::Span<const StageTimes> stages,
                 int64_t micro_batch_count) {
  return Simulate(schedule, stages, micro_batch_count, [](int, const Task&, Seconds, Seconds) {});
}

std::vector<PipelineEvent> PipelineEvents(Schedule schedule, absl::Span<const StageTimes> stages,
                                          int64_t micro_batch_count) {
  std::vector<PipelineEvent> events;
  Simulate(schedule, stages, micro_batch_count,
           [&events](int stage, const Task& task, Seconds start, Seconds end) {
             events.push_back({stage, task.micro_batch_index, task.is_backward, start, end});
           });
  std::stable_sort(
      events.begin(), events.end(),
      [](const PipelineEvent& a, const PipelineEvent& b) { return a.stage_index < b.stage_index; });
  return events;
}

}  // namespace parplan
