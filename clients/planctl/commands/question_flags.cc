#include "clients/planctl/commands/question_flags.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "clients/planctl/files.h"
#include "planner/model/planning_problem.h"
#include "planner/model/runtime_traits.h"
#include "planner/model/schedule_traits.h"
#include "planner/model/search_space.h"
#include "proto/wire/calibration_wire.h"
#include "proto/wire/duration_wire.h"
#include "proto/wire/node_count.h"
#include "proto/wire/rules_wire.h"

namespace parplan::planctl {
namespace {

std::string RuntimeNames() {
  std::string names;
  for (const RuntimeTraits& runtime : KnownRuntimes()) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", runtime.runtime_id);
  }
  return names;
}

std::string TargetNames() {
  std::string names;
  for (const TargetLimits& target : KnownTargets()) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", target.name);
  }
  return names;
}

std::vector<std::string> ScheduleNames() {
  std::vector<std::string> names;
  for (const ScheduleTraits& traits : KnownSchedules()) names.emplace_back(traits.name);
  return names;
}

}  // namespace

void QuestionFlags::AddTo(shell::Command command, bool with_planner) {
  command.AddOption("--model", model_path, "Model file (docs/files.md)").Required();
  command.AddOption("--cluster", cluster_path, "Cluster file (docs/files.md)").Required();
  // 0 in a question means that it names no batch.
  command.AddOption("--batch", global_batch_size, "Samples per optimizer step over the whole job")
      .Required()
      .Check(shell::Positive());
  command.AddOption("--profile", profile_paths,
                    "Profile file; may be given several times, the first wins");
  command.AddOption("--nodes", node_count, "Number of nodes, instead of the file's")
      .Check(shell::Positive());
  command
      .AddOption("--headroom", memory_headroom_ratio,
                 "Share of device memory left free in addition to what --risk keeps [0]")
      .Check(shell::Share());
  command
      .AddOption("--risk", out_of_memory_risk,
                 "Accepted probability of running out of memory [0.01]")
      .Check(shell::Risk());
  command
      .AddOption("--runtime", runtime,
                 absl::StrCat("Program that will train: ", RuntimeNames(),
                              " [that of --target, else parplan]"))
      .Check(shell::NotEmpty());
  command.AddOption("--calibration", calibration_path,
                    "Calibration file, without a server (docs/calibration.md)");
  command.AddOption("--max-tensor-parallel", max_tensor_parallel_degree,
                    "Largest tensor-parallel degree [devices of a node]");
  command.AddOption("--max-pipeline-parallel", max_pipeline_parallel_degree,
                    "Largest pipeline degree [no limit]");
  command.AddOption("--micro-batches", micro_batch_count, "Micro-batches per step [search]");
  command
      .AddOption("--schedule", schedule,
                 absl::StrCat("Only this pipeline schedule: ", absl::StrJoin(ScheduleNames(), ", "),
                              " [search]"))
      .Check(shell::OneOf(ScheduleNames()));
  command
      .AddOption(
          "--space", space,
          "Dimensions that may vary: `all` or `none`, then names to add and, with `-`, to take "
          "away: all,-gpipe (docs/search.md) [all]")
      .Check(shell::NotEmpty());
  command
      .AddOption(
          "--target", target,
          absl::StrCat("Only plans that this program can run: ", TargetNames(), " [parplan]"))
      .Check(shell::NotEmpty());
  shell::Option from =
      command
          .AddOption("--batch-from", smallest_global_batch_size,
                     "Search the batch too, for the least time a sample: from this one up to "
                     "--batch")
          .Check(shell::Positive());
  command
      .AddOption("--batch-step", global_batch_size_step,
                 "Difference from one batch to the next [1]")
      .Check(shell::Positive())
      .Needs(from);
  command.AddFlag("--no-recompute", disable_recompute, "Never recompute activations");
  command.AddFlag("--no-sharding", disable_sharded_data_parallel, "Never shard parameters");
  command.AddFlag("--allow-estimates", allow_estimates,
                  "Fill missing measurements from the nearest ones and from data sheets, and "
                  "say so");
  if (!with_planner) return;
  command
      .AddOption("--planner", planner,
                 absl::StrCat("Planner [", kDefaultPlanner, "]; see docs/search.md"))
      .Check(shell::NotEmpty());
  command
      .AddOption("--ilp-alpha", ilp_alpha_bytes_per_second,
                 "Weight of a second of a step for --planner min-memory-ilp, bytes [least "
                 "memory, then least time]")
      .Check(shell::NotNegative());
  AddPaperOptionsTo(command);
  AddLimitsTo(command);
  spends_time_limit = true;
}

void QuestionFlags::AddPaperOptionsTo(shell::Command command) {
  command
      .AddOption("--partitioner", partitioner,
                 absl::StrCat("How the galvatron planners and the baselines divide layers into "
                              "stages: ",
                              PartitionerNames(), " [best]"))
      .Check(shell::NotEmpty());
  command
      .AddOption("--memory-granule", memory_granule_mebibytes,
                 "Unit in which the galvatron planners count memory, MiB [1]")
      .Check(shell::Between(1, kMaxMemoryGranule.count() >> 20));
  command
      .AddOption("--fuse-layers", fused_layer_count,
                 "Equal layers in a row to which the galvatron planners give one strategy [1]")
      .Check(shell::Between(1, kMaxLayerCount));
}

