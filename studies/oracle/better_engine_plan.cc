// The search for a better plan in the engine's own numbers.

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>
#include <variant>

#include "planner/search/stage/layer_assignment.h"
#include "studies/oracle/engine_plan.h"

namespace parplan::oracle {
namespace {

// Suffixes kept for each boundary: more change nothing that was ever seen.
constexpr size_t kMaxSuffixes = 8;
// Weights of gradient synchronisation against the time of all micro-batches. A stage is solved once
// with each, since it depends on the other stages how much synchronisation is hidden.
constexpr double kSyncWeights[] = {2.0, 1.0, 0.5, 0.25, 0.1, 0.0};

// One way to run a stage; `options` are the choices of `AssignStrategies`.
struct StageWay {
  double time = 0.0;
  double sync = 0.0;
  std::vector<int> options;
};

// The ways to run a stage; none dominates another. Empty if nothing fits.
struct SolvedStage {
  bool is_solved = false;
  std::vector<StageWay> ways;
  double least_time() const {
    double least = ways.front().time;
    for (const StageWay& way : ways) least = std::min(least, way.time);
    return least;
  }
};

// Stages from one on: the bound of docs/search.md for 1F1B without send times.
struct Suffix {
  double first_back = 0.0;
  double last_back = 0.0;
  double end = 0.0;
  int stage_end = 0;
  int way = 0;
  int next = -1;
};

bool IsNoBetter(const Suffix& a, const Suffix& b) {
  return a.first_back >= b.first_back && a.last_back >= b.last_back && a.end >= b.end;
}

// Adds `suffix` to those none of which is no better than another.
void Keep(const Suffix& suffix, std::vector<Suffix>& kept) {
  for (const Suffix& other : kept) {
    if (IsNoBetter(suffix, other)) return;
  }
  std::erase_if(kept, [&](const Suffix& other) { return IsNoBetter(other, suffix); });
  kept.push_back(suffix);
}

// The space of one shape and cap.
class ShapeSearch {
 public:
  ShapeSearch(const EngineModel& model, const EngineShape& shape, int cap)
      : model_(model), shape_(shape), types_(LayerTypes(model.question())) {
    for (const EngineStrategy& strategy : model.LayerStrategies(shape)) {
      if (strategy.inner() <= cap) strategies_.push_back(strategy);
    }
    budget_ = model.UsableMegabytes() - std::floor(model.BufferMegabytes(shape, cap));
    counts_.assign(types_.size() + 1, std::vector<int>(model.layer_type_count(), 0));
    for (size_t layer = 0; layer < types_.size(); ++layer) {
      counts_[layer + 1] = counts_[layer];
      ++counts_[layer + 1][types_[layer]];
    }
  }

  bool usable() const { return !strategies_.empty(); }

  // The best plan with these ends that is faster than `best`.
  void Search(const EngineStrategy& ends, std::optional<BetterEnginePlan>& best);

 private:
  const SolvedStage& Solve(int stage, int begin, int end, const EngineStrategy& ends);
  Suffix Prepend(int stage, const StageWay& way, const Suffix* rest) const;
  void AddWay(int stage, const EngineStrategy& ends, double sync_weight,
              const std::vector<int>& counts, SolvedStage& solved) const;

