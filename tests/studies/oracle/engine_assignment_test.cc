// The engine's dynamic programme on its own tables, plainly as its public code has it, and ours.

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/search/stage/dense_assignment.h"
#include "studies/oracle/engine_plan.h"
#include "tests/studies/oracle/oracle_files.h"
#include "tests/support/shared_data.h"
#include "tests/support/status_matchers.h"

namespace parplan::oracle {
namespace {

// Seconds the engine's programme charges between layers (docs/papers.md 12): a cost a hundred
// times too large between degrees, and ties broken by nanoseconds.
double Transition(const OracleCase& oracle, const std::map<int, double>& bandwidth,
                  const EngineShape& shape, int type, const EngineStrategy& from,
                  const EngineStrategy& to) {
  if (from.inner() != to.inner()) {
    if (!oracle.question.sequence_parallel) return 0.0;
    const double wide = std::max(from.inner(), to.inner());
    const double ranks =
        static_cast<double>(oracle.question.device_count()) / shape.pipeline_degree;
    const OracleLayerRun& run = oracle.question.runs[type];
    return (wide - 1.0) / wide * static_cast<double>(shape.global_batch) /
           static_cast<double>(shape.chunks) / (ranks / wide) * run.sequence_length *
           run.hidden_size * 2.0 / bandwidth.at(static_cast<int>(wide)) * 1e-7;
  }
  if (from.tensor != to.tensor) return from.tensor > 1 ? 1e-10 : 0.0;
  if (from == to) return 0.0;
  const bool begins_sharding = to.is_sharded && !from.is_sharded;
  const bool begins_recomputing = to.recomputes && !from.recomputes;
  if (to.is_sharded && to.recomputes) return 3e-9;
  if (begins_sharding && from.recomputes == to.recomputes) return 1e-9;
  if (begins_recomputing && from.is_sharded == to.is_sharded) return 2e-9;
  if (from.is_sharded && !to.is_sharded && begins_recomputing) return 1e-9;
  return 0.0;
}

struct Answer {
  std::vector<int> options;
  double time = std::numeric_limits<double>::infinity();
  int64_t left = 0;
};

// f(M, s) = min over s' of f(M - mem_s, s') + R(s', s) + B(s), at most `capacity`, the
// lowest index winning. O(L M S^2).
Answer PlainProgramme(const DenseStage& stage, int64_t capacity) {
  const int layer_count = static_cast<int>(stage.kind_of_layer.size());
  const int count = static_cast<int>(stage.kinds[0].options.size());
  const double infinity = std::numeric_limits<double>::infinity();
  const size_t width = static_cast<size_t>(capacity + 1);
  std::vector<std::vector<double>> last(count, std::vector<double>(width, 0.0));
  std::vector<std::vector<std::vector<int>>> from(
      layer_count, std::vector<std::vector<int>>(count, std::vector<int>(width, -1)));
  for (int layer = 0; layer < layer_count; ++layer) {
    const DenseKind& kind = stage.kinds[stage.kind_of_layer[layer]];
    std::vector<std::vector<double>> next(count, std::vector<double>(width, infinity));
    for (int s = 0; s < count; ++s) {
      const DenseOption& option = kind.options[s];
      for (int64_t memory = option.units; memory <= capacity; ++memory) {
        double best = infinity;
        for (int before = 0; before < count; ++before) {
          const double moved =
              layer == 0 ? 0.0 : kind.transitions[before * stage.layout_count + s].value();
          const double time = last[before][memory - option.units] + moved;
          if (time < best) {
            best = time;
            from[layer][s][memory] = before;
          }
        }
        next[s][memory] = best + option.time.value();
      }
    }
    last = std::move(next);
  }
  Answer answer;
  answer.left = capacity;
  int chosen = -1;
  for (int s = 0; s < count; ++s) {
    if (last[s][capacity] < answer.time) {
      answer.time = last[s][capacity];
      chosen = s;
    }
  }
  if (chosen < 0) return answer;
  answer.options.resize(layer_count);
  for (int layer = layer_count - 1; layer >= 0; --layer) {
    answer.options[layer] = chosen;
    const int before = from[layer][chosen][answer.left];
    answer.left -= stage.kinds[stage.kind_of_layer[layer]].options[chosen].units;
    chosen = before;
  }
  return answer;
}

// Kind of task the engine's answer came from, as its cases name it.
struct Task {
  const char* id;
  int cap;
  bool with_ulysses;
  // Two assignments cost the same to the last digits of its tables.
  bool is_tie;
};
constexpr Task kTasks[] = {{"c00", 8, false, true},  {"c01", 4, false, false},
                           {"c02", 2, true, true},   {"c05", 2, false, false},
                           {"c07", 1, false, false}, {"c08", 1, false, false},
                           {"c10", 1, false, false}, {"c20", 4, false, false}};

std::map<int, double> Bandwidths(const OracleCase& oracle) {
  std::map<int, double> bandwidth;
  const nlohmann::json object = nlohmann::json::parse(oracle.files.hardware.all_reduce->text);
  for (int size = 2; size <= 1024; size *= 2) {
    const std::string key = "allreduce_size_" + std::to_string(size) + "_consec_1";
    if (object.contains(key)) bandwidth[size] = object[key];
  }
  return bandwidth;
}

TEST(EngineAssignment, ItsPublicProgrammeGivesItsAnswer) {
  const std::optional<std::string> folder = OracleFolder();
  if (!folder) GTEST_SKIP() << kNoSharedData;
  int solved = 0;
  for (const OracleCase& oracle : AllOracleCases(*folder)) {
    const auto* const task =
        std::find_if(std::begin(kTasks), std::end(kTasks),
                     [&oracle](const Task& known) { return oracle.id.rfind(known.id, 0) == 0; });
    if (task == std::end(kTasks)) continue;
    SCOPED_TRACE(oracle.id);
    ASSERT_OK_AND_ASSIGN(const EngineModel model, EngineModel::Create(oracle));
    ASSERT_OK_AND_ASSIGN(const EnginePlan plan, ReadEnginePlan(oracle));
    const std::map<int, double> bandwidth = Bandwidths(oracle);
    std::vector<EngineStrategy> strategies;
    for (const EngineStrategy& strategy : model.LayerStrategies(plan.shape)) {
      if (strategy.inner() <= task->cap && (task->with_ulysses || strategy.ulysses == 1)) {
        strategies.push_back(strategy);
      }
    }
    const std::vector<int> types = LayerTypes(oracle.question);
    size_t first_layer = 0;
    for (int i = 0; i < plan.shape.pipeline_degree; ++i) {
      DenseStage stage;
      stage.layout_count = static_cast<int>(strategies.size());
      for (int type = 0; type < model.layer_type_count(); ++type) {
        DenseKind& kind = stage.kinds.emplace_back();
        for (size_t s = 0; s < strategies.size(); ++s) {
          kind.options.push_back(
              {static_cast<int>(s),
               Seconds::Of(model.LayerTime(plan.shape, type, strategies[s]).with_sync()),
               static_cast<int64_t>(
                   std::ceil(model.LayerMegabytes(plan.shape, type, i, strategies[s])))});
        }
        for (const EngineStrategy& from : strategies) {
          for (const EngineStrategy& to : strategies) {
            kind.transitions.push_back(
                Seconds::Of(Transition(oracle, bandwidth, plan.shape, type, from, to)));
          }
        }
      }
      const size_t layer_count = plan.stages[i].size();
      stage.kind_of_layer.assign(types.begin() + first_layer,
                                 types.begin() + first_layer + layer_count);
      first_layer += layer_count;
      const auto capacity = static_cast<int64_t>(
          model.UsableMegabytes() - std::ceil(model.EndMegabytes(plan.shape, i, plan.ends)) -
          std::floor(model.BufferMegabytes(plan.shape, task->cap)));
      const Answer answer = PlainProgramme(stage, capacity);
      ASSERT_EQ(answer.options.size(), layer_count);
      EXPECT_EQ(static_cast<double>(answer.left), oracle.answer->remaining_megabytes[i]) << i;
      // The engine's own choice costs the same, ...
      double wanted = 0.0;
      std::vector<std::string> chosen_names;
      std::vector<std::string> wanted_names;
      int before = -1;
      for (size_t layer = 0; layer < layer_count; ++layer) {
        const EngineStrategy& strategy = plan.stages[i][layer];
        const auto at = std::find(strategies.begin(), strategies.end(), strategy);
        ASSERT_NE(at, strategies.end()) << strategy.Name(plan.shape.pipeline_degree);
        const int option = static_cast<int>(at - strategies.begin());
        const DenseKind& kind = stage.kinds[stage.kind_of_layer[layer]];
        wanted += kind.options[option].time.value();
        if (before >= 0) {
          wanted += kind.transitions[before * stage.layout_count + option].value();
        }
        before = option;
        wanted_names.push_back(strategy.Name(plan.shape.pipeline_degree));
        chosen_names.push_back(strategies[answer.options[layer]].Name(plan.shape.pipeline_degree));
      }
      EXPECT_NEAR(answer.time, wanted, 1e-13 * static_cast<double>(layer_count)) << i;
      // ... and is the same where no other costs that.
      if (!task->is_tie) {
        EXPECT_EQ(chosen_names, wanted_names) << i;
      }

      // Ours rounds times to 2^-29 of the longest, so it may break the engine's ties of
      // nanoseconds in another way; it is no slower than that and fits.
      const SearchControl control;
      SearchMeter meter(control);
      DenseAssignment dense(stage, capacity, capacity, meter);
      const std::optional<DenseSolution> solution = dense.At(capacity);
      ASSERT_TRUE(solution.has_value());
      EXPECT_LE(solution->units, capacity);
      EXPECT_NEAR(solution->time.value(), answer.time, 1e-7 * static_cast<double>(layer_count));
      ++solved;
    }
  }
  EXPECT_EQ(solved, 21);
}

}  // namespace
}  // namespace parplan::oracle
