#include "planner/model/planning_problem.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/model/calibration.h"
#include "planner/model/spec_error.h"

namespace parplan {
namespace {

// Checks that a requested schedule is in the space.
absl::Status CheckSchedule(const PlanningRules& rules) {
  if (!rules.schedule.has_value()) return absl::OkStatus();
  const std::optional<SearchDimension> needed = TraitsOf(*rules.schedule).dimension;
  if (!needed.has_value()) return absl::OkStatus();
  const SearchDimension dimension = *needed;
  const absl::string_view name = SearchDimensionName(dimension);
  if (!rules.dimensions.has(dimension)) {
    return SpecError("options.schedule",
                     absl::StrCat("`", name, "` is not in options.space, which is `",
                                  rules.dimensions.ToString(), "`; change either"));
  }
  const TargetLimits& target = LimitsOf(rules.target);
  if (!target.dimensions.has(dimension)) {
    return SpecError("options.schedule", absl::StrCat("options.target `", target.name,
                                                      "` runs no `", name, "`; change either"));
  }
  return absl::OkStatus();
}

absl::Status CheckRules(const PlanningRules& rules, int64_t global_batch_size) {
  if (!std::isfinite(rules.memory_headroom_ratio) || rules.memory_headroom_ratio < 0.0 ||
      rules.memory_headroom_ratio >= 1.0) {
    return SpecError("options.memory_headroom_ratio", "must be at least 0 and below 1");
  }
  if (rules.max_tensor_parallel_degree < 0) {
    return SpecError("options.max_tensor_parallel_degree", "must not be negative");
  }
  if (rules.max_pipeline_parallel_degree < 0) {
    return SpecError("options.max_pipeline_parallel_degree", "must not be negative");
  }
  if (rules.micro_batch_count < 0) {
    return SpecError("options.micro_batch_count", "must not be negative");
  }
  if (rules.global_batch_size_step < 1) {
    return SpecError("options.global_batch_size_step", "must be at least 1");
  }
  const int64_t smallest = rules.smallest_global_batch_size;
  if (smallest < 0 || smallest > global_batch_size) {
    return SpecError("options.smallest_global_batch_size",
                     absl::StrCat("must be 1 to the global_batch_size ", global_batch_size,
                                  ", or 0 for that batch only"));
  }
  if (smallest > 0 &&
      (global_batch_size - smallest) / rules.global_batch_size_step >= kMaxBatchSizeCount) {
    return SpecError("options.global_batch_size_step",
                     absl::StrCat("makes more than ", kMaxBatchSizeCount, " batches; raise it"));
  }
  if (rules.top_plan_count < 1 || rules.top_plan_count > kMaxTopPlanCount) {
    return SpecError("options.top_plan_count", absl::StrCat("must be 1 to ", kMaxTopPlanCount));
  }
  if (smallest == 0 && rules.micro_batch_count > 0 &&
      global_batch_size % rules.micro_batch_count != 0) {
    return SpecError("options.micro_batch_count",
                     absl::StrCat("must divide global_batch_size ", global_batch_size));
  }
  if (!(rules.out_of_memory_risk > 0.0 && rules.out_of_memory_risk <= 0.5)) {
    return SpecError("options.out_of_memory_risk", "must be above 0 and at most 0.5");
  }
  if (const std::optional<double> alpha = rules.ilp_alpha_bytes_per_second;
      alpha.has_value() && !(std::isfinite(*alpha) && *alpha >= 0.0)) {
    return SpecError("options.ilp_alpha_bytes_per_second", "must be finite and at least 0");
  }
  if (rules.memory_granule < kMinMemoryGranule || rules.memory_granule > kMaxMemoryGranule) {
    return SpecError(
        "options.memory_granule_bytes",
        absl::StrCat("must be ", kMinMemoryGranule.count(), " to ", kMaxMemoryGranule.count()));
  }
  if (rules.fused_layer_count < 1 || rules.fused_layer_count > kMaxLayerCount) {
    return SpecError("options.fused_layer_count", absl::StrCat("must be 1 to ", kMaxLayerCount));
  }
  return CheckSchedule(rules);
}

absl::Status CheckProfile(const ProfileSnapshot& profile, const NodeGroup& group) {
  if (profile.device_kind() == group.device_kind &&
      profile.devices_per_node() == group.devices_per_node) {
    return absl::OkStatus();
  }
  return MakeError(
      absl::StatusCode::kFailedPrecondition, Reason::kProfileMissing,
      absl::StrCat("the profile is of nodes with ", profile.devices_per_node(), " x ",
                   profile.device_kind(), ", the job has nodes with ", group.devices_per_node,
                   " x ", group.device_kind, "; upload a profile of such a node"),
      {{"count", "1"},
       {"missing0",
        absl::StrCat("profile of ", group.devices_per_node, " x ", group.device_kind)}});
}

}  // namespace

// The limits are of what searches are measured with (docs/search.md): layers beyond the 10,000 of
// the largest case, and devices as in the largest question of 262,144, for which tables of a search
// stay within its memory. A larger batch would overflow no number but has no use; a list of more
// batches takes longer than users wait for, and of more plans than they read.
absl::StatusOr<PlanningProblem> PlanningProblem::Create(std::shared_ptr<const ModelSpec> model,
                                                        std::shared_ptr<const Topology> topology,
                                                        Knowledge knowledge,
                                                        int64_t global_batch_size,
                                                        PlanningRules rules) {
  PARPLAN_CHECK(model != nullptr && topology != nullptr);
  if (model->layer_count() > kMaxLayerCount) {
    return SpecError("model.layer_runs", absl::StrCat("have ", model->layer_count(),
                                                      " layers, at most ", kMaxLayerCount));
  }
  if (topology->device_count() > kMaxDeviceCount) {
    return SpecError("topology.node_groups", absl::StrCat("have ", topology->device_count(),
                                                          " devices, at most ", kMaxDeviceCount));
  }
  if (global_batch_size < 1 || global_batch_size > kMaxGlobalBatchSize) {
    return SpecError("global_batch_size", absl::StrCat("must be 1 to ", kMaxGlobalBatchSize));
  }
  if (absl::Status status = CheckRules(rules, global_batch_size); !status.ok()) return status;
  PARPLAN_CHECK(knowledge.groups.size() <= topology->node_groups().size());
  knowledge.groups.resize(topology->node_groups().size());
  if (knowledge.calibration == nullptr) knowledge.calibration = Calibration::BuiltIn();

  PlanningProblem problem;
  for (size_t i = 0; i < knowledge.groups.size(); ++i) {
    const NodeGroup& group = topology->node_groups()[i];
    std::shared_ptr<const ProfileSnapshot>& profile = knowledge.groups[i].profile;
    if (profile == nullptr) {
      ProfileSnapshot::Content nothing;
      nothing.device_kind = group.device_kind;
      nothing.devices_per_node = group.devices_per_node;
      PARPLAN_ASSIGN_OR_RETURN(ProfileSnapshot empty, ProfileSnapshot::Create(std::move(nothing)));
      profile = std::make_shared<const ProfileSnapshot>(std::move(empty));
    }
    if (absl::Status status = CheckProfile(*profile, group); !status.ok()) return status;
    if (const std::shared_ptr<const Hardware>& hardware = knowledge.groups[i].hardware;
        hardware != nullptr &&
        !hardware->device.Multiplies(TraitsOf(model->precision()).products())) {
      return SpecError("model.precision",
                       absl::StrCat("is ", TraitsOf(model->precision()).name, ", which `",
                                    hardware->device.device_id,
                                    "` does not multiply: its data sheet has no such rate"));
    }
    problem.usable_memory_.push_back(Bytes::Of(static_cast<int64_t>(
        std::floor(group.available_memory().as_double() * (1.0 - rules.memory_headroom_ratio)))));
  }
  rules.runtime = TraitsOn(rules.runtime, topology->node_group(kFirstGroup).device_kind);
  problem.model_ = std::move(model);
  problem.topology_ = std::move(topology);
  problem.knowledge_ = std::move(knowledge);
  problem.global_batch_size_ = global_batch_size;
  problem.rules_ = rules;
  return problem;
}

bool PlanningProblem::has_hardware() const {
  return std::all_of(knowledge_.groups.begin(), knowledge_.groups.end(),
                     [](const GroupKnowledge& group) { return group.hardware != nullptr; });
}

Bytes PlanningProblem::usable_memory() const {
  return *std::min_element(usable_memory_.begin(), usable_memory_.end());
}

int PlanningProblem::max_tensor_parallel_degree() const {
  const int limit = rules_.max_tensor_parallel_degree;
  if (limit > 0) return limit;
  int largest = 0;
  for (const NodeGroup& group : topology_->node_groups()) {
    largest = std::max(largest, group.devices_per_node);
  }
  return largest;
}

int PlanningProblem::max_pipeline_parallel_degree() const {
  const int limit = rules_.max_pipeline_parallel_degree;
  return limit > 0 ? std::min(limit, model_->layer_count()) : model_->layer_count();
}

std::vector<int64_t> PlanningProblem::GlobalBatchSizes() const {
  const int64_t smallest = rules_.smallest_global_batch_size;
  if (smallest == 0) return {global_batch_size_};
  std::vector<int64_t> sizes;
  // Counts down what is left, because a step may be so long that a sum with it overflows.
  const int64_t step = rules_.global_batch_size_step;
  for (int64_t left = global_batch_size_ - smallest; left > 0; left -= std::min(left, step)) {
    sizes.push_back(global_batch_size_ - left);
  }
  // The problem's own batch is always the last one.
  sizes.push_back(global_batch_size_);
  return sizes;
}

bool PlanningProblem::AllowsGlobalBatchSize(int64_t size) const {
  const int64_t smallest = rules_.smallest_global_batch_size;
  if (size == global_batch_size_) return true;
  return smallest != 0 && size >= smallest && size < global_batch_size_ &&
         (size - smallest) % rules_.global_batch_size_step == 0;
}

DimensionSet PlanningProblem::dimensions() const {
  DimensionSet dimensions = rules_.dimensions & LimitsOf(rules_.target).dimensions;
  if (!rules_.allow_recompute) {
    dimensions = dimensions.Without(SearchDimension::kFullRecompute)
                     .Without(SearchDimension::kSelectiveRecompute)
                     .Without(SearchDimension::kModuleRecompute)
                     .Without(SearchDimension::kBlockRecompute);
  }
  if (!rules_.allow_sharded_data_parallel) {
    dimensions = dimensions.Without(SearchDimension::kOptimizerSharding)
                     .Without(SearchDimension::kGradientSharding)
                     .Without(SearchDimension::kParameterSharding);
  }
  return dimensions;
}

PlanningProblem PlanningProblem::WithGlobalBatchSize(int64_t size) const {
  PARPLAN_CHECK(AllowsGlobalBatchSize(size));
  PlanningProblem problem = *this;
  problem.global_batch_size_ = size;
  problem.rules_.smallest_global_batch_size = 0;
  return problem;
}

PlanningProblem PlanningProblem::WithRules(PlanningRules rules) const {
  PlanningProblem problem = *this;
  rules.runtime = TraitsOn(rules.runtime, node_group(kFirstGroup).device_kind);
  problem.rules_ = std::move(rules);
  return problem;
}

PlanningProblem PlanningProblem::WithNodeCount(int node_count) const {
  PARPLAN_CHECK(group_count() == 1);
  NodeGroup group = node_group(kFirstGroup);
  group.node_count = node_count;
  group.node_names.clear();
  std::vector<LinkTier> tiers = topology_->link_tiers();
  tiers.back().reach_device_count = std::max(tiers.back().reach_device_count, group.device_count());
  absl::StatusOr<Topology> topology = Topology::Create(topology_->cluster(), {std::move(group)},
                                                       std::move(tiers), topology_->fabric_id());
  PARPLAN_CHECK(topology.ok());
  PlanningProblem problem = *this;
  problem.topology_ = std::make_shared<const Topology>(*std::move(topology));
  return problem;
}

PlanningProblem PlanningProblem::WithUsableMemory(Bytes usable_memory) const {
  PlanningProblem problem = *this;
  problem.usable_memory_.assign(usable_memory_.size(), usable_memory);
  return problem;
}

}  // namespace parplan
