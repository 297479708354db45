// The question a planner answers: model, devices, measurements, rules. `proto/wire/problem_wire.h`
// makes it from messages; `FindPlan`, `CostModel::Create`, `PredictPlan` and `CheckPlan` take it.

#ifndef PARPLAN_PLANNER_MODEL_PLANNING_PROBLEM_H_
#define PARPLAN_PLANNER_MODEL_PLANNING_PROBLEM_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "base/units.h"
#include "planner/model/hardware.h"
#include "planner/model/model_spec.h"
#include "planner/model/partitioner.h"
#include "planner/model/plan.h"
#include "planner/model/profile_snapshot.h"
#include "planner/model/runtime_traits.h"
#include "planner/model/search_space.h"
#include "planner/model/topology.h"

namespace parplan {

class Calibration;

// The bounds of `PlanningRules::memory_granule`: 1 MiB and 1 TiB.
inline constexpr Bytes kMinMemoryGranule = Bytes::Of(int64_t{1} << 20);
inline constexpr Bytes kMaxMemoryGranule = Bytes::Of(int64_t{1} << 40);

// The rules of the search, which are part of the question and of the plan key. Clients set them by
// `PlanningOptions` (proto/parplan/v1/plan.proto), which has the same defaults.
struct PlanningRules {
  // Share of a device's available memory left free, in [0, 1), in addition to the margin of
  // `out_of_memory_risk`.
  double memory_headroom_ratio = 0.0;
  // The largest degree that plans may have; 0 stands for the devices of one node.
  int max_tensor_parallel_degree = 0;
  // The largest degree that plans may have; 0 stands for the number of layers, which no degree
  // exceeds.
  int max_pipeline_parallel_degree = 0;
  // The micro-batches of a step, which divide the batch; 0 means that the search chooses. If
  // batches are searched, those that it does not divide have no plans.
  int64_t micro_batch_count = 0;
  // A schedule that `dimensions` and `target` allow. If absent, planners that search schedules may
  // use any schedule of the space, the others use 1F1B.
  std::optional<Schedule> schedule;
  // The dimensions that may vary, and the program that will run the plan.
  // `PlanningProblem::dimensions` combines both with `allow_recompute` and
  // `allow_sharded_data_parallel`.
  DimensionSet dimensions = DimensionSet::All();
  Target target = Target::kParplan;
  // If above 0, the batch is searched as well, for the least time per sample: from this size in
  // steps of `global_batch_size_step`, with the problem's batch as the last one. If 0, only that
  // one.
  int64_t smallest_global_batch_size = 0;
  int64_t global_batch_size_step = 1;
  // Number of distinct plans wanted, from 1 to `kMaxTopPlanCount`.
  int top_plan_count = 1;
  // Whether the front of step time and memory is wanted too.
  bool wants_memory_front = false;
  // Only for `min-memory-ilp`: weight of a second of step time in its objective, in bytes, finite
  // and at least 0 (alpha in docs/min-memory-ilp.md, (5')). If absent, it minimises memory first,
  // then time.
  std::optional<double> ilp_alpha_bytes_per_second;
  // How the `galvatron` planners and the baselines that choose layer by layer divide layers into
  // stages. Stages are even in any case if `dimensions` lack `uneven-stages`.
  Partitioner partitioner = Partitioner::kBest;
  // Only for the `galvatron` planners (docs/galvatron.md): the unit in which their programme counts
  // memory, rounded up per layer, from `kMinMemoryGranule` to `kMaxMemoryGranule`.
  Bytes memory_granule = kMinMemoryGranule;
  // Only for the `galvatron` planners: number of equal layers in a row that get one strategy, from
  // 1 to `kMaxLayerCount`.
  int fused_layer_count = 1;
  // Whether plans may recompute, and whether they may shard states over data-parallel ranks.
  bool allow_recompute = true;
  bool allow_sharded_data_parallel = true;
  // Whether missing measurements may be extrapolated from others or estimated from data sheets.
  // Otherwise they are an error (`CostModel::Create`).
  bool allow_estimates = false;
  // The program that will train. `PlanningProblem` puts `TraitsOn` of the first group's devices in
  // its place.
  RuntimeTraits runtime;
  // Greatest accepted probability that measured memory exceeds the device's, in
  // (0, 0.5].
  double out_of_memory_risk = 0.01;
  friend bool operator==(const PlanningRules&, const PlanningRules&) = default;
};

// The largest problem a planner accepts; `GetCapabilities` reports it. `kMaxBatchSizeCount` bounds
// the batches from `smallest_global_batch_size` on.
inline constexpr int kMaxLayerCount = 16384;
inline constexpr int kMaxDeviceCount = 262144;
inline constexpr int64_t kMaxGlobalBatchSize = int64_t{1} << 30;
inline constexpr int64_t kMaxBatchSizeCount = 4096;
inline constexpr int kMaxTopPlanCount = 100;

// Measurements and data sheets of one node group.
struct GroupKnowledge {
  // Null if nothing was measured; `PlanningProblem` then has an empty snapshot.
  std::shared_ptr<const ProfileSnapshot> profile;
  // The devices, and the links inside and between nodes as these devices reach them. Null if the
  // device is in no library, so that nothing comes from data sheets.
  std::shared_ptr<const Hardware> hardware;
};

// Measurements and data sheets for a question.
struct Knowledge {
  // [node group] Nothing is known about groups past the end.
  std::vector<GroupKnowledge> groups;
  // Null stands for `Calibration::BuiltIn()`, which `PlanningProblem` then has.
  std::shared_ptr<const Calibration> calibration;
};

// The group on whose devices searches price every layer. They do not know several groups yet, so
// `FindPlan` refuses them (docs/adr/0019-one-device-description-per-node-group.md, step 6).
inline constexpr GroupIndex kSearchedGroup = kFirstGroup;

// A valid question. Immutable; any thread may read it, and copies share the parts.
class PlanningProblem {
 public:
  // Returns INVALID_ARGUMENT (SPEC_INVALID) naming the field for a batch that is not positive, an
  // empty range of batches, a micro-batch count that does not divide the only batch, a schedule
  // outside space or target, a rule out of its range, a size over its limit, or a precision whose
  // products a device with a data sheet does not multiply. Returns FAILED_PRECONDITION
  // (PROFILE_MISSING) if a group's profile is of another device kind or node size, which `missing0`
  // of the metadata describes. `CostModel::Create` finds out whether its points suffice. REQUIRES:
  // `model` and `topology` are not null; `knowledge` has no more groups than `topology`. Aborts
  // otherwise.
  static absl::StatusOr<PlanningProblem> Create(std::shared_ptr<const ModelSpec> model,
                                                std::shared_ptr<const Topology> topology,
                                                Knowledge knowledge, int64_t global_batch_size,
                                                PlanningRules rules);

