// The flags that make up a question: model, cluster, batch, rules, limits. Every command that asks
// for a plan or predicts one has them.

#ifndef PARPLAN_CLIENTS_PLANCTL_COMMANDS_QUESTION_FLAGS_H_
#define PARPLAN_CLIENTS_PLANCTL_COMMANDS_QUESTION_FLAGS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/service/shell/command_line.h"
#include "parplan/v1/plan.pb.h"
#include "parplan/v1/profile.pb.h"
#include "planner/model/calibration.h"

namespace parplan::planctl {

// The values of the flags. Unless a comment says otherwise, 0 and empty texts stand for flags that
// are not given: the default of `PlanSpec` in plan.proto.
struct QuestionFlags {
  // Paths of the files of model, cluster and measurements, and the samples of a step.
  std::string model_path;
  std::string cluster_path;
  std::vector<std::string> profile_paths;
  int64_t global_batch_size = 0;
  // Nodes; 0: the number in the cluster file.
  int node_count = 0;

  // The planner's name (`PlannerNames`, planner/find_plan.h).
  std::string planner;
  // Share of a device's memory that is left free; below 0: the default.
  double memory_headroom_ratio = -1.0;
  // Probability of running out of memory; below 0: the default.
  double out_of_memory_risk = -1.0;

  // The name of the program that will train, and the path of a calibration.
  std::string runtime;
  std::string calibration_path;
  int max_tensor_parallel_degree = 0;
  int max_pipeline_parallel_degree = 0;
  int64_t micro_batch_count = 0;
  // Empty: searched.
  std::string schedule;
  // Names of dimensions; empty: all of them.
  std::string space;
  // The program that plans are for; empty: the default of `PlanningOptions`.
  std::string target;
  // The first of the batch sizes to search, and the step from one to the next, in samples. Both are
  // 0 if only `global_batch_size` is searched.
  int64_t smallest_global_batch_size = 0;
  int64_t global_batch_size_step = 0;

  // The fields of `PlanningOptions` with these names.
  bool disable_recompute = false;
  bool disable_sharded_data_parallel = false;
  bool allow_estimates = false;
  // Seconds; 0: none.
  double search_time_limit = 0.0;
  // Below 0 if not given.
  double wanted_gap_percent = -1.0;
  // Whether a search that is given time, and no gap, uses the time for a proof. Not so for
  // comparisons, in which every planner shall do what it does by itself.
  bool spends_time_limit = false;
  // Bytes that a second of a step weighs for `min-memory-ilp`; below 0: none.
  double ilp_alpha_bytes_per_second = -1.0;
  // Empty: the best.
  std::string partitioner;
  // Unit in which the `galvatron` planners count memory, in MiB; 0: one.
  int64_t memory_granule_mebibytes = 0;
  // Equal layers in a row that get one strategy; 0: one.
  int fused_layer_count = 0;
  // Partial plans; 0: no limit.
  int64_t max_state_count = 0;
  int top_plan_count = 0;
  bool wants_memory_front = false;
  bool wants_robust_plan = false;

  // Adds the flags, of which `--model`, `--cluster` and `--batch` must be given unless the caller
  // lifts it. `with_planner`: also those that choose planner and limits and those of
  // AddPaperOptionsTo, and `spends_time_limit` is then set. REQUIRES, unchecked, of this and the
  // next four: this object stays where it is until the command line is read, which sets its
  // members.
  void AddTo(shell::Command command, bool with_planner);
  // Adds the options of the planners of the Galvatron papers.
  void AddPaperOptionsTo(shell::Command command);
  // Adds `--time-limit`, `--max-states` and `--gap` alone.
  void AddLimitsTo(shell::Command command);
  // Adds the flags that ask for more than one plan, that of AddRobustTo included.
  void AddAnswersTo(shell::Command command);
  // Adds `--robust`.
  void AddRobustTo(shell::Command command);

  // Reads the model and cluster files and puts the question together. Without a model path the
  // question has no model. INVALID_ARGUMENT (SPEC_INVALID) naming the flag or the field of the
  // file, for files that ReadModel and ReadCluster (files.h) refuse, a space, target, partitioner,
  // schedule or number of nodes that is none, and a smallest batch above the largest. Names of
  // planner and runtime and the rules of model and cluster are not checked.
  absl::StatusOr<v1::PlanSpec> ReadSpec() const;

  // Reads the calibration file; null when none was named. INVALID_ARGUMENT (SPEC_INVALID) naming
  // file and field.
  absl::StatusOr<std::shared_ptr<const Calibration>> ReadCalibrationFile() const;

  // Reads the profile files, in the order of the flags. INVALID_ARGUMENT naming file and field:
  // SPEC_INVALID for a text that is no profile, PROFILE_INVALID for one that breaks a rule.
  absl::StatusOr<std::vector<v1::Profile>> ReadProfiles() const;
};

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_COMMANDS_QUESTION_FLAGS_H_
