#include "studies/oracle/oracle_case.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "clients/import/galvatron_memory.h"
#include "proto/wire/known_hardware.h"
#include "proto/wire/model_wire.h"
#include "proto/wire/part_of_node.h"
#include "proto/wire/published_calibration.h"
#include "proto/wire/topology_wire.h"

namespace parplan {
namespace {

using nlohmann::json;

constexpr Reason kCaseReason = Reason::kSpecInvalid;
// The engine's own defaults (search_dist.yaml).
constexpr int kDefaultMaxDegree = 8;

// Reads one object of a case and remembers where it is.
class CaseObject {
 public:
  CaseObject(const json* object, std::string file, std::string path)
      : object_(object), file_(std::move(file)), path_(std::move(path)) {}

  absl::Status Error(absl::string_view key, absl::string_view rule) const {
    return ImportError(kCaseReason, file_, absl::StrCat(path_, key), rule);
  }

  // Null where it is absent or null.
  const json* Find(const char* key) const {
    const auto found = object_->find(key);
    return found == object_->end() || found->is_null() ? nullptr : &*found;
  }

  absl::StatusOr<CaseObject> Object(const char* key) const {
    const json* const value = Find(key);
    if (value == nullptr || !value->is_object()) return Error(key, "must be an object");
    return CaseObject(value, file_, absl::StrCat(path_, key, "."));
  }

  // Returns an entry of the list `key`, which must be an object.
  absl::StatusOr<CaseObject> Entry(const char* key, size_t index) const {
    const std::string name = absl::StrCat(key, "[", index, "]");
    const json& value = (*object_)[key][index];
    if (!value.is_object()) return Error(name, "must be an object");
    return CaseObject(&value, file_, absl::StrCat(path_, name, "."));
  }

  absl::StatusOr<std::string> Text(const char* key) const {
    const json* const value = Find(key);
    if (value == nullptr || !value->is_string()) return Error(key, "must be a text");
    return value->get<std::string>();
  }

  absl::StatusOr<int> Count(const char* key, int minimum, std::optional<int> otherwise) const {
    const json* const value = Find(key);
    if (value != nullptr) {
      return ReadCount(*value, minimum, kCaseReason, file_, absl::StrCat(path_, key));
    }
    if (otherwise.has_value()) return *otherwise;
    return Error(key, "is missing");
  }

  absl::StatusOr<double> Number(const char* key) const {
    const json* const value = Find(key);
    if (value == nullptr) return Error(key, "is missing");
    return ReadNumber(*value, kCaseReason, file_, absl::StrCat(path_, key));
  }

  // `true`, or a number that is not 0.
  bool Flag(const char* key, bool otherwise) const {
    const json* const value = Find(key);
    if (value == nullptr) return otherwise;
    if (value->is_boolean()) return value->get<bool>();
    return value->is_number() ? value->get<double>() != 0.0 : otherwise;
  }

  std::vector<double> Numbers(const char* key) const {
    std::vector<double> numbers;
    const json* const value = Find(key);
    if (value == nullptr || !value->is_array()) return numbers;
    for (const json& entry : *value) {
      if (entry.is_number()) numbers.push_back(entry.get<double>());
    }
    return numbers;
  }

  const json& value() const { return *object_; }

