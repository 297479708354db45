#include "tests/benchmarks/timed_search.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <variant>
#include <vector>

#include "planner/find_plan.h"

namespace parplan {
namespace {

// Threads that wait for work. The caller works too.
class Crew {
 public:
  explicit Crew(int helper_count) {
    for (int i = 0; i < helper_count; ++i) helpers_.emplace_back([this] { Help(); });
  }
  ~Crew() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_all();
    for (std::thread& helper : helpers_) helper.join();
  }

  void Run(int64_t count, const std::function<void(int64_t)>& work) {
    if (count <= 1 || helpers_.empty()) {
      for (int64_t i = 0; i < count; ++i) work(i);
      return;
    }
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      work_ = &work;
      count_ = count;
      next_ = 0;
      busy_ = static_cast<int>(helpers_.size());
      ++round_;
    }
    changed_.notify_all();
    Take();
    std::unique_lock<std::mutex> lock(mutex_);
    done_.wait(lock, [this] { return busy_ == 0; });
    work_ = nullptr;
  }

 private:
  void Take() {
    for (int64_t i = next_++; i < count_; i = next_++) (*work_)(i);
  }
  void Help() {
    int64_t seen = 0;
    for (;;) {
      {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [&] { return is_over_ || round_ != seen; });
        if (is_over_) return;
        seen = round_;
      }
      Take();
      const std::lock_guard<std::mutex> lock(mutex_);
      if (--busy_ == 0) done_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable done_;
  bool is_over_ = false;
  int64_t round_ = 0;
  int busy_ = 0;
  const std::function<void(int64_t)>* work_ = nullptr;
  int64_t count_ = 0;
  std::atomic<int64_t> next_ = 0;
  std::vector<std::thread> helpers_;
};

}  // namespace

ParallelFor OnThreads(int thread_count) {
  if (thread_count <= 1) return {};
  auto crew = std::make_shared<Crew>(thread_count - 1);
  return
      [crew](int64_t count, const std::function<void(int64_t)>& work) { crew->Run(count, work); };
}

double PeakMebibytes() {
  double mebibytes = 0.0;
  if (std::FILE* const file = std::fopen("/proc/self/status", "r"); file != nullptr) {
    char line[256];
    while (std::fgets(line, sizeof(line), file) != nullptr) {
      double kibibytes = 0.0;
      if (std::sscanf(line, "VmHWM: %lf", &kibibytes) == 1) mebibytes = kibibytes / 1024.0;
    }
    std::fclose(file);
  }
  // Begins a new measurement.
  if (std::FILE* const file = std::fopen("/proc/self/clear_refs", "w"); file != nullptr) {
    std::fputs("5", file);
    std::fclose(file);
  }
  return mebibytes;
}

void TimeSearch(benchmark::State& state, const PlanningProblem& problem, const std::string& planner,
                int thread_count) {
  SearchControl control;
  control.parallel_for = OnThreads(thread_count);
  SearchSummary summary;
  double step = 0.0;
  PeakMebibytes();
  for (auto iteration : state) {
    const absl::StatusOr<PlanningResult> result = FindPlan(problem, planner, control);
    const PlanFound* const found = result.ok() ? std::get_if<PlanFound>(&*result) : nullptr;
    if (found == nullptr) {
      state.SkipWithError(result.ok() ? "nothing fits" : result.status().ToString().c_str());
      return;
    }
    summary = found->search;
    step = found->prediction.step.value();
    state.SetLabel(PlanGist(found->plan).substr(0, 100));
  }
  state.counters["peak_MiB"] = PeakMebibytes();
  state.counters["step"] = step;
  state.counters["gap"] = summary.gap_ratio;
  state.counters["optimal"] = summary.termination == Termination::kOptimal ? 1.0 : 0.0;
  state.counters["states"] = static_cast<double>(summary.expanded_state_count);
  state.counters["candidates"] = static_cast<double>(summary.candidate_count);
}

}  // namespace parplan
