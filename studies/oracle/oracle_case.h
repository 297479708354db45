// Cases that were run through the public Galvatron search engine: its inputs as a
// problem of ours, and its answer.
//
// A case is one JSON object that names profile and hardware files beside it, the budget and the
// batch, and has the plan the engine chose with the time it predicted. `parplan-study oracle` reads
// one for each file it is given.

#ifndef PARPLAN_STUDIES_ORACLE_ORACLE_CASE_H_
#define PARPLAN_STUDIES_ORACLE_ORACLE_CASE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "clients/import/galvatron_profile.h"
#include "clients/import/named_text.h"
#include "parplan/v1/model.pb.h"
#include "parplan/v1/profile.pb.h"
#include "parplan/v1/topology.pb.h"
#include "planner/model/calibration.h"
#include "planner/model/planning_problem.h"
#include "studies/oracle/oracle_models.h"

namespace parplan {

// The engine's ways to read a profile: one entry, a line over batch sizes, or a curve over sequence
// lengths.
enum class OracleProfileMode { kStatic, kBatch, kSequence };

// The question that the engine was asked.
struct OracleQuestion {
  std::string model_name;
  // One for each kind of transformer layer, in the model's order.
  std::vector<OracleLayerRun> runs;
  OracleProfileMode time_mode = OracleProfileMode::kStatic;
  OracleProfileMode memory_mode = OracleProfileMode::kStatic;
  int node_count = 1;
  int devices_per_node = 8;
  // Whether the hardware tables were extrapolated, not measured.
  bool is_synthetic = false;
  double memory_gibibytes = 0.0;
  // Batch sizes; only `largest` if `smallest` is 0.
  int64_t smallest_global_batch_size = 0;
  int64_t largest_global_batch_size = 0;
  int64_t global_batch_size_step = 1;
  // 0: every divisor of the batch size.
  int64_t micro_batch_count = 0;
  // Limits by the engine's name: `disable_tp`, `max_pp_deg`, ...; absent ones have its defaults.
  std::map<std::string, int> search_space;
  bool default_is_zero_2 = true;
  bool is_gpipe = false;
  bool async_grad_reduce = true;
  bool sequence_parallel = true;
  bool is_fp32 = false;

  int device_count() const { return node_count * devices_per_node; }
  // Returns a number of `search_space`, or `otherwise` if it is absent.
  int Space(const std::string& key, int otherwise) const {
    const auto found = search_space.find(key);
    return found == search_space.end() ? otherwise : found->second;
  }
};

// The engine's answer.
struct OracleAnswer {
  // The strategy file that the engine wrote.
  NamedText strategy_file;
  Seconds step;
  double samples_per_second = 0.0;
  // Megabytes of each stage as the engine reports them (with its reserve), and those it had left.
  std::vector<double> reported_megabytes;
  std::vector<double> remaining_megabytes;
  // One entry per stage, for people to read.
  std::vector<std::string> stage_gist;
};

struct OracleCase {
  std::string id;
  OracleQuestion question;
  // The engine's input files: times, memory, all-reduce, send and receive, overlap, tables.
  GalvatronFiles files;
  // Absent if the engine found no plan, or failed.
  std::optional<OracleAnswer> answer;
  // The engine's error message if it gave no answer.
  std::string error;
  // Median over the engine's runs, on one thread.
  std::optional<Seconds> search_cpu_time;

  // The input of our planners.
  v1::Profile profile;
  v1::ModelSpec model;
  v1::ClusterTopology topology;
  // Assumptions, one sentence per entry.
  std::vector<std::string> notes;
};

// Returns the text of a file that a case names, by the path in it.
using OracleFileReader = std::function<absl::StatusOr<std::string>(const std::string& path)>;

// Reads a case and the files that it names. Returns INVALID_ARGUMENT (PROFILE_INVALID or
// SPEC_INVALID) with file and field if `file` is no case or a file of it can't be imported; errors
// of `read`, which is called once a file, are returned unchanged.
absl::StatusOr<OracleCase> ReadOracleCase(const NamedText& file, const OracleFileReader& read);

// The plans among which a case is answered.
enum class OracleSpace {
  // The space that the engine searched, and uneven stages: its target, degrees and schedule.
  kEngine = 1,
  // All plans of our planners.
  kWhole = 2,
};

// Returns the case as a question to our planners. A device has the whole memory of the case:
// reserves are those of our own model. A null `calibration` stands for `PublishedCalibration`.
// Returns the errors of ModelFromProto, TopologyFromProto, KnownHardware, SnapshotOfNodes and
// PlanningProblem::Create.
absl::StatusOr<PlanningProblem> OracleProblem(
    const OracleCase& oracle, OracleSpace space,
    const std::shared_ptr<const Calibration>& calibration = nullptr);

}  // namespace parplan

#endif  // PARPLAN_STUDIES_ORACLE_ORACLE_CASE_H_
