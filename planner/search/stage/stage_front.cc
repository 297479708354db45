#include "planner/search/stage/stage_front.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "planner/search/stage/front_case.h"
#include "planner/search/stage/front_search.h"
#include "planner/search/stage/front_stage.h"
#include "planner/search/stage/memory_price.h"

namespace parplan {
namespace {

// A label and the case in which it was found.
struct FoundLabel {
  FrontSearch::Label label;
  size_t case_index = 0;
};

// Returns the labels that no other of the same layouts dominates in time, regardless of memory.
std::vector<FoundLabel> Fastest(const TickStage& stage, std::vector<FoundLabel> found) {
  for (auto& [label, case_index] : found) {
    if (!stage.first_layout_matters) label.first_layout = 0;
    if (!stage.last_layout_matters) label.last_layout = 0;
  }
  const auto order = [](const FoundLabel& found) {
    const FrontSearch::Label& one = found.label;
    const FrontSum& sum = one.sum;
    return std::tuple(one.first_layout, one.last_layout, sum.forward + sum.backward + sum.sync,
                      sum.forward, sum.backward, sum.bytes);
  };
  std::stable_sort(found.begin(), found.end(), [&order](const FoundLabel& a, const FoundLabel& b) {
    return order(a) < order(b);
  });
  std::vector<FoundLabel> kept;
  for (const FoundLabel& one : found) {
    bool is_dominated = false;
    for (auto other = kept.rbegin(); other != kept.rend() && !is_dominated; ++other) {
      if (other->label.first_layout != one.label.first_layout ||
          other->label.last_layout != one.label.last_layout) {
        break;
      }
      is_dominated = other->label.sum.IsNowhereSlower(one.label.sum);
    }
    if (!is_dominated) kept.push_back(one);
  }
  return kept;
}

const FrontOption& OptionOf(const FrontKind& kind, int option) {
  return *std::lower_bound(kind.options.begin(), kind.options.end(), option,
                           [](const FrontOption& one, int wanted) { return one.option < wanted; });
}

// Returns the choice with times added up as `PlanEvaluator` does: layers of one option together.
StageChoice ChoiceOf(const FrontStage& stage, const FrontCase& front_case,
                     const std::vector<FrontBlock>& blocks) {
  StageChoice choice;
  const FrontOption* before = nullptr;
  for (const FrontBlock& block : blocks) {
    const FrontKind& kind = stage.kinds[block.kind];
    const FrontOption& option = OptionOf(kind, front_case.options[block.kind][block.choice].option);
    const double count = block.layer_count;
    choice.forward += option.forward * count;
    choice.backward += option.backward * count;
    choice.sync += option.sync * count;
    if (before != nullptr) {
      const Seconds move = kind.transitions[before->layout * stage.layout_count + option.layout];
      choice.forward += move * 0.5;
      (stage.joins_passes ? choice.forward : choice.backward) += move * 0.5;
    } else {
      choice.first_layout = option.layout;
    }
    choice.last_layout = option.layout;
    choice.options.insert(choice.options.end(), block.layer_count, option.option);
    before = &option;
  }
  return choice;
}

}  // namespace

StageFront SolveFront(const FrontStage& stage, absl::Span<const LinearCut> cuts,
                      SearchMeter& meter) {
  StageFront front;
  // Moves between all pairs of layouts are looked at several times before any state is counted.
  const int64_t moves = int64_t{stage.layout_count} * stage.layout_count;
  if (!meter.Work(4 * moves * static_cast<int64_t>(stage.kinds.size()))) {
    front.is_complete = false;
    return front;
  }
  const TickStage ticks = ToTicks(stage, cuts);
  const std::vector<FrontCase> cases = CasesOf(ticks);
  std::vector<FrontSearch> searches;
  searches.reserve(cases.size());
  std::vector<FoundLabel> found;
  std::vector<int64_t> known_times = ticks.known_times;
  for (size_t index = 0; index < cases.size(); ++index) {
    searches.emplace_back(cases[index], known_times, meter);
    for (const FrontSearch::Label& label : searches.back().Run()) found.push_back({label, index});
  }
  front.is_complete = !meter.stopped();
  for (const FoundLabel& one : Fastest(ticks, std::move(found))) {
    front.choices.push_back(
        ChoiceOf(stage, cases[one.case_index], searches[one.case_index].Blocks(one.label)));
  }
  std::stable_sort(
      front.choices.begin(), front.choices.end(), [](const StageChoice& a, const StageChoice& b) {
        return std::tuple(a.first_layout, a.last_layout, a.forward + a.backward, a.sync) <
               std::tuple(b.first_layout, b.last_layout, b.forward + b.backward, b.sync);
      });
  return front;
}

StageFront SolveStage(const OptionTable& table, const StageQuestion& question,
                      const BudgetByCommunicators& budget, absl::Span<const LinearCut> cuts,
                      const OptionMask& allowed, SearchMeter& meter) {
  return SolveFront(MakeFrontStage(table, question, budget, allowed), cuts, meter);
}

double StageBound(const OptionTable& table, const StageQuestion& question,
                  const BudgetByCommunicators& budget, const LinearCut& weights) {
  struct Priced {
    TimeAndBytes cost;
    int64_t transient;
  };
  // [kind]
  std::vector<int> definitions;
  std::vector<std::vector<Priced>> options;
  std::vector<FreeLayers> layers;
  std::vector<int64_t> transients;
  // Upper bound of the budget: the least, over definitions, of the largest budget of their options.
  Bytes budget_bound = Bytes::Max();
  for (const DefinitionRun& run : question.runs) {
    const auto found = std::find(definitions.begin(), definitions.end(), run.definition_index);
    if (found != definitions.end()) {
      layers[found - definitions.begin()].layer_count += run.layer_count;
      continue;
    }
    definitions.push_back(run.definition_index);
    layers.push_back({.layer_count = static_cast<double>(run.layer_count)});
    std::vector<Priced>& of_kind = options.emplace_back();
    Bytes max_budget = Bytes::Of(-1);
    for (const StageOption& option : table.options(run.definition_index)) {
      const Bytes held = option.states + option.kept * question.in_flight_micro_batch_count;
      of_kind.push_back(
          {{weights.forward * option.forward.value() + weights.backward * option.backward.value() +
                weights.sync * option.sync.value(),
            held.as_double()},
           option.transient.count()});
      transients.push_back(option.transient.count());
      max_budget = std::max(max_budget,
                            budget[option.communicator_count + question.extra_communicator_count]);
    }
    budget_bound = std::min(budget_bound, max_budget);
  }
  if (question.keeps_outputs) {
    Bytes least_output = Bytes::Max();
    for (int layout = 0; layout < table.layout_count(); ++layout) {
      least_output =
          std::min(least_output, table.Message(question.runs.back().definition_index, layout));
    }
    budget_bound -= least_output * question.in_flight_micro_batch_count;
  }
  // Options need no less than nothing, so none fits.
  if (budget_bound < Bytes()) return std::numeric_limits<double>::infinity();
  double bound = std::numeric_limits<double>::infinity();
  for (const auto& [least, largest] :
       TransientRanges(std::move(transients), budget_bound.count())) {
    bool has_all = true;
    for (size_t kind = 0; kind < layers.size(); ++kind) {
      layers[kind].options.clear();
      for (const Priced& option : options[kind]) {
        if (option.transient <= largest) layers[kind].options.push_back(option.cost);
      }
      has_all &= !layers[kind].options.empty();
    }
    // Smaller ranges lack options too.
    if (!has_all) break;
    const double room = (budget_bound - Bytes::Of(least)).as_double();
    const MemoryPrice priced = BestMemoryPrice(layers, room);
    bound = std::min(bound, priced.bound);
    // All options were allowed and memory did not bind, so smaller ranges give the same bound.
    if (priced.price == 0.0 && std::isfinite(priced.bound)) break;
  }
  // Sums in another order may come out slightly smaller.
  return bound * (1.0 - 1e-12);
}

}  // namespace parplan
