// The question a planner answers: model, devices, measurements, rules.

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
#include "planner/model/plan.h"
#include "planner/model/profile_snapshot.h"
#include "planner/model/runtime_traits.h"
#include "planner/model/search_space.h"
#include "planner/model/topology.h"

namespace parplan {

class Calibration;

// Rules of the search space that are part of the question (and of the plan
// key). Fields and defaults as in `PlanningOptions` of the proto.
struct PlanningRules {
  // Share of a device's available memory left free, in [0, 1), besides what
  // `out_of_memory_risk` keeps.
  double memory_headroom_ratio = 0.0;
  // 0: the devices of one node.
  int max_tensor_parallel_degree = 0;
  // 0: no limit.
  int max_pipeline_parallel_degree = 0;
  // 0: search.
  int64_t micro_batch_count = 0;
  // One of `dimensions` and `target`. Absent: planners that search schedules use any of the
  // space, the others 1F1B.
  std::optional<Schedule> schedule;
  // What may vary, and the program that will run the plan; `SpaceOf` has both together
  // with the two rules below.
  DimensionSet dimensions = DimensionSet::All();
  Target target = Target::kParplan;
  // 0: the problem's batch only. Else the batch is searched as well, for the least time a
  // sample: from this in steps of `global_batch_size_step`, and the problem's as the last one.
  int64_t smallest_global_batch_size = 0;
  int64_t global_batch_size_step = 1;
  // So many distinct plans, at least 1.
  int top_plan_count = 1;
  bool wants_memory_front = false;
  // Of `min-memory-ilp` alone: what a second of a step weighs in its objective, bytes,
  // finite and at least 0 (alpha in docs/min-memory-ilp.md, (5)). Absent: the least memory,
  // and with that the least time.
  std::optional<double> ilp_alpha_bytes_per_second;
  bool allow_recompute = true;
  bool allow_sharded_data_parallel = true;
  // Fill missing measurements from the nearest one there is, or from data sheets.
  bool allow_estimates = false;
  // The program that will train.
  RuntimeTraits runtime;
  // Greatest accepted probability that measured memory exceeds the device's, in
  // (0, 0.5].
  double out_of_memory_risk = 0.01;
  friend bool operator==(const PlanningRules&, const PlanningRules&) = default;
};

// Largest problem a planner accepts. Told by `GetCapabilities`.
inline constexpr int kMaxLayerCount = 16384;
inline constexpr int kMaxDeviceCount = 65536;
inline constexpr int64_t kMaxGlobalBatchSize = int64_t{1} << 30;
inline constexpr int64_t kMaxBatchSizeCount = 4096;
inline constexpr int kMaxTopPlanCount = 100;

// What is known besides the question.
struct Knowledge {
  // Null: nothing was measured.
  std::shared_ptr<const ProfileSnapshot> profile;
  // Null: the device is in no library, so nothing comes from data sheets.
  std::shared_ptr<const Hardware> hardware;
  // Null: the built-in one.
  std::shared_ptr<const Calibration> calibration;
};

// A valid question. Immutable.
class PlanningProblem {
 public:
  // INVALID_ARGUMENT (SPEC_INVALID) naming the field: more than one node
  // group, a batch that is not positive, a range of batches without any, a micro-batch count that
  // does not divide it, a schedule outside space or target, a ratio out of range, a size over its
  // limit. FAILED_PRECONDITION (PROFILE_MISSING) when the profile is of another device kind or node
  // size. Whether the points suffice is for `CostModel::Create` to say.
  static absl::StatusOr<PlanningProblem> Create(std::shared_ptr<const ModelSpec> model,
                                                std::shared_ptr<const Topology> topology,
                                                Knowledge knowledge, int64_t global_batch_size,
                                                PlanningRules rules);

  const ModelSpec& model() const { return *model_; }
  const Topology& topology() const { return *topology_; }
  const NodeGroup& node_group() const { return topology_->node_groups().front(); }
  const ProfileSnapshot& profile() const { return *knowledge_.profile; }
  // Null when the device is in no library.
  const Hardware* hardware() const { return knowledge_.hardware.get(); }
  const Calibration& calibration() const { return *knowledge_.calibration; }
  // The largest, where batches are searched.
  int64_t global_batch_size() const { return global_batch_size_; }
  // Those to search, ascending; one without a range.
  std::vector<int64_t> GlobalBatchSizes() const;
  bool AllowsGlobalBatchSize(int64_t size) const;
  // Dimensions of the rules that target, `allow_recompute` and
  // `allow_sharded_data_parallel` leave.
  DimensionSet dimensions() const;
  const PlanningRules& rules() const { return rules_; }

  int device_count() const { return topology_->device_count(); }
  // What one device may hold: available memory less headroom.
  Bytes usable_memory() const { return usable_memory_; }
  // `rules().max_tensor_parallel_degree` with its default filled in.
  int max_tensor_parallel_degree() const;
  // The same for the pipeline degree; never above the number of layers.
  int max_pipeline_parallel_degree() const;

  // The same question with another memory per device; what "the smallest
  // memory that would fit" is computed with.
  PlanningProblem WithUsableMemory(Bytes usable_memory) const;
  // With this batch only. REQUIRES: AllowsGlobalBatchSize(size).
  PlanningProblem WithGlobalBatchSize(int64_t size) const;
  // With other rules, which must be valid for the batch.
  PlanningProblem WithRules(PlanningRules rules) const;
  // On so many nodes of the same kind, nameless; at most kMaxDeviceCount devices.
  PlanningProblem WithNodeCount(int node_count) const;

 private:
  PlanningProblem() = default;
  std::shared_ptr<const ModelSpec> model_;
  std::shared_ptr<const Topology> topology_;
  Knowledge knowledge_;
  int64_t global_batch_size_ = 0;
  PlanningRules rules_;
  Bytes usable_memory_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_PLANNING_PROBLEM_H_