 private:
  const json* object_;
  const std::string file_;
  const std::string path_;
};

absl::StatusOr<OracleProfileMode> ReadMode(const CaseObject& profiles, const char* key) {
  PARPLAN_ASSIGN_OR_RETURN(const std::string mode, profiles.Text(key));
  if (mode == "static") return OracleProfileMode::kStatic;
  if (mode == "batch") return OracleProfileMode::kBatch;
  if (mode == "sequence") return OracleProfileMode::kSequence;
  return profiles.Error(key, "must be `static`, `batch` or `sequence`");
}

absl::Status ReadModel(const CaseObject& input, OracleQuestion* question) {
  PARPLAN_ASSIGN_OR_RETURN(const CaseObject model, input.Object("model"));
  PARPLAN_ASSIGN_OR_RETURN(question->model_name, model.Text("name"));
  const json* const layers = model.Find("layers");
  if (layers == nullptr || !layers->is_array() || layers->empty()) {
    return model.Error("layers", "must be a list of at least one kind of layer");
  }
  for (size_t i = 0; i < layers->size(); ++i) {
    PARPLAN_ASSIGN_OR_RETURN(const CaseObject layer, model.Entry("layers", i));
    OracleLayerRun run;
    PARPLAN_ASSIGN_OR_RETURN(run.hidden_size, layer.Count("hidden_size", 1, std::nullopt));
    PARPLAN_ASSIGN_OR_RETURN(run.sequence_length, layer.Count("seq_len", 1, std::nullopt));
    PARPLAN_ASSIGN_OR_RETURN(run.layer_count, layer.Count("layer_num", 1, std::nullopt));
    question->runs.push_back(run);
  }
  return absl::OkStatus();
}

absl::Status ReadBatch(const CaseObject& input, OracleQuestion* question) {
  PARPLAN_ASSIGN_OR_RETURN(const CaseObject batch, input.Object("batch"));
  PARPLAN_ASSIGN_OR_RETURN(const int settled, batch.Count("settle_bsz", 0, 0));
  PARPLAN_ASSIGN_OR_RETURN(question->micro_batch_count, batch.Count("settle_chunk", 0, 0));
  if (settled > 0) {
    question->largest_global_batch_size = settled;
    return absl::OkStatus();
  }
  PARPLAN_ASSIGN_OR_RETURN(const int smallest, batch.Count("min_bsz", 0, 8));
  PARPLAN_ASSIGN_OR_RETURN(const int largest, batch.Count("max_bsz", 1, std::nullopt));
  PARPLAN_ASSIGN_OR_RETURN(const int step, batch.Count("bsz_scale", 1, 8));
  if (largest < std::max(smallest, step)) return batch.Error("max_bsz", "is below the smallest");
  // The engine starts at the larger of the two and stops at the last step it reaches.
  question->smallest_global_batch_size = std::max(smallest, step);
  question->global_batch_size_step = step;
  question->largest_global_batch_size =
      question->smallest_global_batch_size +
      (largest - question->smallest_global_batch_size) / step * step;
  return absl::OkStatus();
}

absl::Status ReadFlags(const CaseObject& input, OracleQuestion* question) {
  if (input.Find("search_space") != nullptr) {
    PARPLAN_ASSIGN_OR_RETURN(const CaseObject space, input.Object("search_space"));
    for (const auto& [key, value] : space.value().items()) {
      if (value.is_boolean()) {
        question->search_space[key] = value.get<bool>() ? 1 : 0;
      } else if (value.is_number_integer()) {
        PARPLAN_ASSIGN_OR_RETURN(question->search_space[key],
                                 space.Count(key.c_str(), 0, std::nullopt));
      }
    }
  }
  if (input.Find("flags") == nullptr) return absl::OkStatus();
  PARPLAN_ASSIGN_OR_RETURN(const CaseObject flags, input.Object("flags"));
  const auto text = [&flags](const char* key, const char* otherwise) {
    const json* const value = flags.Find(key);
    return value != nullptr && value->is_string() ? value->get<std::string>()
                                                  : std::string(otherwise);
  };
  question->default_is_zero_2 = text("default_dp_type", "zero2") == "zero2";
  question->is_gpipe = text("pipeline_type", "pipedream_flush") == "gpipe";
  question->is_fp32 = text("mixed_precision", "bf16") == "fp32";
  question->async_grad_reduce = flags.Flag("async_grad_reduce", true);
  question->sequence_parallel = flags.Flag("sequence_parallel", true);
  return absl::OkStatus();
}

absl::StatusOr<OracleQuestion> ReadQuestion(const CaseObject& input) {
  OracleQuestion question;
  PARPLAN_RETURN_IF_ERROR(ReadModel(input, &question));
  PARPLAN_RETURN_IF_ERROR(ReadBatch(input, &question));
  PARPLAN_RETURN_IF_ERROR(ReadFlags(input, &question));
  PARPLAN_ASSIGN_OR_RETURN(const CaseObject profiles, input.Object("profiles"));
  PARPLAN_ASSIGN_OR_RETURN(question.time_mode, ReadMode(profiles, "time_profile_mode"));
  PARPLAN_ASSIGN_OR_RETURN(question.memory_mode, ReadMode(profiles, "memory_profile_mode"));
  PARPLAN_ASSIGN_OR_RETURN(const CaseObject hardware, input.Object("hardware"));
  PARPLAN_ASSIGN_OR_RETURN(question.node_count, hardware.Count("num_nodes", 1, std::nullopt));
  PARPLAN_ASSIGN_OR_RETURN(question.devices_per_node,
                           hardware.Count("gpus_per_node", 1, std::nullopt));
  if (question.devices_per_node > kMaxDeviceCount / question.node_count) {
    return hardware.Error("num_nodes",
                          absl::StrCat("makes more than ", kMaxDeviceCount, " devices"));
  }
  question.is_synthetic = hardware.Flag("synthetic", false);
  PARPLAN_ASSIGN_OR_RETURN(question.memory_gibibytes, input.Number("memory_gb"));
  if (!(question.memory_gibibytes > 0.0) || question.memory_gibibytes > 1 << 20) {
    return input.Error("memory_gb", "must be above 0, in GiB");
  }
  return question;
}

absl::StatusOr<GalvatronFiles> ReadFiles(const CaseObject& input, const OracleFileReader& read) {
  const auto named = [&read](const CaseObject& object,
                             const char* key) -> absl::StatusOr<NamedText> {
    PARPLAN_ASSIGN_OR_RETURN(const std::string path, object.Text(key));
    PARPLAN_ASSIGN_OR_RETURN(std::string text, read(path));
    return NamedText{path, std::move(text)};
  };
  GalvatronFiles files;
  PARPLAN_ASSIGN_OR_RETURN(const CaseObject profiles, input.Object("profiles"));
  PARPLAN_ASSIGN_OR_RETURN(NamedText time, named(profiles, "time"));
  files.times.push_back(std::move(time));
  PARPLAN_ASSIGN_OR_RETURN(NamedText memory, named(profiles, "memory"));
  files.memory.push_back(std::move(memory));
  PARPLAN_ASSIGN_OR_RETURN(const CaseObject hardware, input.Object("hardware"));
  PARPLAN_ASSIGN_OR_RETURN(files.hardware.all_reduce, named(hardware, "allreduce"));
  PARPLAN_ASSIGN_OR_RETURN(files.hardware.send_receive, named(hardware, "p2p"));
  PARPLAN_ASSIGN_OR_RETURN(files.hardware.overlap, named(hardware, "overlap"));
  if (hardware.Find("sp_time") != nullptr) {
    PARPLAN_ASSIGN_OR_RETURN(files.hardware.tables, named(hardware, "sp_time"));
  }
  return files;
}

absl::StatusOr<OracleAnswer> ReadAnswer(const CaseObject& plan, const std::string& name) {
  OracleAnswer answer;
  PARPLAN_ASSIGN_OR_RETURN(const CaseObject config, plan.Object("galvatron_config"));
  answer.strategy_file = {absl::StrCat(name, ": plan.galvatron_config"), config.value().dump()};
  PARPLAN_ASSIGN_OR_RETURN(const double step, plan.Number("predicted_iteration_time_s"));
  answer.step = Seconds::Of(step);
  PARPLAN_ASSIGN_OR_RETURN(answer.samples_per_second, plan.Number("predicted_throughput"));
  answer.reported_megabytes = plan.Numbers("memory_reported_mb_per_stage");
  answer.remaining_megabytes = plan.Numbers("memory_remain_mb_per_stage");
  if (const json* const gist = plan.Find("stage_gist"); gist != nullptr && gist->is_array()) {
    for (const json& stage : *gist) {
      std::vector<std::string> parts;
      for (const json& part : stage) {
        if (part.is_string()) parts.push_back(part.get<std::string>());
      }
      answer.stage_gist.push_back(absl::StrJoin(parts, ", "));
    }
  }
  return answer;
}

absl::Status Import(const OracleQuestion& question, OracleCase* oracle) {
  PARPLAN_ASSIGN_OR_RETURN(const GalvatronMemory memory, ReadGalvatronMemory(oracle->files.memory));
  GalvatronFiles files = oracle->files;
  files.model_config =
      OracleModelConfig(question.model_name, question.runs, memory, &oracle->notes);
  GalvatronFlags flags;
  flags.model.model_id = ModelIdFrom(question.model_name);
  for (const OracleLayerRun& run : question.runs) {
    flags.model.layer_counts.push_back(run.layer_count);
    flags.model.sequence_lengths.push_back(run.sequence_length);
  }
  flags.model.precision = question.is_fp32 ? v1::PRECISION_FP32 : v1::PRECISION_BF16;
  flags.nodes = {question.node_count, question.devices_per_node};
  flags.device_kind = kDefaultDeviceKind;
  flags.device_memory_bytes =
      static_cast<int64_t>(std::floor(question.memory_gibibytes * (int64_t{1} << 30)));
  PARPLAN_ASSIGN_OR_RETURN(GalvatronImport import, ImportGalvatron(files, flags));
  oracle->profile = std::move(import.profile);
  oracle->model = *std::move(import.model);
  oracle->topology = std::move(import.topology);
  oracle->notes.insert(oracle->notes.end(), import.notes.begin(), import.notes.end());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<OracleCase> ReadOracleCase(const NamedText& file, const OracleFileReader& read) {
  PARPLAN_ASSIGN_OR_RETURN(const json object, ParseJsonObject(file, kCaseReason));
  const CaseObject root(&object, file.name, "");
  OracleCase oracle;
  PARPLAN_ASSIGN_OR_RETURN(oracle.id, root.Text("id"));
  PARPLAN_ASSIGN_OR_RETURN(const CaseObject input, root.Object("input"));
  PARPLAN_ASSIGN_OR_RETURN(oracle.question, ReadQuestion(input));
  PARPLAN_ASSIGN_OR_RETURN(oracle.files, ReadFiles(input, read));
  PARPLAN_RETURN_IF_ERROR(Import(oracle.question, &oracle));
  const json* const plan = root.Find("plan");
  if (plan != nullptr && plan->is_object() && plan->contains("galvatron_config") &&
      (*plan)["galvatron_config"].is_object()) {
    PARPLAN_ASSIGN_OR_RETURN(const CaseObject answer, root.Object("plan"));
    PARPLAN_ASSIGN_OR_RETURN(oracle.answer, ReadAnswer(answer, file.name));
  }
  if (const json* const error = root.Find("error"); error != nullptr) {
    oracle.error = error->is_string() ? error->get<std::string>() : error->dump();
  }
  if (const json* const time = root.Find("search_time"); time != nullptr && time->is_object()) {
    const CaseObject times(time, file.name, "search_time.");
    if (times.Find("median_process_cpu_s") != nullptr) {
      PARPLAN_ASSIGN_OR_RETURN(const double median, times.Number("median_process_cpu_s"));
      oracle.search_cpu_time = Seconds::Of(median);
    }
  }
  return oracle;
}

absl::StatusOr<PlanningProblem> OracleProblem(
    const OracleCase& oracle, OracleSpace space,
    const std::shared_ptr<const Calibration>& calibration) {
  const OracleQuestion& question = oracle.question;
  PlanningRules rules;
  rules.allow_estimates = true;
  rules.micro_batch_count = question.micro_batch_count;
  rules.smallest_global_batch_size = question.smallest_global_batch_size;
  rules.global_batch_size_step = question.global_batch_size_step;
  rules.runtime.sequence_parallel = question.sequence_parallel;
  if (space == OracleSpace::kEngine) {
    rules.target = Target::kGalvatron;
    rules.schedule = question.is_gpipe ? Schedule::kGpipe : Schedule::kOneForwardOneBackward;
    rules.max_tensor_parallel_degree =
        question.Space("max_tp_deg", std::min(kDefaultMaxDegree, question.device_count()));
    rules.max_pipeline_parallel_degree = question.Space("max_pp_deg", kDefaultMaxDegree);
    const struct {
      const char* key;
      SearchDimension dimension;
    } switches[] = {{"disable_tp", SearchDimension::kTensor},
                    {"disable_pp", SearchDimension::kPipeline},
                    {"disable_sdp", SearchDimension::kParameterSharding},
                    {"disable_ckpt", SearchDimension::kFullRecompute},
                    {"disable_sp", SearchDimension::kUlysses}};
    for (const auto& [key, dimension] : switches) {
      if (question.Space(key, 0) != 0) rules.dimensions = rules.dimensions.Without(dimension);
    }
  }
  PARPLAN_ASSIGN_OR_RETURN(ModelSpec model, ModelFromProto(oracle.model));
  PARPLAN_ASSIGN_OR_RETURN(Topology topology, TopologyFromProto(oracle.topology, "topology"));
  Knowledge knowledge;
  GroupKnowledge& known = knowledge.groups.emplace_back();
  PARPLAN_ASSIGN_OR_RETURN(known.hardware, KnownHardware(topology));
  knowledge.calibration = calibration != nullptr ? calibration : PublishedCalibration();
  const v1::Profile* const profile = &oracle.profile;
  const NodeGroup& group = topology.node_groups().front();
  PARPLAN_ASSIGN_OR_RETURN(ProfileSnapshot snapshot,
                           SnapshotOfNodes(absl::MakeConstSpan(&profile, 1), group.device_kind,
                                           group.devices_per_node, rules.runtime.runtime_id));
  known.profile = std::make_shared<const ProfileSnapshot>(std::move(snapshot));
  return PlanningProblem::Create(std::make_shared<const ModelSpec>(std::move(model)),
                                 std::make_shared<const Topology>(std::move(topology)),
                                 std::move(knowledge), question.largest_global_batch_size, rules);
}

}  // namespace parplan
