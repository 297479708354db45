#include "planner/model/money_question.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace parplan {
namespace {

absl::Status Broken(absl::string_view field, absl::string_view member, absl::string_view rule) {
  return FieldError(Reason::kSpecInvalid,
                    field.empty() ? std::string(member) : absl::StrCat(field, ".", member), rule);
}

// Comparisons with NaN are false.
bool IsWithin(double value, double lowest, double highest) {
  return value >= lowest && value <= highest;
}

int64_t CeilOfQuotient(int64_t dividend, int64_t divisor) {
  return dividend / divisor + (dividend % divisor != 0 ? 1 : 0);
}

}  // namespace

absl::StatusOr<DeviceTerms> DeviceTerms::Create(DeviceTerms raw, absl::string_view field) {
  if (raw.device_kind.empty()) {
    return Broken(field, "device_kind", "is required; write the device as the offer names it");
  }
  if (!IsWithin(raw.price_per_device_hour, 0.0, kMaxPricePerDeviceHour)) {
    return Broken(field, "price_per_device_hour",
                  absl::StrCat("must be from 0 to ", kMaxPricePerDeviceHour));
  }
  if (raw.power_watts.has_value() &&
      !(*raw.power_watts > 0.0 && *raw.power_watts <= kMaxPowerWatts)) {
    return Broken(field, "power_watts",
                  absl::StrCat("must be above 0 and at most ", kMaxPowerWatts));
  }
  if (raw.idle_power_watts.has_value()) {
    if (!raw.power_watts.has_value()) {
      return Broken(field, "power_watts",
                    "is needed beside idle_power_watts: it is in no data sheet");
    }
    if (!IsWithin(*raw.idle_power_watts, 0.0, *raw.power_watts)) {
      return Broken(field, "idle_power_watts",
                    absl::StrCat("must be from 0 to the power while working, ", *raw.power_watts));
    }
  }
  raw.price_per_device_hour += 0.0;  // -0 is the same price.
  return raw;
}

absl::StatusOr<RunLength> RunLength::Create(RunLength raw, absl::string_view field) {
  const std::pair<absl::string_view, std::pair<int64_t, int64_t>> members[] = {
      {"step_count", {raw.step_count, kMaxRunStepCount}},
      {"sample_count", {raw.sample_count, kMaxRunSampleCount}},
      {"token_count", {raw.token_count, kMaxRunTokenCount}}};
  int given = 0;
  for (const auto& [name, value] : members) {
    if (value.first < 0 || value.first > value.second) {
      return Broken(field, name, absl::StrCat("must be from 0 to ", value.second));
    }
    if (value.first > 0) ++given;
  }
  if (given != 1) {
    return Broken(field, "step_count",
                  "exactly one of step_count, sample_count and token_count must be above 0");
  }
  return raw;
}

absl::StatusOr<RunLength> LengthWithoutTokens(const RunLength& length, const ModelSpec& model,
                                              bool searches_batch, absl::string_view field) {
  if (length.step_count > 0 && searches_batch) {
    return Broken(
        field, "step_count",
        "cannot be weighed if batch sizes are searched, because steps of different batches "
        "train different amounts; give sample_count or token_count");
  }
  if (length.token_count == 0) return length;
  const int64_t sequence_length = model.layer(0).sequence_length;
  for (int layer = 0; layer < model.layer_count(); ++layer) {
    if (model.layer(layer).sequence_length != sequence_length || sequence_length < 1) {
      return Broken(field, "token_count",
                    "needs a model whose layers have one sequence length; give sample_count");
    }
  }
  return RunLength{.sample_count = CeilOfQuotient(length.token_count, sequence_length)};
}

int64_t StepCountOf(const RunLength& length, int64_t global_batch_size) {
  if (length.step_count > 0) return length.step_count;
  return CeilOfQuotient(length.sample_count, global_batch_size);
}

absl::StatusOr<MoneyLimits> MoneyLimits::Create(MoneyLimits raw, absl::string_view field) {
  if (raw.deadline.has_value() && !(*raw.deadline > Seconds() && raw.deadline->is_finite())) {
    return Broken(field, "deadline_duration", "must be above 0; leave it out for no deadline");
  }
  if (raw.budget.has_value() && !(*raw.budget >= 0.0 && std::isfinite(*raw.budget))) {
    return Broken(field, "budget", "must be finite and at least 0; leave it out for no budget");
  }
  return raw;
}

}  // namespace parplan
