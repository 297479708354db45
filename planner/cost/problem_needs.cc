#include "planner/cost/problem_needs.h"

#include <algorithm>

namespace parplan {
namespace {

std::vector<int> Divisors(int value) {
  std::vector<int> divisors;
  for (int i = 1; i <= value; ++i) {
    if (value % i == 0) divisors.push_back(i);
  }
  return divisors;
}

// Returns whether `degree` tensor-parallel ranks can share some transformer layer.
bool SplitsSomeLayer(const ModelSpec& model, int degree) {
  return std::any_of(model.layer_definitions().begin(), model.layer_definitions().end(),
                     [degree](const LayerDefinition& layer) {
                       return IsTransformer(layer.kind) && SplitsOverTensorRanks(layer, degree);
                     });
}

// Returns whether some stage would have ranks of several groups if each has `rank_count`.
bool CrossesGroups(const Topology& topology, int rank_count) {
  return std::any_of(
      topology.node_groups().begin(), topology.node_groups().end(),
      [rank_count](const NodeGroup& group) { return group.device_count() % rank_count != 0; });
}

// Adds the groups of hybrid sharding over a group with the same parameters.
void AddHybridGroups(const GroupShape& replicas, std::set<GroupShape>& groups) {
  for (const int shards : Divisors(replicas.participant_count)) {
    if (shards == 1 || shards == replicas.participant_count) continue;
    groups.insert({shards, replicas.rank_stride});
    groups.insert({replicas.participant_count / shards, replicas.rank_stride * shards});
  }
}

}  // namespace

ProblemNeeds NeedsOf(const PlanningProblem& problem) {
  ProblemNeeds needs;
  const bool shares_tokens = problem.has_hardware() && problem.rules().allow_estimates;
  std::set<int> degrees = {1};
  for (int depth : Divisors(problem.device_count())) {
    if (depth > problem.max_pipeline_parallel_degree()) break;
    const int ranks = problem.device_count() / depth;
    if (CrossesGroups(problem.topology(), ranks)) continue;
    if (depth > 1) needs.pipeline_pairs.insert({2, ranks});
    if (ranks > 1) needs.stage_groups.insert({ranks, 1});
    for (int tensor : Divisors(ranks)) {
      if (tensor > problem.max_tensor_parallel_degree()) break;
      if (tensor > 1 && !SplitsSomeLayer(problem.model(), tensor)) continue;
      const int data = ranks / tensor;
      // If there are more ranks than samples they must share tokens, which only data sheets price.
      if (data > problem.global_batch_size() && !shares_tokens) continue;
      degrees.insert(tensor);
      if (data > problem.global_batch_size()) continue;
      if (tensor > 1) {
        needs.tensor_groups.insert({tensor, 1});
        if (data > 1) needs.tensor_groups.insert({tensor, data});
      }
      if (data > 1) {
        needs.data_groups.insert({data, tensor});
        if (tensor > 1) needs.data_groups.insert({data, 1});
      }
    }
  }
  needs.tensor_parallel_degrees.assign(degrees.begin(), degrees.end());
  // Only data sheets price what is not measured of it.
  if (shares_tokens && problem.dimensions().has(SearchDimension::kHybridSharding)) {
    for (const GroupShape& replicas : needs.data_groups) {
      AddHybridGroups(replicas, needs.hybrid_groups);
    }
  }
  return needs;
}

}  // namespace parplan
