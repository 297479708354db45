// Writes a `LaunchPlan` as variables and as JSON.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "clients/launch/launch_plan.h"
#include "planner/model/strategy_names.h"

namespace parplan {
namespace {

// Leaves out what there is not.
class VariableList {
 public:
  void Add(const char* name, std::string value) {
    if (!value.empty()) variables_.emplace_back(name, std::move(value));
  }
  void Add(const char* name, int64_t value) { Add(name, absl::StrCat(value)); }
  void AddIndex(const char* name, int index) {
    if (index >= 0) Add(name, int64_t{index});
  }
  LaunchVariables Take() { return std::move(variables_); }

 private:
  LaunchVariables variables_;
};

}  // namespace

std::optional<int64_t> LaunchPlan::MicroBatchSizePerRank() const {
  const int degree = plan_.stages.front().layer_runs.front().strategy.data_parallel_degree;
  for (const StagePlan& stage : plan_.stages) {
    for (const StageLayerRun& run : stage.layer_runs) {
      if (run.strategy.data_parallel_degree != degree) return std::nullopt;
    }
  }
  return plan_.micro_batch_size() / degree;
}

LaunchVariables LaunchPlan::VariablesOfNode(int node) const {
  VariableList list;
  list.Add("PARPLAN_PLAN", options_.plan_path);
  list.Add("PARPLAN_PLAN_NAME", name_);
  list.Add("PARPLAN_CLUSTER", cluster_);
  list.Add("PARPLAN_JOB_ID", job_id_);
  list.Add("PARPLAN_MODEL", options_.model_path);
  list.Add("PARPLAN_TOPOLOGY", options_.topology_path);
  list.Add("PARPLAN_TRUST", options_.trust_path);
  list.Add("PARPLAN_RANK_MAP", options_.rank_map_path);
  list.Add("PARPLAN_NODE", nodes_[node].name);
  list.Add("PARPLAN_NODE_RANK", node);
  list.Add("PARPLAN_NODE_COUNT", static_cast<int64_t>(nodes_.size()));
  list.Add("PARPLAN_NODE_DEVICE_COUNT", nodes_[node].device_count);
  list.Add("PARPLAN_DEVICE_COUNT", plan_.device_count);
  list.Add("PARPLAN_PIPELINE_DEGREE", plan_.pipeline_parallel_degree());
  list.Add("PARPLAN_VIRTUAL_STAGE_COUNT", plan_.virtual_stage_count);
  if (plan_.micro_batch_group_size > 0) {
    list.Add("PARPLAN_MICRO_BATCH_GROUP_SIZE", plan_.micro_batch_group_size);
  }
  list.Add("PARPLAN_SCHEDULE", std::string(TraitsOf(plan_.schedule).name));
  list.Add("PARPLAN_GLOBAL_BATCH_SIZE", plan_.global_batch_size);
  list.Add("PARPLAN_MICRO_BATCH_COUNT", plan_.micro_batch_count);
  list.Add("PARPLAN_MICRO_BATCH_SIZE", plan_.micro_batch_size());
  list.Add("PARPLAN_GRADIENT_ACCUMULATION_STEPS", plan_.micro_batch_count);
  if (const auto size = MicroBatchSizePerRank()) {
    list.Add("PARPLAN_MICRO_BATCH_SIZE_PER_RANK", *size);
  }
  list.Add("MASTER_ADDR", options_.master_address);
  if (options_.master_port > 0) list.Add("MASTER_PORT", options_.master_port);
  return list.Take();
}

LaunchVariables LaunchPlan::VariablesOfRank(int rank) const {
  const Member& member = members_[rank];
  const LaunchNode& node = nodes_[member.node];
  VariableList list;
  for (const bool is_ours : {true, false}) {
    list.Add(is_ours ? "PARPLAN_RANK" : "RANK", rank);
    list.Add(is_ours ? "PARPLAN_WORLD_SIZE" : "WORLD_SIZE", plan_.device_count);
    list.Add(is_ours ? "PARPLAN_LOCAL_RANK" : "LOCAL_RANK", rank - node.first_rank);
  }
  list.Add("LOCAL_WORLD_SIZE", node.device_count);
  list.Add("PARPLAN_STAGE", member.pipeline_place);
  list.Add("PARPLAN_STAGES", absl::StrJoin(member.stages, ","));
  if (member.strategy.has_value()) {
    list.Add("PARPLAN_TENSOR_DEGREE", member.strategy->tensor_parallel_degree);
    list.Add("PARPLAN_TENSOR_RANK", member.place.tensor);
    list.Add("PARPLAN_CONTEXT_DEGREE", member.strategy->context_parallel_degree);
    list.Add("PARPLAN_CONTEXT_RANK", member.place.context);
    list.Add("PARPLAN_DATA_DEGREE", member.strategy->data_parallel_degree);
    list.Add("PARPLAN_DATA_RANK", member.place.data);
    list.Add("PARPLAN_EXPERT_DEGREE", member.strategy->expert_parallel_degree);
    if (member.strategy->expert_tensor_parallel_degree > 0) {
      list.Add("PARPLAN_EXPERT_TENSOR_DEGREE", member.strategy->expert_tensor_parallel_degree);
    }
    // Nodes have it if it is the same everywhere.
    if (!MicroBatchSizePerRank().has_value()) {
      list.Add("PARPLAN_MICRO_BATCH_SIZE_PER_RANK",
               plan_.micro_batch_size() / member.strategy->data_parallel_degree);
    }
  }
  if (member.sharding.has_value()) {
    list.Add("PARPLAN_SHARDING", std::string(ShardingLevelName(member.sharding->level)));
    if (member.sharding->degree > 0) list.Add("PARPLAN_SHARDING_DEGREE", member.sharding->degree);
  }
  list.AddIndex("PARPLAN_TENSOR_GROUP", member.tensor_group);
  list.AddIndex("PARPLAN_CONTEXT_GROUP", member.context_group);
  list.AddIndex("PARPLAN_GRADIENT_GROUP", member.gradient_group);
  list.AddIndex("PARPLAN_STAGE_GROUP", member.stage_group);
  return list.Take();
}

std::string LaunchPlan::RankMapJson() const {
  using Json = nlohmann::ordered_json;
  Json map;
  map["plan"] = name_;
  map["device_count"] = plan_.device_count;
  map["pipeline_degree"] = plan_.pipeline_parallel_degree();
  map["virtual_stage_count"] = plan_.virtual_stage_count;
  if (plan_.micro_batch_group_size > 0) {
    map["micro_batch_group_size"] = plan_.micro_batch_group_size;
  }
  map["gradient_accumulation_steps"] = plan_.micro_batch_count;
  if (const auto size = MicroBatchSizePerRank()) map["micro_batch_size_per_rank"] = *size;
  if (!options_.master_address.empty()) map["master_address"] = options_.master_address;
  if (options_.master_port > 0) map["master_port"] = options_.master_port;
  map["nodes"] = Json::array();
  for (const LaunchNode& node : nodes_) {
    map["nodes"].push_back({{"name", node.name},
                            {"first_rank", node.first_rank},
                            {"device_count", node.device_count}});
  }
  map["ranks"] = Json::array();
  for (int rank = 0; rank < rank_count(); ++rank) {
    const Member& member = members_[rank];
    const LaunchNode& node = nodes_[member.node];
    Json row = {{"rank", rank},
                {"node", node.name},
                {"node_rank", member.node},
                {"device", rank - node.first_rank},
                {"stage", member.pipeline_place},
                {"stages", member.stages}};
    if (member.strategy.has_value()) {
      row["tensor_rank"] = member.place.tensor;
      row["context_rank"] = member.place.context;
      row["data_rank"] = member.place.data;
    }
    row["groups"] = member.groups;
    map["ranks"].push_back(std::move(row));
  }
  if (!no_groups_reason_.empty()) map["no_groups_because"] = no_groups_reason_;
  map["groups"] = Json::array();
  for (size_t id = 0; id < groups_.size(); ++id) {
    map["groups"].push_back(
        {{"id", id}, {"purpose", groups_[id].purpose}, {"ranks", groups_[id].ranks}});
  }
  return map.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace parplan
