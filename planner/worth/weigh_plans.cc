#include "planner/worth/weigh_plans.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace parplan {
namespace {

Seconds TimeOf(const RunCost& cost, bool upper) { return upper ? cost.time_upper : cost.time; }
double MoneyOf(const RunCost& cost, bool upper) { return upper ? cost.money_upper : cost.money; }

// Returns whether `a` comes before `b`: less time, or if money comes first less money, then the
// other, energy, devices and name.
bool IsBefore(const WeighedPlan& a, const WeighedPlan& b, bool money_first, bool upper) {
  const auto key = [money_first, upper](const WeighedPlan& plan) {
    const double time = TimeOf(plan.cost, upper).value();
    const double money = MoneyOf(plan.cost, upper);
    return std::make_tuple(money_first ? money : time, money_first ? time : money,
                           plan.cost.energy_joules.value_or(0.0), plan.device_count,
                           std::cref(plan.name));
  };
  return key(a) < key(b);
}

// Returns the first of `indices` in that order; absent if there is none.
std::optional<int> FirstOf(absl::Span<const WeighedPlan> plans, const std::vector<int>& indices,
                           bool money_first, bool upper) {
  const auto first = std::min_element(indices.begin(), indices.end(), [&](int a, int b) {
    return IsBefore(plans[a], plans[b], money_first, upper);
  });
  if (first == indices.end()) return std::nullopt;
  return *first;
}

std::vector<int> AllIndices(size_t count) {
  std::vector<int> indices(count);
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

// The least energy of the plans seen so far for each amount of money: less energy for more money.
class Staircase {
 public:
  // Returns whether a plan seen before has at most this money and at most this energy.
  bool Covers(double money, double energy) const {
    const auto above = energy_by_money_.upper_bound(money);
    return above != energy_by_money_.begin() && std::prev(above)->second <= energy;
  }
  // Adds a plan that is not covered.
  void Add(double money, double energy) {
    auto next = energy_by_money_.insert_or_assign(money, energy).first;
    ++next;
    while (next != energy_by_money_.end() && next->second >= energy) {
      next = energy_by_money_.erase(next);
    }
  }

 private:
  std::map<double, double> energy_by_money_;
};

}  // namespace

std::vector<int> MoneyFront(absl::Span<const WeighedPlan> plans, bool with_energy) {
  const auto energy = [&](int index) {
    if (!with_energy) return 0.0;
    PARPLAN_CHECK(plans[index].cost.energy_joules.has_value());
    return *plans[index].cost.energy_joules;
  };
  const auto worth = [&](int index) {
    const RunCost& cost = plans[index].cost;
    return std::make_tuple(cost.time.value(), cost.money, energy(index));
  };
  std::vector<int> order = AllIndices(plans.size());
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    const auto of_a = worth(a);
    const auto of_b = worth(b);
    if (of_a != of_b) return of_a < of_b;
    return std::tie(plans[a].device_count, plans[a].name) <
           std::tie(plans[b].device_count, plans[b].name);
  });
  std::vector<int> front;
  Staircase seen;
  for (size_t begin = 0; begin < order.size();) {
    // Plans that are equal in all that counts do not dominate each other.
    size_t end = begin;
    while (end < order.size() && worth(order[end]) == worth(order[begin])) ++end;
    const double money = plans[order[begin]].cost.money;
    if (!seen.Covers(money, energy(order[begin]))) {
      seen.Add(money, energy(order[begin]));
      front.insert(front.end(), order.begin() + begin, order.begin() + end);
    }
    begin = end;
  }
  return front;
}

bool MeetsLimits(const RunCost& cost, const MoneyLimits& limits) {
  const bool upper = limits.uses_upper_end;
  return (!limits.deadline.has_value() || TimeOf(cost, upper) <= *limits.deadline) &&
         (!limits.budget.has_value() || MoneyOf(cost, upper) <= *limits.budget);
}

MoneyChoice ChooseByMoney(absl::Span<const WeighedPlan> plans, const MoneyLimits& limits) {
  const std::vector<int> all = AllIndices(plans.size());
  const auto meeting = [&](const MoneyLimits& some) {
    std::vector<int> indices;
    for (const int index : all) {
      if (MeetsLimits(plans[index].cost, some)) indices.push_back(index);
    }
    return indices;
  };
  MoneyChoice choice;
  const std::vector<int> meets = meeting(limits);
  choice.cheapest = FirstOf(plans, meets, /*money_first=*/true, /*upper=*/false);
  choice.fastest = FirstOf(plans, meets, /*money_first=*/false, /*upper=*/false);
  const bool takes_fastest = limits.budget.has_value() && !limits.deadline.has_value();
  choice.chosen = takes_fastest ? choice.fastest : choice.cheapest;
  if (!meets.empty()) return choice;
  const bool upper = limits.uses_upper_end;
  MoneyLimits deadline_alone = limits;
  deadline_alone.budget.reset();
  MoneyLimits budget_alone = limits;
  budget_alone.deadline.reset();
  const bool misses_deadline = meeting(deadline_alone).empty();
  const bool misses_budget = meeting(budget_alone).empty();
  if (misses_deadline || !misses_budget) {
    choice.nearest_deadline = FirstOf(plans, all, /*money_first=*/false, upper);
  }
  if (misses_budget || !misses_deadline) {
    choice.nearest_budget = FirstOf(plans, all, /*money_first=*/true, upper);
  }
  return choice;
}

}  // namespace parplan
