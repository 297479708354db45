#include "planner/model/planning_result.h"

#include <tuple>
#include <utility>
#include <vector>

namespace parplan {
namespace {

// Strategy and stage of a run of layers. Plans whose stages and runs have equal boundaries compare
// run by run as they would layer by layer; the runs of others are first split at each other's
// boundaries.
struct Piece {
  int layer_count = 0;
  Strategy strategy;
  int stage = 0;
};

std::vector<Piece> PiecesOf(const Plan& plan) {
  std::vector<Piece> pieces;
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    for (const StageLayerRun& run : plan.stages[stage].layer_runs) {
      pieces.push_back({run.layer_count, run.strategy, static_cast<int>(stage)});
    }
  }
  return pieces;
}

bool ComesFirstByLayers(const Plan& a, const Plan& b) {
  const std::vector<Piece> ours = PiecesOf(a);
  const std::vector<Piece> theirs = PiecesOf(b);
  size_t i = 0;
  size_t j = 0;
  int left_of_ours = 0;
  int left_of_theirs = 0;
  while (i < ours.size() && j < theirs.size()) {
    const auto one = std::tie(ours[i].strategy, ours[i].stage);
    const auto other = std::tie(theirs[j].strategy, theirs[j].stage);
    if (one != other) return one < other;
    const int our_rest = ours[i].layer_count - left_of_ours;
    const int their_rest = theirs[j].layer_count - left_of_theirs;
    if (our_rest <= their_rest) {
      ++i;
      left_of_ours = 0;
      left_of_theirs += our_rest;
    }
    if (their_rest <= our_rest) {
      ++j;
      left_of_theirs = 0;
      if (our_rest > their_rest) left_of_ours += their_rest;
    }
  }
  return false;
}

}  // namespace

bool IsBetterPlan(const PredictedPlan& a, const PredictedPlan& b) {
  const auto key = [](const PredictedPlan& plan) {
    return std::tuple(plan.time_per_sample(), plan.prediction.peak_memory,
                      plan.plan.global_batch_size, plan.plan.pipeline_parallel_degree(),
                      plan.plan.virtual_stage_count, plan.plan.micro_batch_count,
                      plan.plan.schedule, plan.plan.micro_batch_group_size);
  };
  if (key(a) != key(b)) return key(a) < key(b);
  return ComesFirstByLayers(a.plan, b.plan);
}

}  // namespace parplan