void QuestionFlags::AddLimitsTo(shell::Command command) {
  command.AddOption("--time-limit", search_time_limit, "Seconds to search at most")
      .Check(shell::Positive());
  command.AddOption("--max-states", max_state_count, "Partial plans to make at most")
      .Check(shell::Positive());
  command
      .AddOption(
          "--gap", wanted_gap_percent,
          "End once no plan can be faster by more than this many percent; until then search "
          "again with larger limits [0 with --time-limit, else one search with fixed limits]")
      .Check(shell::Between(0.0, 100.0));
}

void QuestionFlags::AddAnswersTo(shell::Command command) {
  command.AddOption("--top", top_plan_count, "Number of distinct plans, the best first [1]")
      .Check(shell::Between(1, kMaxTopPlanCount));
  command.AddFlag("--front", wants_memory_front,
                  "Also the plans of which none is both faster and smaller than another");
  AddRobustTo(command);
}

void QuestionFlags::AddRobustTo(shell::Command command) {
  command.AddFlag("--robust", wants_robust_plan,
                  "Of the plans within 1 % of the fastest take the one whose predicted range ends "
                  "earliest");
}

absl::StatusOr<v1::PlanSpec> QuestionFlags::ReadSpec() const {
  v1::PlanSpec spec;
  if (!space.empty()) PARPLAN_RETURN_IF_ERROR(DimensionSet::Parse(space, "--space").status());
  if (!target.empty() && FindTarget(target) == nullptr) {
    return FieldError(Reason::kSpecInvalid, "--target",
                      absl::StrCat("must be one of ", TargetNames()));
  }
  if (!partitioner.empty() && !FindPartitioner(partitioner).has_value()) {
    return FieldError(Reason::kSpecInvalid, "--partitioner",
                      absl::StrCat("must be one of ", PartitionerNames()));
  }
  const std::optional<Schedule> wanted_schedule = FindSchedule(schedule);
  if (!schedule.empty() && !wanted_schedule.has_value()) {
    return FieldError(Reason::kSpecInvalid, "--schedule",
                      absl::StrCat("must be one of ", absl::StrJoin(ScheduleNames(), ", ")));
  }
  // The batch size is still 0 if it is to be the plan's.
  if (smallest_global_batch_size > global_batch_size && global_batch_size > 0) {
    return FieldError(Reason::kSpecInvalid, "--batch-from",
                      absl::StrCat("must be at most --batch, which is ", global_batch_size));
  }
  if (!model_path.empty()) {
    PARPLAN_ASSIGN_OR_RETURN(*spec.mutable_model(), ReadModel(model_path));
  }
  PARPLAN_ASSIGN_OR_RETURN(*spec.mutable_topology(), ReadCluster(cluster_path));
  if (node_count != 0) {
    PARPLAN_RETURN_IF_ERROR(SetNodeCount(node_count, "--nodes", spec.mutable_topology()));
  }
  spec.set_global_batch_size(global_batch_size);
  v1::PlanningOptions& options = *spec.mutable_options();
  options.set_planner(planner);
  if (memory_headroom_ratio >= 0.0) options.set_memory_headroom_ratio(memory_headroom_ratio);
  if (out_of_memory_risk >= 0.0) options.set_out_of_memory_probability(out_of_memory_risk);
  options.set_runtime_id(runtime);
  options.set_max_tensor_parallel_degree(max_tensor_parallel_degree);
  options.set_max_pipeline_parallel_degree(max_pipeline_parallel_degree);
  options.set_micro_batch_count(micro_batch_count);
  if (wanted_schedule.has_value()) options.set_schedule(ScheduleToProto(*wanted_schedule));
  options.set_space(space);
  options.set_target(target);
  options.set_smallest_global_batch_size(smallest_global_batch_size);
  options.set_global_batch_size_step(global_batch_size_step);
  options.set_top_plan_count(top_plan_count);
  options.set_wants_memory_front(wants_memory_front);
  options.set_wants_robust_plan(wants_robust_plan);
  if (ilp_alpha_bytes_per_second >= 0.0) {
    options.set_ilp_alpha_bytes_per_second(ilp_alpha_bytes_per_second);
  }
  options.set_partitioner(partitioner);
  options.set_memory_granule_bytes(memory_granule_mebibytes << 20);
  options.set_fused_layer_count(fused_layer_count);
  options.set_disable_recompute(disable_recompute);
  options.set_disable_sharded_data_parallel(disable_sharded_data_parallel);
  options.set_allow_estimates(allow_estimates);
  if (search_time_limit > 0.0) {
    *options.mutable_search_time_limit() = DurationToProto(Seconds::Of(search_time_limit));
  }
  options.set_max_state_count(max_state_count);
  // Whoever gives the search time wants it used.
  if (wanted_gap_percent >= 0.0) {
    options.set_wanted_gap_ratio(wanted_gap_percent / 100.0);
  } else if (spends_time_limit && search_time_limit > 0.0) {
    options.set_wanted_gap_ratio(0.0);
  }
  return spec;
}

absl::StatusOr<std::shared_ptr<const Calibration>> QuestionFlags::ReadCalibrationFile() const {
  if (calibration_path.empty()) return nullptr;
  PARPLAN_ASSIGN_OR_RETURN(const v1::Calibration message, ReadCalibration(calibration_path));
  PARPLAN_ASSIGN_OR_RETURN(Calibration calibration,
                           CalibrationFromProto(message, calibration_path));
  return std::make_shared<const Calibration>(std::move(calibration));
}

absl::StatusOr<std::vector<v1::Profile>> QuestionFlags::ReadProfiles() const {
  std::vector<v1::Profile> profiles;
  for (const std::string& path : profile_paths) {
    PARPLAN_ASSIGN_OR_RETURN(v1::Profile profile, ReadProfile(path));
    profiles.push_back(std::move(profile));
  }
  return profiles;
}

}  // namespace parplan::planctl
