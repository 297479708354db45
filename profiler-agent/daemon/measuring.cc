#include "profiler-agent/daemon/measuring.h"

#include <utility>

#include "base/system/steady_clock.h"

namespace parplan {
namespace {

constexpr char kWhyStopped[] = "the agent ends";

}  // namespace

Measuring::Measuring(const NodeInventory& inventory, NextProbe probe, agent::v1::ProbePlan whole,
                     MeasurementOptions options, WakeSet& wakes)
    : inventory_(inventory),
      fingerprint_(InventoryFingerprint(inventory)),
      probe_(std::move(probe)),
      whole_(std::move(whole)),
      start_(SteadyNow()) {
  options.on_job = [this](NodeJob* job) {
    const std::lock_guard<std::mutex> lock(mutex_);
    job_ = job;
    if (job_ != nullptr && is_stopping_) job_->Stop(kWhyStopped);
  };
  thread_ = std::thread([this, options = std::move(options), &wakes] {
    absl::StatusOr<v1::Profile> profile = MeasureNode(inventory_, probe_.plan, options);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      profile_ = std::move(profile);
    }
    wakes.Call();
  });
}

Measuring::~Measuring() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_stopping_ = true;
    if (job_ != nullptr) job_->Stop(kWhyStopped);
  }
  thread_.join();
}

std::optional<absl::StatusOr<v1::Profile>> Measuring::TakeProfile() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(profile_, std::nullopt);
}

}  // namespace parplan
