// Reads a case of the public Galvatron search engine, which is a question that the engine was asked
// and its answer, and makes a problem for our planners of the question.
//
// A case is one JSON object. It names the files of profiles and hardware, the memory of a device
// and the batch, and has the plan that the engine chose with the time that it predicted.
// `parplan-study oracle` reads one for each file it is given. MB and megabytes are 2^20 bytes.

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
  // Whether the values in the hardware files were extrapolated, not measured.
  bool is_synthetic = false;
  // Memory of one device.
  double memory_gibibytes = 0.0;
  // Global batch sizes, from the smallest to the largest by the step; only the largest if the
  // smallest is 0.
  int64_t smallest_global_batch_size = 0;
  int64_t largest_global_batch_size = 0;
  int64_t global_batch_size_step = 1;
  // 0: every divisor of the batch size.
  int64_t micro_batch_count = 0;
  // Limits by the engine's name: `disable_tp`, `max_pp_deg`, ...; absent ones have its defaults.
  std::map<std::string, int> search_space;
  // Whether layers that do not have ZeRO-3 have ZeRO-2; otherwise they have plain data parallelism.
  bool default_is_zero_2 = true;
  // Whether the schedule is GPipe; otherwise it is 1F1B.
  bool is_gpipe = false;
  // The engine's switch of this name, which decides how much memory gradients take if there are
  // several micro-batches (`EngineModel`).
  bool async_grad_reduce = true;
  // Whether layers with tensor parallelism have sequence parallelism too.
  bool sequence_parallel = true;
  // Whether the model is trained in fp32; otherwise it is in bf16.
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
  // [stage] megabytes of a device as the engine reports them, its reserve included, and those that
  // it had left; may be empty.
  std::vector<double> reported_megabytes;
  std::vector<double> remaining_megabytes;
  // One entry per stage, for people to read; may be empty.
  std::vector<std::string> stage_gist;
};

// A case with everything that was read for it. Refers to nothing outside.
struct OracleCase {
  std::string id;
  OracleQuestion question;
  // The engine's input files: times and memory of layers, bandwidths of all-reduce and of send and
  // receive, the slowdown by overlap, and, if it has one, the table of times by message size.
  GalvatronFiles files;
  // Absent if the engine found no plan, or failed.
  std::optional<OracleAnswer> answer;
  // The engine's error message if it gave no answer.
  std::string error;
  // Processor time of the search, the median over the engine's runs, on one thread; absent if the
  // case does not have it.
  std::optional<Seconds> search_cpu_time;

  // The input of our planners.
  v1::Profile profile;
  v1::ModelSpec model;
  v1::ClusterTopology topology;
  // Assumptions, one sentence per entry.
  std::vector<std::string> notes;
};

// Returns the text of a file that a case names, by the path as the case has it. Relative to which
// folder is the caller's decision. Its errors should name the file.
using OracleFileReader = std::function<absl::StatusOr<std::string>(const std::string& path)>;

// Reads a case and the files that it names. Calls `read` during the call, once for each file that
// `file` names, and returns its first error unchanged. Returns INVALID_ARGUMENT with file and field
// if `file` is no case (SPEC_INVALID) or a file of it cannot be imported (SPEC_INVALID or
// PROFILE_INVALID).
absl::StatusOr<OracleCase> ReadOracleCase(const NamedText& file, const OracleFileReader& read);

// The plans among which a case is answered.
enum class OracleSpace {
  // The space that the engine searched, and uneven stages: its target, degrees and schedule.
  kEngine = 1,
  // All plans of our planners.
  kWhole = 2,
};

// Returns the case as a question to our planners, which shares nothing with `oracle`. A device has
// the whole memory of the case: reserves are those of our own model. A null `calibration` stands
// for `PublishedCalibration`. Returns the errors of `ModelFromProto`, `TopologyFromProto`,
// `KnownHardware`, `SnapshotOfNodes` and `PlanningProblem::Create`.
absl::StatusOr<PlanningProblem> OracleProblem(
    const OracleCase& oracle, OracleSpace space,
    const std::shared_ptr<const Calibration>& calibration = nullptr);

}  // namespace parplan

#endif  // PARPLAN_STUDIES_ORACLE_ORACLE_CASE_H_
