#include "solve/shape_search.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "solve/shape_options.h"

namespace parplan {
namespace {

// The measurements that were missing for any option, without duplicates, in the order of the
// options.
class MissingList {
 public:
  void Add(const absl::Status& status) {
    const std::optional<ErrorDetail> detail = GetErrorDetail(status);
    if (!detail.has_value()) return;
    for (size_t i = 0; i < kMaxCount; ++i) {
      const auto found = detail->metadata.find(absl::StrCat("missing", i));
      if (found == detail->metadata.end()) return;
      if (known_.insert(found->second).second) items_.push_back(found->second);
    }
  }

  absl::Status ToError() const {
    std::map<std::string, std::string> metadata = {{"count", absl::StrCat(items_.size())}};
    std::string message =
        "measurements are missing for every offer; measure them and upload a profile, or set "
        "options.allow_estimates. Missing:";
    for (size_t i = 0; i < std::min(items_.size(), kMaxCount); ++i) {
      metadata[absl::StrCat("missing", i)] = items_[i];
      absl::StrAppend(&message, "\n", items_[i]);
    }
    return MakeError(absl::StatusCode::kFailedPrecondition, Reason::kProfileMissing, message,
                     metadata);
  }

 private:
  static constexpr size_t kMaxCount = 100;
  std::set<std::string> known_;
  std::vector<std::string> items_;
};

bool HasReason(const absl::Status& status, Reason reason) {
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  return detail.has_value() && detail->reason == reason;
}

v1::ShapeOption InfeasibleOption(const absl::Status& status) {
  v1::ShapeOption option;
  option.set_infeasible_reason(std::string(status.message()));
  return option;
}

std::string NothingFitsText(const v1::ShapePlanResponse& response) {
  int64_t smallest = 0;
  int device_count = 0;
  for (const v1::ShapeOption& option : response.options()) {
    const int64_t needed = option.smallest_device_memory_bytes();
    if (needed == 0 || (smallest != 0 && needed >= smallest)) continue;
    smallest = needed;
    device_count = option.device_count();
  }
  if (smallest == 0) return "no offer has a device count that can be planned for";
  return absl::StrCat("nothing fits in memory; ", device_count, " devices of at least ", smallest,
                      " bytes would do");
}

// Collects the options of a shape.
class ShapeBuilder {
 public:
  explicit ShapeBuilder(MoneyTable* money) : money_(money) {}

  absl::Status Add(int offer_index, int device_count, const absl::StatusOr<ShapeTry>& tried) {
    any_tried_ = true;
    v1::ShapeOption option;
    if (tried.ok()) {
      any_measured_ = true;
      shape_.is_complete = shape_.is_complete && tried->is_complete;
      option = std::visit([](const auto& result) { return ShapeOptionOf(result); }, tried->result);
      const auto* const found = std::get_if<PlanFound>(&tried->result);
      if (found != nullptr && money_ != nullptr) {
        PARPLAN_RETURN_IF_ERROR(money_->Add(shape_.response.options_size(), offer_index, *found));
      }
    } else if (HasReason(tried.status(), Reason::kProfileMissing)) {
      missing_.Add(tried.status());
      option = InfeasibleOption(tried.status());
    } else if (HasReason(tried.status(), Reason::kNoFeasiblePlan)) {
      // The planner has no plan of its kind for this count, which is an answer.
      any_measured_ = true;
      option = InfeasibleOption(tried.status());
    } else if (HasReason(tried.status(), Reason::kSearchTimedOut) ||
               HasReason(tried.status(), Reason::kSearchOutOfMemory)) {
      any_measured_ = true;
      shape_.is_complete = false;
      cut_off_ = tried.status();
      option = InfeasibleOption(tried.status());
    } else {
      return tried.status();
    }
    option.set_offer_index(offer_index);
    option.set_device_count(device_count);
    *shape_.response.add_options() = std::move(option);
    return absl::OkStatus();
  }

  absl::StatusOr<SearchedShape> Finish() {
    if (any_tried_ && !any_measured_) return missing_.ToError();
    v1::ShapePlanResponse& response = shape_.response;
    if (const std::optional<int> recommended = RecommendedOption(response.options())) {
      response.set_recommended_option_index(*recommended);
    } else if (!cut_off_.ok()) {
      return cut_off_;
    } else {
      response.set_infeasible_reason(NothingFitsText(response));
    }
    if (money_ != nullptr && !money_->is_empty()) *response.mutable_money() = money_->Answer();
    return std::move(shape_);
  }

 private:
  MoneyTable* money_;
  SearchedShape shape_;
  MissingList missing_;
  bool any_measured_ = false;
  bool any_tried_ = false;
  absl::Status cut_off_;
};

}  // namespace

PlanningRules RulesOfShape(const PlanningOptions& options, bool weighs_money) {
  PlanningRules rules = options.rules;
  if (!weighs_money && !options.wants_robust_plan) rules.top_plan_count = 1;
  rules.wants_memory_front = false;
  return rules;
}

absl::StatusOr<SearchedShape> SearchShapes(const std::vector<v1::DeviceOffer>& offers,
                                           const TryDeviceCount& try_count, MoneyTable* money) {
  ShapeBuilder shape(money);
  for (size_t i = 0; i < offers.size(); ++i) {
    for (const int device_count : DeviceCounts(offers[i])) {
      PARPLAN_RETURN_IF_ERROR(
          shape.Add(static_cast<int>(i), device_count, try_count(offers[i], device_count)));
    }
  }
  return shape.Finish();
}

}  // namespace parplan
