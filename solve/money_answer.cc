#include "solve/money_answer.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/quantity_text.h"
#include "base/status_macros.h"
#include "planner/model/plan.h"
#include "planner/worth/run_cost.h"
#include "proto/wire/duration_wire.h"

namespace parplan {

absl::StatusOr<MoneyTable> MoneyTable::Create(const v1::MoneyQuestion& message,
                                              const std::vector<v1::DeviceOffer>& offers,
                                              const ModelSpec& model, bool searches_batch,
                                              absl::string_view field) {
  MoneyTable table;
  std::vector<std::string> kinds;
  for (const v1::DeviceOffer& offer : offers) {
    kinds.push_back(offer.device_kind());
    table.devices_per_node_.push_back(offer.devices_per_node());
  }
  PARPLAN_ASSIGN_OR_RETURN(table.asked_, MoneyFromProto(message, kinds, field));
  PARPLAN_ASSIGN_OR_RETURN(table.length_,
                           LengthWithoutTokens(table.asked_.length, model, searches_batch, field));
  return table;
}

absl::Status MoneyTable::Add(int option_index, int offer_index, const PlanFound& found) {
  PARPLAN_RETURN_IF_ERROR(AddPlan(option_index, offer_index, {found.plan, found.prediction}));
  for (const PredictedPlan& plan : found.alternatives) {
    PARPLAN_RETURN_IF_ERROR(AddPlan(option_index, offer_index, plan));
  }
  return absl::OkStatus();
}

absl::Status MoneyTable::AddPlan(int option_index, int offer_index, const PredictedPlan& plan) {
  const DeviceTerms& terms = asked_.terms[static_cast<size_t>(offer_index)];
  const int64_t spare =
      int64_t{asked_.spare_node_count} * devices_per_node_[static_cast<size_t>(offer_index)];
  PARPLAN_ASSIGN_OR_RETURN(
      RunCost cost,
      CostOfRun(StepCountOf(length_, plan.plan.global_batch_size), terms, spare, plan));
  v1::PlanCost row;
  row.set_option_index(option_index);
  row.set_device_count(plan.plan.device_count);
  row.set_gist(PlanGist(plan.plan));
  row.set_global_batch_size(plan.plan.global_batch_size);
  row.set_step_seconds(plan.prediction.step.value());
  row.set_step_count(cost.step_count);
  row.set_run_seconds(cost.time.value());
  row.set_run_seconds_upper(cost.time_upper.value());
  *row.mutable_step_duration() = DurationToProto(plan.prediction.step);
  *row.mutable_run_duration() = DurationToProto(cost.time);
  *row.mutable_run_duration_upper() = DurationToProto(cost.time_upper);
  row.set_device_hours(cost.device_hours);
  row.set_money(cost.money);
  row.set_money_upper(cost.money_upper);
  if (cost.energy_joules.has_value()) row.set_energy_joules(*cost.energy_joules);
  row.set_meets_limits(MeetsLimits(cost, asked_.limits));
  plans_.push_back({.cost = cost,
                    .device_count = plan.plan.device_count,
                    .name = absl::StrCat(terms.device_kind, "\n", row.gist())});
  rows_.push_back(std::move(row));
  return absl::OkStatus();
}

std::string MoneyTable::UnmetReason(const MoneyChoice& choice) const {
  const bool upper = asked_.limits.uses_upper_end;
  const auto text_of = [&](int index) {
    const RunCost& cost = plans_[static_cast<size_t>(index)].cost;
    return absl::StrFormat(
        "%d devices take %s and cost %.2f", plans_[static_cast<size_t>(index)].device_count,
        TimeText(upper ? cost.time_upper : cost.time), upper ? cost.money_upper : cost.money);
  };
  std::string reason;
  if (choice.nearest_deadline.has_value() && choice.nearest_budget.has_value() &&
      MeetsLimits(plans_[static_cast<size_t>(*choice.nearest_deadline)].cost,
                  {.deadline = asked_.limits.deadline, .budget = {}, .uses_upper_end = upper})) {
    reason = "no plan meets both the deadline and the budget";
  } else {
    reason = absl::StrCat(
        "no plan meets the ", choice.nearest_deadline.has_value() ? "deadline" : "",
        choice.nearest_deadline.has_value() && choice.nearest_budget.has_value() ? ", and none the "
                                                                                 : "",
        choice.nearest_budget.has_value() ? "budget" : "");
  }
  if (upper) absl::StrAppend(&reason, " at the upper end of its range");
  if (choice.nearest_deadline.has_value()) {
    absl::StrAppend(&reason, "; the fastest: ", text_of(*choice.nearest_deadline));
  }
  if (choice.nearest_budget.has_value()) {
    absl::StrAppend(&reason, "; the cheapest: ", text_of(*choice.nearest_budget));
  }
  return reason;
}

v1::MoneyAnswer MoneyTable::Answer() const {
  v1::MoneyAnswer answer;
  for (const v1::PlanCost& row : rows_) *answer.add_plans() = row;
  for (const int index : MoneyFront(plans_, asked_.wants_energy)) answer.add_front_indices(index);
  const MoneyChoice choice = ChooseByMoney(plans_, asked_.limits);
  if (choice.cheapest.has_value()) answer.set_cheapest_index(*choice.cheapest);
  if (choice.fastest.has_value()) answer.set_fastest_index(*choice.fastest);
  if (choice.chosen.has_value()) answer.set_chosen_index(*choice.chosen);
  if (choice.nearest_deadline.has_value()) {
    answer.set_nearest_deadline_index(*choice.nearest_deadline);
  }
  if (choice.nearest_budget.has_value()) answer.set_nearest_budget_index(*choice.nearest_budget);
  if (!plans_.empty() && !choice.chosen.has_value()) answer.set_unmet_reason(UnmetReason(choice));
  for (const std::string& note : asked_.power_notes) {
    if (std::find(answer.notes().begin(), answer.notes().end(), note) == answer.notes().end()) {
      answer.add_notes(note);
    }
  }
  return answer;
}

}  // namespace parplan
