#include "clients/launch/launch_plan.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/model/strategy_fields.h"
#include "proto/wire/digest.h"
#include "proto/wire/plan_wire.h"

namespace parplan {
namespace {

static_assert(kStrategyFieldCount == 13, "say whether the new field changes groups");

constexpr int kMaxMasterPort = 65534;

absl::Status Mismatch(Reason reason, const std::string& field, const std::string& why) {
  return MakeError(absl::StatusCode::kFailedPrecondition, reason, absl::StrCat(field, ": ", why),
                   {{"field", field}});
}

// Numbers the groups of all ranks while they are met.
class GroupNumbers {
 public:
  int Of(const GroupSpec& group) {
    return number_.emplace(group, static_cast<int>(number_.size())).first->second;
  }

  // [number given] place in order; the groups in order.
  std::pair<std::vector<int>, std::vector<GroupSpec>> Sort() const {
    std::vector<int> place(number_.size());
    std::vector<GroupSpec> groups;
    for (const auto& [group, number] : number_) {
      place[number] = static_cast<int>(groups.size());
      groups.push_back(group);
    }
    return {std::move(place), std::move(groups)};
  }

 private:
  std::map<GroupSpec, int> number_;
};

bool SplitsAlike(const Strategy& a, const Strategy& b) {
  return a.tensor_parallel_degree == b.tensor_parallel_degree &&
         a.context_parallel_degree == b.context_parallel_degree &&
         a.data_parallel_degree == b.data_parallel_degree &&
         a.expert_parallel_degree == b.expert_parallel_degree &&
         a.expert_tensor_parallel_degree == b.expert_tensor_parallel_degree &&
         a.rank_order == b.rank_order && a.context_kind == b.context_kind &&
         a.context_exchange_degree == b.context_exchange_degree;
}

}  // namespace

absl::StatusOr<LaunchPlan> LaunchPlan::Create(const VerifiedPlan& verified, const ModelSpec& model,
                                              const Topology& topology, LaunchOptions options) {
  const v1::PlanPayload& payload = verified.payload();
  if (payload.model_digest() != ModelDigest(model)) {
    return Mismatch(Reason::kSpecInvalid, "model_digest",
                    "the plan was made for another model; give the model it was asked for");
  }
  if (payload.topology_digest() != TopologyDigest(topology)) {
    return Mismatch(Reason::kTopologyMismatch, "topology_digest",
                    "the plan was made for other devices; give the topology it was asked for");
  }
  if (options.master_port < 0 || options.master_port > kMaxMasterPort) {
    return FieldError(Reason::kSpecInvalid, "master_port",
                      absl::StrCat("must be from 1 to ", kMaxMasterPort));
  }
  LaunchPlan launch;
  PARPLAN_ASSIGN_OR_RETURN(launch.plan_, PlanFromPayload(payload));
  launch.name_ = payload.plan();
  launch.cluster_ = payload.cluster();
  launch.job_id_ = payload.job_id();
  launch.options_ = std::move(options);
  PARPLAN_RETURN_IF_ERROR(launch.PlaceNodes(topology));
  for (int rank = 0; rank < launch.rank_count(); ++rank) launch.PlaceRank(rank);
  launch.AddGroups(model);
  return launch;
}

absl::Status LaunchPlan::PlaceNodes(const Topology& topology) {
  if (plan_.device_count != topology.device_count()) {
    return Mismatch(Reason::kTopologyMismatch, "device_count",
                    absl::StrCat("the plan is for ", plan_.device_count,
                                 " devices, the topology has ", topology.device_count()));
  }
  const std::vector<std::string> known = topology.NodeNames();
  const std::vector<std::string>& given = options_.node_names;
  if (!known.empty() && !given.empty() && known != given) {
    return Mismatch(Reason::kTopologyMismatch, "node_names",
                    absl::StrCat("the plan is for ", absl::StrJoin(known, ","), ", in this order, ",
                                 "not for ", absl::StrJoin(given, ",")));
  }
  const std::vector<std::string>& names = given.empty() ? known : given;
  int first_rank = 0;
  for (const NodeGroup& group : topology.node_groups()) {
    for (int k = 0; k < group.node_count; ++k) {
      const size_t index = nodes_.size();
      std::string name = absl::StrCat("node-", index);
      if (index < names.size()) name = names[index];
      nodes_.push_back({std::move(name), first_rank, group.devices_per_node});
      for (int slot = 0; slot < group.devices_per_node; ++slot) {
        members_.emplace_back().node = static_cast<int>(index);
      }
      first_rank += group.devices_per_node;
    }
  }
  if (!given.empty() && given.size() != nodes_.size()) {
    return Mismatch(
        Reason::kTopologyMismatch, "node_names",
        absl::StrCat("the plan is for ", nodes_.size(), " nodes, not for ", given.size()));
  }
  return absl::OkStatus();
}

void LaunchPlan::PlaceRank(int rank) {
  Member& member = members_[rank];
  bool has_layers = false;
  const int degree = plan_.pipeline_parallel_degree();
  for (size_t index = 0; index < plan_.stages.size(); ++index) {
    const StagePlan& stage = plan_.stages[index];
    if (rank < stage.first_rank || rank >= stage.first_rank + stage.rank_count) continue;
    member.pipeline_place = static_cast<int>(index) % degree;
    member.stages.push_back(static_cast<int>(index));
    if (!has_layers && !stage.is_empty()) {
      has_layers = true;
      member.strategy = stage.layer_runs.front().strategy;
      member.sharding = member.strategy->sharding();
      member.place = PlaceOfRank(*member.strategy, rank - stage.first_rank);
    }
    for (const StageLayerRun& run : stage.layer_runs) {
      if (member.strategy.has_value() && !SplitsAlike(*member.strategy, run.strategy)) {
        member.strategy.reset();
      }
      if (member.sharding.has_value() && *member.sharding != run.strategy.sharding()) {
        member.sharding.reset();
      }
    }
  }
  if (has_layers) return;
  // A rank that only hands on has its place in the layout of what it receives.
  const int stage = member.stages.front();
  member.strategy = ReceivingStrategy(plan_, stage);
  member.place = PlaceOfRank(*member.strategy, rank - plan_.stages[stage].first_rank);
}

void LaunchPlan::AddGroups(const ModelSpec& model) {
  GroupNumbers numbers;
  for (int rank = 0; rank < rank_count(); ++rank) {
    const absl::StatusOr<RankProgram> program = RankProgram::Create(plan_, model, rank);
    // All ranks or none: each looks at the whole plan.
    if (!program.ok()) {
      no_groups_reason_ = std::string(program.status().message());
      return;
    }
    Member& member = members_[rank];
    const auto number_of = [&](int group) {
      return group < 0 ? -1 : numbers.Of(program->groups[group]);
    };
    for (const GroupSpec& group : program->groups) {
      if (static_cast<int>(group.ranks.size()) == rank_count() &&
          group.purpose == group_purpose::kLoss)
        continue;
      member.groups.push_back(numbers.Of(group));
    }
    member.stage_group = number_of(program->stages.front().stage_group);
    if (!member.strategy.has_value()) continue;
    const LayerProgram& layer = program->stages.front().layers.front();
    member.tensor_group = number_of(layer.tensor_group);
    member.context_group = number_of(layer.context_group);
    member.gradient_group = number_of(layer.gradient_group);
  }
  std::vector<int> place;
  std::tie(place, groups_) = numbers.Sort();
  for (Member& member : members_) {
    for (int* const group : {&member.tensor_group, &member.context_group, &member.gradient_group,
                             &member.stage_group}) {
      if (*group >= 0) *group = place[*group];
    }
    for (int& group : member.groups) group = place[group];
    std::sort(member.groups.begin(), member.groups.end());
  }
}

int LaunchPlan::NodeNamed(const std::string& name) const {
  const auto found = std::find_if(nodes_.begin(), nodes_.end(),
                                  [&](const LaunchNode& node) { return node.name == name; });
  return found == nodes_.end() ? -1 : static_cast<int>(found - nodes_.begin());
}

}  // namespace parplan
