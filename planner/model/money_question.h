// A question about the cost of a run of training: the price and the power of devices, the length of
// the run, and the limits it must meet. proto/wire/money_wire.h reads it from messages;
// planner/worth weighs plans by it (docs/money.md).

#ifndef PARPLAN_PLANNER_MODEL_MONEY_QUESTION_H_
#define PARPLAN_PLANNER_MODEL_MONEY_QUESTION_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/units.h"
#include "planner/model/model_spec.h"

namespace parplan {

// The bounds of the members below. They are far above what anybody pays or trains, and low enough
// that products of all of them are finite.
inline constexpr double kMaxPricePerDeviceHour = 1e6;
inline constexpr double kMaxPowerWatts = 1e5;
inline constexpr int64_t kMaxRunStepCount = 1'000'000'000'000;
inline constexpr int64_t kMaxRunSampleCount = 1'000'000'000'000'000;
inline constexpr int64_t kMaxRunTokenCount = 1'000'000'000'000'000'000;
inline constexpr int kMaxSpareNodeCount = 65536;

// The price and the power of one kind of device.
struct DeviceTerms {
  // For example `NVIDIA A100-SXM4-40GB`.
  std::string device_kind;
  // Price of one device for one hour, from 0 to `kMaxPricePerDeviceHour`, in any currency.
  double price_per_device_hour = 0.0;
  // Power of one device while it works and while it waits, in watts; absent if unknown. The first
  // is above 0 and at most `kMaxPowerWatts`, the second from 0 to the first.
  std::optional<double> power_watts;
  std::optional<double> idle_power_watts;

  // Returns `raw`, or INVALID_ARGUMENT (SPEC_INVALID) naming the member below `field` that is empty
  // or out of its bounds, NaN included. A power while waiting needs one while working here.
  static absl::StatusOr<DeviceTerms> Create(DeviceTerms raw, absl::string_view field);
  friend bool operator==(const DeviceTerms&, const DeviceTerms&) = default;
};

// The length of a run in one of three units; the other two are 0.
struct RunLength {
  int64_t step_count = 0;
  int64_t sample_count = 0;
  int64_t token_count = 0;

  // Returns `raw`, or INVALID_ARGUMENT (SPEC_INVALID) naming a member below `field` that is
  // negative or above its bound, or `step_count` if not exactly one is above 0.
  static absl::StatusOr<RunLength> Create(RunLength raw, absl::string_view field);
  friend bool operator==(const RunLength&, const RunLength&) = default;
};

// Returns `length` in steps or samples: tokens become samples, rounded up, of as many tokens as the
// sequences of `model` have. INVALID_ARGUMENT (SPEC_INVALID) naming a member below `field` for
// tokens of a model whose layers differ in their sequence length or have none, and for steps if
// `searches_batch`: steps of different batches are different runs.
absl::StatusOr<RunLength> LengthWithoutTokens(const RunLength& length, const ModelSpec& model,
                                              bool searches_batch, absl::string_view field);

// Returns the steps of a run by a plan of `global_batch_size` samples a step: samples are rounded
// up. REQUIRES, unchecked: `length` is from `LengthWithoutTokens`, and the batch is above 0.
int64_t StepCountOf(const RunLength& length, int64_t global_batch_size);

// The limits that a run must meet.
struct MoneyLimits {
  // Longest time of all steps, above 0; absent for no deadline.
  std::optional<Seconds> deadline;
  // Most that the run may cost, finite and at least 0; absent for no budget.
  std::optional<double> budget;
  // Whether both must hold at the upper end of the predicted range, rather than at the prediction.
  bool uses_upper_end = false;

  // Returns `raw`, or INVALID_ARGUMENT (SPEC_INVALID) naming `deadline_duration` or `budget` below
  // `field`, also for NaN.
  static absl::StatusOr<MoneyLimits> Create(MoneyLimits raw, absl::string_view field);
  friend bool operator==(const MoneyLimits&, const MoneyLimits&) = default;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_MONEY_QUESTION_H_
