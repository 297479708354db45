#include "clients/kubernetes/drift_meter.h"

#include <algorithm>
#include <vector>

#include "base/check.h"

namespace parplan::sidecar {
namespace {

// A job takes plans seldom, and most never.
constexpr size_t kMaxPlanCount = 8;

// Ranks whose first window is known: of any job, and not of all that a client may name.
constexpr size_t kMaxRankCount = 1 << 16;

absl::Duration ToDuration(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
}

absl::Duration Median(std::vector<absl::Duration> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

DriftMeter::DriftMeter(double limit, size_t window_count)
    : limit_(limit), window_count_(window_count) {
  PARPLAN_CHECK(limit > 1.0);
  PARPLAN_CHECK(window_count > 0);
}

void DriftMeter::AddPlan(const std::string& plan, const v1::Prediction& prediction) {
  const std::lock_guard<std::mutex> lock(mutex_);
  plans_.push_back({plan, ToDuration(prediction.step_duration()), prediction.peak_memory_bytes()});
  // The first plan is the job's and stays.
  if (plans_.size() > kMaxPlanCount) plans_.erase(plans_.begin() + 1);
}

void DriftMeter::Add(absl::string_view plan, absl::Span<const v1::MeasuredWindow> windows) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto known = std::find_if(plans_.begin(), plans_.end(),
                                  [&](const Plan& other) { return other.name == plan; });
  if (known == plans_.end()) return;
  if (known != plans_.begin()) {
    plans_.erase(plans_.begin(), known);
    seen_.clear();
    first_steps_.clear();
    measured_peak_ = 0;
  }
  for (const v1::MeasuredWindow& window : windows) {
    bool is_first = false;
    if (first_steps_.size() < kMaxRankCount || first_steps_.contains(window.rank())) {
      const auto [first, is_new] = first_steps_.try_emplace(window.rank(), window.first_step());
      is_first = is_new || window.first_step() <= first->second;
    }
    seen_.push_back({ToDuration(window.median_step_duration()), is_first});
    if (seen_.size() > window_count_) seen_.pop_front();
    measured_peak_ = std::max(measured_peak_, window.peak_memory_bytes());
  }
}

Drift DriftMeter::Get() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  Drift drift;
  if (plans_.empty()) return drift;
  const Plan& predicted = plans_.front();
  if (measured_peak_ > 0 && predicted.peak_bytes > 0) {
    drift.memory_ratio =
        static_cast<double>(measured_peak_) / static_cast<double>(predicted.peak_bytes);
  }
  if (seen_.empty() || predicted.step <= absl::ZeroDuration()) return drift;
  std::vector<absl::Duration> warm;
  std::vector<absl::Duration> all;
  for (const Seen& seen : seen_) {
    all.push_back(seen.step);
    if (!seen.is_first) warm.push_back(seen.step);
  }
  const absl::Duration step = Median(warm.empty() ? all : warm);
  drift.step_ratio = absl::FDivDuration(step, predicted.step);
  drift.is_drifting = *drift.step_ratio > limit_ || *drift.step_ratio * limit_ < 1.0;
  return drift;
}

}  // namespace parplan::sidecar
