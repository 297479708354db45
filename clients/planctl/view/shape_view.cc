#include "clients/planctl/view/shape_view.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/quantity_text.h"
#include "base/units.h"
#include "clients/planctl/view/duration_seconds.h"
#include "clients/planctl/view/text_layout.h"
#include "parplan/v1/plan.pb.h"

namespace parplan::planctl {
namespace {

constexpr double kJoulesPerKilowattHour = 3.6e6;

// Returns an amount of money or energy: whole numbers from 1000 on.
std::string AmountText(double amount) {
  return amount < 1000.0 ? absl::StrFormat("%.2f", amount) : absl::StrFormat("%.0f", amount);
}

std::string EnergyText(const v1::PlanCost& plan) {
  if (!plan.has_energy_joules()) return "?";
  return AmountText(plan.energy_joules() / kJoulesPerKilowattHour);
}

std::string OneLine(const char* name, const v1::PlanCost& plan) {
  return absl::StrFormat("%-8s  %d devices, %s, at most %s; %s, at most %s\n", name,
                         plan.device_count(), TimeText(Seconds::Of(plan.run_seconds())),
                         TimeText(Seconds::Of(plan.run_seconds_upper())), AmountText(plan.money()),
                         AmountText(plan.money_upper()));
}

}  // namespace

std::string ShapeText(const v1::ShapePlanResponse& response) {
  // Columns at which the last one starts, with and without a plan.
  constexpr int kPlanColumn = 56;
  constexpr int kReasonColumn = 11;
  std::string text = absl::StrFormat("  %7s %10s %12s %10s %9s  %s\n", "devices", "samples/s",
                                     "per device", "peak", "same node", "plan");
  for (int i = 0; i < response.options_size(); ++i) {
    const v1::ShapeOption& option = response.options(i);
    if (!option.feasible()) {
      absl::StrAppendFormat(&text, "  %7d  %s\n", option.device_count(),
                            Wrap(option.infeasible_reason(), kReasonColumn));
      continue;
    }
    const bool best =
        response.has_recommended_option_index() && response.recommended_option_index() == i;
    absl::StrAppendFormat(&text, "%s %7d %10.2f %12.2f %10s %9d  %s\n", best ? "*" : " ",
                          option.device_count(), option.samples_per_second(),
                          option.samples_per_second() / option.device_count(),
                          SizeText(Bytes::Of(option.peak_memory_bytes())),
                          option.same_node_device_count(), WrapGist(option.gist(), kPlanColumn));
  }
  if (!response.infeasible_reason().empty()) {
    absl::StrAppend(&text, Wrap(response.infeasible_reason(), 0), "\n");
  } else {
    text +=
        "* what to ask for: the fewest devices within a tenth of the best samples/s per device\n";
  }
  if (response.has_money()) absl::StrAppend(&text, "\n", MoneyText(response.money()));
  return text;
}

std::string ShapeJson(const v1::ShapePlanResponse& response) {
  nlohmann::ordered_json object;
  object["options"] = nlohmann::ordered_json::array();
  for (const v1::ShapeOption& option : response.options()) {
    nlohmann::ordered_json row;
    row["offer_index"] = option.offer_index();
    row["device_count"] = option.device_count();
    row["feasible"] = option.feasible();
    if (option.feasible()) {
      row["step_seconds"] = SecondsOf(option.step_duration());
      row["samples_per_second"] = option.samples_per_second();
      row["peak_memory_bytes"] = option.peak_memory_bytes();
      row["pipeline_parallel_degree"] = option.pipeline_parallel_degree();
      row["gist"] = option.gist();
      row["same_node_device_count"] = option.same_node_device_count();
      row["same_switch_device_count"] = option.same_switch_device_count();
      row["confidence"] = absl::AsciiStrToLower(
          v1::Confidence_Name(option.confidence()).substr(sizeof("CONFIDENCE_") - 1));
    } else {
      row["infeasible_reason"] = option.infeasible_reason();
      row["smallest_device_memory_bytes"] = option.smallest_device_memory_bytes();
    }
    object["options"].push_back(std::move(row));
  }
  if (response.has_recommended_option_index()) {
    object["recommended_option_index"] = response.recommended_option_index();
  }
  if (!response.infeasible_reason().empty()) {
    object["infeasible_reason"] = response.infeasible_reason();
  }
  if (response.has_money()) object["money"] = MoneyJson(response.money());
  object["from_cache"] = response.from_cache();
  return object.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string MoneyText(const v1::MoneyAnswer& money) {
  // Column at which the last one starts.
  constexpr int kPlanColumn = 69;
  std::string text = absl::StrFormat("   %7s %10s %10s %12s %12s %8s  %s\n", "devices", "run",
                                     "at most", "device-hours", "money", "kWh", "plan");
  for (int i = 0; i < money.plans_size(); ++i) {
    const v1::PlanCost& plan = money.plans(i);
    const bool is_chosen = money.has_chosen_index() && money.chosen_index() == i;
    const bool is_on_front = std::find(money.front_indices().begin(), money.front_indices().end(),
                                       i) != money.front_indices().end();
    absl::StrAppendFormat(
        &text, "%s%s %7d %10s %10s %12s %12s %8s  %s\n", is_chosen ? "*" : " ",
        is_on_front ? "+" : " ", plan.device_count(), TimeText(Seconds::Of(plan.run_seconds())),
        TimeText(Seconds::Of(plan.run_seconds_upper())), AmountText(plan.device_hours()),
        AmountText(plan.money()), EnergyText(plan), WrapGist(plan.gist(), kPlanColumn));
  }
  text += "+ no other plan is better in one and not worse in the others";
  text += money.has_chosen_index() ? "; * the plan to take\n" : "\n";
  if (money.has_cheapest_index()) {
    absl::StrAppend(&text, OneLine("cheapest", money.plans(money.cheapest_index())));
  }
  if (money.has_fastest_index()) {
    absl::StrAppend(&text, OneLine("fastest", money.plans(money.fastest_index())));
  }
  if (!money.unmet_reason().empty()) absl::StrAppend(&text, Wrap(money.unmet_reason(), 0), "\n");
  for (const std::string& note : money.notes()) absl::StrAppend(&text, Wrap(note, 0), "\n");
  return text;
}

nlohmann::ordered_json MoneyJson(const v1::MoneyAnswer& money) {
  nlohmann::ordered_json object;
  object["plans"] = nlohmann::ordered_json::array();
  for (const v1::PlanCost& plan : money.plans()) {
    nlohmann::ordered_json row;
    row["option_index"] = plan.option_index();
    row["device_count"] = plan.device_count();
    row["gist"] = plan.gist();
    row["global_batch_size"] = plan.global_batch_size();
    row["step_seconds"] = plan.step_seconds();
    row["step_count"] = plan.step_count();
    row["run_seconds"] = plan.run_seconds();
    row["run_seconds_upper"] = plan.run_seconds_upper();
    row["device_hours"] = plan.device_hours();
    row["money"] = plan.money();
    row["money_upper"] = plan.money_upper();
    if (plan.has_energy_joules()) row["energy_joules"] = plan.energy_joules();
    row["meets_limits"] = plan.meets_limits();
    object["plans"].push_back(std::move(row));
  }
  object["front_indices"] = nlohmann::ordered_json::array();
  for (const int index : money.front_indices()) object["front_indices"].push_back(index);
  if (money.has_cheapest_index()) object["cheapest_index"] = money.cheapest_index();
  if (money.has_fastest_index()) object["fastest_index"] = money.fastest_index();
  if (money.has_chosen_index()) object["chosen_index"] = money.chosen_index();
  if (!money.unmet_reason().empty()) object["unmet_reason"] = money.unmet_reason();
  if (money.has_nearest_deadline_index()) {
    object["nearest_deadline_index"] = money.nearest_deadline_index();
  }
  if (money.has_nearest_budget_index()) {
    object["nearest_budget_index"] = money.nearest_budget_index();
  }
  object["notes"] = nlohmann::ordered_json::array();
  for (const std::string& note : money.notes()) object["notes"].push_back(note);
  return object;
}

}  // namespace parplan::planctl