  // The parts of the question; these references are valid as long as this problem or a copy of it.
  const ModelSpec& model() const { return *model_; }
  const Topology& topology() const { return *topology_; }
  // A `GroupIndex` is below `group_count()` here and below, which is not checked.
  const NodeGroup& node_group(GroupIndex group) const { return topology_->node_group(group); }
  int group_count() const { return topology_->group_count(); }
  // The measurements on a group's nodes, empty if there are none.
  const ProfileSnapshot& profile(GroupIndex group) const {
    return *knowledge_.groups[group.value()].profile;
  }
  // Null if the device is in no library.
  const Hardware* hardware(GroupIndex group) const {
    return knowledge_.groups[group.value()].hardware.get();
  }
  // Returns whether the devices of all groups are in the library.
  bool has_hardware() const;
  const Calibration& calibration() const { return *knowledge_.calibration; }
  // The batch, or the largest one if batches are searched.
  int64_t global_batch_size() const { return global_batch_size_; }
  // Lists the batches to search, ascending: only `global_batch_size()` unless the rules name a
  // smallest one.
  std::vector<int64_t> GlobalBatchSizes() const;
  // Returns whether `GlobalBatchSizes` has `size`. O(1).
  bool AllowsGlobalBatchSize(int64_t size) const;
  // Returns `rules().dimensions` without those that the target, `allow_recompute` or
  // `allow_sharded_data_parallel` exclude.
  DimensionSet dimensions() const;
  // The rules of `Create`, with `runtime` replaced by its traits on the devices of the first group;
  // valid as long as this problem.
  const PlanningRules& rules() const { return rules_; }

  // The devices of all groups.
  int device_count() const { return topology_->device_count(); }
  // Memory that one device of a group may hold: available memory less headroom.
  Bytes usable_memory(GroupIndex group) const { return usable_memory_[group.value()]; }
  // Memory that every device may hold: the least of all groups.
  Bytes usable_memory() const;
  // Returns `rules().max_tensor_parallel_degree` with its default filled in: the devices of the
  // largest node.
  int max_tensor_parallel_degree() const;
  // Returns the same for the pipeline degree; never above the number of layers.
  int max_pipeline_parallel_degree() const;

  // Returns the same question with another memory for each device, the same in all groups, for
  // finding the smallest memory that would fit.
  PlanningProblem WithUsableMemory(Bytes usable_memory) const;
  // Returns the question with this batch only. REQUIRES: AllowsGlobalBatchSize(size); aborts
  // otherwise.
  PlanningProblem WithGlobalBatchSize(int64_t size) const;
  // Returns the question with other rules. Usable memory stays that of the headroom before.
  // REQUIRES, unchecked: `Create` accepts the rules for the batch.
  PlanningProblem WithRules(PlanningRules rules) const;
  // Returns the question for `node_count` nodes of the same kind, without names; the last link tier
  // reaches them all. Usable memory stays. REQUIRES: one node group and at least one node; aborts
  // otherwise. At most kMaxDeviceCount devices, which is not checked.
  PlanningProblem WithNodeCount(int node_count) const;

 private:
  PlanningProblem() = default;
  std::shared_ptr<const ModelSpec> model_;
  std::shared_ptr<const Topology> topology_;
  Knowledge knowledge_;
  int64_t global_batch_size_ = 0;
  PlanningRules rules_;
  // [node group]
  std::vector<Bytes> usable_memory_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_PLANNING_PROBLEM_H_