  const EngineModel& model_;
  const EngineShape shape_;
  const std::vector<int> types_;
  std::vector<EngineStrategy> strategies_;
  double budget_ = 0.0;
  // [layer][type] layers of the type before it.
  std::vector<std::vector<int>> counts_;
  // Solved stages by stage, ends (in the first and the last only) and layers of each type.
  std::map<std::tuple<int, EngineStrategy, std::vector<int>>, SolvedStage> solved_;
};

const SolvedStage& ShapeSearch::Solve(int stage, int begin, int end, const EngineStrategy& ends) {
  const bool has_ends = stage == 0 || stage == shape_.pipeline_degree - 1;
  std::vector<int> counts = counts_[end];
  for (size_t type = 0; type < counts.size(); ++type) counts[type] -= counts_[begin][type];
  SolvedStage& solved = solved_[{stage, has_ends ? ends : EngineStrategy(), counts}];
  if (solved.is_solved) return solved;
  solved.is_solved = true;
  for (const double weight : kSyncWeights) AddWay(stage, ends, weight, counts, solved);
  return solved;
}

void ShapeSearch::AddWay(int stage, const EngineStrategy& ends, double sync_weight,
                         const std::vector<int>& counts, SolvedStage& solved) const {
  StageChoices choices;
  std::vector<int> kinds;
  for (int type = 0; type < static_cast<int>(counts.size()); ++type) {
    if (counts[type] == 0) continue;
    LayerChoices layer;
    for (const EngineStrategy& strategy : strategies_) {
      const EngineTime time = model_.LayerTime(shape_, type, strategy);
      LayerOption& option = layer.options.emplace_back();
      // Identifies the option and keeps the engine's order; the degree has no other meaning here.
      option.strategy.tensor_parallel_degree = static_cast<int>(layer.options.size());
      option.time = Seconds::Of(static_cast<double>(shape_.chunks) * time.without_sync() +
                                sync_weight * time.sync);
      option.kept = Bytes::Of(
          static_cast<int64_t>(std::ceil(model_.LayerMegabytes(shape_, type, stage, strategy))));
    }
    layer.transitions = {Seconds()};
    choices.runs.push_back({static_cast<int>(choices.kinds.size()), counts[type]});
    choices.kinds.push_back(std::move(layer));
    kinds.push_back(type);
  }
  const double left = budget_ - std::ceil(model_.EndMegabytes(shape_, stage, ends));
  if (left < 0.0) return;
  const SearchControl control;
  SearchMeter meter(control);
  const auto answer = AssignStrategies(choices, Bytes::Of(static_cast<int64_t>(left)), meter);
  const auto* const found = std::get_if<StageAssignment>(&answer);
  if (found == nullptr) return;
  StageWay way;
  way.options = found->options;
  double with_sync = 0.0;
  size_t layer = 0;
  for (const LayerChoiceRun& run : choices.runs) {
    for (int i = 0; i < run.layer_count; ++i) {
      const EngineTime time =
          model_.LayerTime(shape_, kinds[run.kind], strategies_[way.options[layer++]]);
      way.time += time.without_sync();
      with_sync += time.with_sync();
    }
  }
  way.time += model_.EndTime(shape_, stage, ends).without_sync();
  way.sync = std::max(0.0, with_sync - way.time);
  for (const StageWay& other : solved.ways) {
    if (other.time <= way.time && other.sync <= way.sync) return;
  }
  solved.ways.push_back(std::move(way));
}

Suffix ShapeSearch::Prepend(int stage, const StageWay& way, const Suffix* rest) const {
  const double forward = way.time / 3.0;
  const double backward = way.time - forward;
  const double count = static_cast<double>(shape_.chunks);
  Suffix suffix;
  suffix.first_back = way.time + (rest == nullptr ? 0.0 : rest->first_back);
  const double in_flight = std::min(static_cast<double>(shape_.pipeline_degree - stage), count);
  const double rounds = std::floor((count - 1.0) / in_flight);
  suffix.last_back = std::max(
      {way.time + (rest == nullptr ? 0.0 : rest->last_back),
       suffix.first_back + (count - in_flight) * forward + (count - 1.0) * backward,
       count * way.time,
       (rounds + 1.0) * suffix.first_back + (count - 1.0 - rounds * in_flight) * backward});
  suffix.end = std::max(suffix.last_back + way.sync, rest == nullptr ? 0.0 : forward + rest->end);
  return suffix;
}

void ShapeSearch::Search(const EngineStrategy& ends, std::optional<BetterEnginePlan>& best) {
  const int degree = shape_.pipeline_degree;
  const int layer_count = static_cast<int>(types_.size());
  const auto is_dead = [&](double bound) {
    return best.has_value() && bound >= best->simulated_step;
  };
  // [layer] suffixes that begin there, for the stages from the current one on.
  std::vector<std::vector<std::vector<Suffix>>> suffixes(
      degree + 1, std::vector<std::vector<Suffix>>(layer_count + 1));
  for (int stage = degree - 1; stage >= 0; --stage) {
    const int first = stage == 0 ? 0 : stage;
    const int last = stage == 0 ? 0 : layer_count - (degree - stage);
    for (int begin = first; begin <= last; ++begin) {
      std::vector<Suffix>& here = suffixes[stage][begin];
      const int least_end = stage == degree - 1 ? layer_count : begin + 1;
      const int most_end = stage == degree - 1 ? layer_count : layer_count - (degree - stage - 1);
      for (int end = least_end; end <= most_end; ++end) {
        const bool is_last = stage == degree - 1;
        if (!is_last && suffixes[stage + 1][end].empty()) continue;
        const SolvedStage& solved = Solve(stage, begin, end, ends);
        // More layers take no less time and memory.
        if (solved.ways.empty() ||
            is_dead(static_cast<double>(shape_.chunks) * solved.least_time())) {
          break;
        }
        for (int way = 0; way < static_cast<int>(solved.ways.size()); ++way) {
          const int rest_count = is_last ? 1 : static_cast<int>(suffixes[stage + 1][end].size());
          for (int i = 0; i < rest_count; ++i) {
            Suffix suffix =
                Prepend(stage, solved.ways[way], is_last ? nullptr : &suffixes[stage + 1][end][i]);
            if (is_dead(suffix.end)) continue;
            suffix.stage_end = end;
            suffix.way = way;
            suffix.next = i;
            Keep(suffix, here);
          }
        }
      }
      std::sort(here.begin(), here.end(),
                [](const Suffix& a, const Suffix& b) { return a.end < b.end; });
      if (here.size() > kMaxSuffixes) here.resize(kMaxSuffixes);
    }
  }
  for (size_t start = 0; start < suffixes[0][0].size(); ++start) {
    EnginePlan plan = {shape_, ends, {}};
    int layer = 0;
    int index = static_cast<int>(start);
    for (int stage = 0; stage < degree; ++stage) {
      const Suffix& suffix = suffixes[stage][layer][index];
      std::vector<EngineStrategy>& strategies = plan.stages.emplace_back();
      for (const int option :
           Solve(stage, layer, suffix.stage_end, ends).ways[suffix.way].options) {
        strategies.push_back(strategies_[option]);
      }
      layer = suffix.stage_end;
      index = suffix.next;
    }
    const double step = SimulatedEngineStep(model_, plan);
    if (!is_dead(step)) best = BetterEnginePlan{std::move(plan), step};
  }
}

}  // namespace

std::optional<BetterEnginePlan> FindBetterEnginePlan(const EngineModel& model,
                                                     int64_t global_batch) {
  std::optional<BetterEnginePlan> best;
  const OracleQuestion& question = model.question();
  constexpr int kDefaultCap = 8;
  const int most_degree =
      question.Space("disable_pp", 0) != 0 ? 1 : question.Space("max_pp_deg", kDefaultCap);
  const int layer_count = static_cast<int>(LayerTypes(question).size());
  for (int64_t chunks = 1; chunks <= global_batch; ++chunks) {
    if (global_batch % chunks != 0) continue;
    if (question.micro_batch_count != 0 && chunks != question.micro_batch_count) continue;
    for (int degree = 1; degree <= std::min<int64_t>({most_degree, chunks, layer_count});
         degree *= 2) {
      if (question.device_count() % degree != 0) continue;
      const EngineShape shape = {global_batch, chunks, degree};
      for (int cap = 1; cap <= kDefaultCap; cap *= 2) {
        ShapeSearch search(model, shape, cap);
        if (!search.usable()) continue;
        for (const EngineStrategy& ends : model.EndStrategies(shape)) {
          if (ends.inner() <= cap) search.Search(ends, best);
        }
      }
    }
  }
  return best;
}

}  // namespace parplan::oracle
