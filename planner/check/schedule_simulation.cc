#include "planner/check/schedule_simulation.h"

#include <algorithm>
#include <queue>
#include <tuple>

#include "planner/base/check.h"

namespace parplan {
namespace {

// Something a stage may have waited for happens at `time`.
struct Event {
  Seconds time;
  int stage = 0;
  enum class Kind { kForwardArrives, kBackwardArrives, kStageIsFree } kind = Kind::kStageIsFree;
};

struct Later {
  bool operator()(const Event& a, const Event& b) const {
    return std::tie(a.time, a.stage, a.kind) > std::tie(b.time, b.stage, b.kind);
  }
};

// What a stage has received and done; micro-batches come and go in order.
struct StageState {
  int64_t forward_arrived = 0;
  int64_t backward_arrived = 0;
  int64_t forward_done = 0;
  int64_t backward_done = 0;
  bool busy = false;
  bool running_backward = false;
  Seconds last_end;
};

class Simulation {
 public:
  Simulation(const std::vector<SimulatedStage>& stages, int64_t micro_batch_count)
      : stages_(stages), states_(stages.size()), micro_batch_count_(micro_batch_count) {
    states_.front().forward_arrived = micro_batch_count;
  }

  Seconds Run() {
    StartNext(0, Seconds());
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      StageState& state = states_[event.stage];
      switch (event.kind) {
        case Event::Kind::kForwardArrives:
          ++state.forward_arrived;
          break;
        case Event::Kind::kBackwardArrives:
          ++state.backward_arrived;
          break;
        case Event::Kind::kStageIsFree:
          Finish(event.stage, event.time);
          break;
      }
      StartNext(event.stage, event.time);
    }
    Seconds end;
    for (size_t stage = 0; stage < stages_.size(); ++stage) {
      PARPLAN_CHECK(states_[stage].backward_done == micro_batch_count_);
      end = std::max(end, states_[stage].last_end + stages_[stage].gradient_sync);
    }
    return end;
  }

 private:
  void StartNext(int index, Seconds now) {
    StageState& state = states_[index];
    if (state.busy) return;
    const int64_t in_flight = state.forward_done - state.backward_done;
    const bool forward =
        state.forward_done < micro_batch_count_ && in_flight < stages_[index].most_in_flight;
    if (forward ? state.forward_arrived <= state.forward_done
                : state.backward_arrived <= state.backward_done) {
      return;
    }
    state.busy = true;
    state.running_backward = !forward;
    const Seconds duration = forward ? stages_[index].forward : stages_[index].backward;
    events_.push({now + duration, index, Event::Kind::kStageIsFree});
  }

  void Finish(int index, Seconds now) {
    StageState& state = states_[index];
    state.busy = false;
    state.last_end = now;
    const int last = static_cast<int>(stages_.size()) - 1;
    if (state.running_backward) {
      ++state.backward_done;
      if (index > 0) {
        events_.push({now + stages_[index - 1].send, index - 1, Event::Kind::kBackwardArrives});
      }
      return;
    }
    ++state.forward_done;
    if (index < last) {
      events_.push({now + stages_[index].send, index + 1, Event::Kind::kForwardArrives});
    } else {
      ++state.backward_arrived;
    }
  }

  const std::vector<SimulatedStage>& stages_;
  std::vector<StageState> states_;
  const int64_t micro_batch_count_;
  std::priority_queue<Event, std::vector<Event>, Later> events_;
};

}  // namespace

Seconds SimulateStep(const std::vector<SimulatedStage>& stages, int64_t micro_batch_count) {
  PARPLAN_CHECK(!stages.empty() && micro_batch_count > 0);
  return Simulation(stages, micro_batch_count).Run();
}

}  // namespace parplan
