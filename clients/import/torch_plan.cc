#include "clients/import/torch_plan.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "exports/layer_strategies.h"
#include "exports/pass_table.h"
#include "exports/torch_plan_export.h"
#include "planner/model/planning_problem.h"
#include "planner/model/strategy_fields.h"

namespace parplan {
namespace {

static_assert(kStrategyFieldCount == 13, "read the new field");

using nlohmann::json;

// Longest value of a member that an error repeats.
constexpr size_t kShownBytes = 80;

std::string Shown(const json& value) {
  const std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  return text.size() <= kShownBytes ? text : absl::StrCat(text.substr(0, kShownBytes), "...");
}

// Reads members of one file and remembers the first fault.
class TorchMembers {
 public:
  explicit TorchMembers(const std::string& file_name) : file_name_(file_name) {}

  // Returns the member `key` of `object`, or null after a fault or if it is missing.
  const json& At(const json& object, const std::string& path, const char* key) {
    static const json none;
    if (object.is_object() && object.contains(key)) return object.at(key);
    Fault(Join(path, key), "is missing");
    return none;
  }
  int Count(const json& object, const std::string& path, const char* key, int minimum) {
    const json& value = At(object, path, key);
    return status_.ok() ? ToCount(value, Join(path, key), minimum) : minimum;
  }
  int ToCount(const json& value, const std::string& path, int minimum) {
    if (!status_.ok()) return minimum;
    const absl::StatusOr<int> count =
        ReadCount(value, minimum, Reason::kSpecInvalid, file_name_, path);
    if (!count.ok()) status_ = count.status();
    return count.ok() ? *count : minimum;
  }
  bool Flag(const json& object, const std::string& path, const char* key) {
    const json& value = At(object, path, key);
    if (value.is_boolean()) return value.get<bool>();
    Fault(Join(path, key), "must be true or false");
    return false;
  }
  std::string Text(const json& object, const std::string& path, const char* key) {
    const json& value = At(object, path, key);
    if (value.is_string()) return value.get<std::string>();
    Fault(Join(path, key), "must be a text");
    return "";
  }
  // Returns the members of a list; none after a fault.
  const json& List(const json& object, const std::string& path, const char* key) {
    static const json none = json::array();
    const json& value = At(object, path, key);
    if (value.is_array() && !value.empty()) return value;
    Fault(Join(path, key), "must be a list with at least one entry");
    return none;
  }

  void Fault(const std::string& path, absl::string_view rule) {
    if (status_.ok()) status_ = ImportError(Reason::kSpecInvalid, file_name_, path, rule);
  }
  const absl::Status& status() const { return status_; }

  static std::string Join(const std::string& path, const char* key) {
    return path.empty() ? key : absl::StrCat(path, ".", key);
  }

 private:
  const std::string& file_name_;
  absl::Status status_;
};

void ReadMesh(const json& entry, const std::string& path, TorchMembers* members,
              Strategy* strategy) {
  const json& mesh = members->At(entry, path, "mesh");
  const std::string mesh_path = absl::StrCat(path, ".mesh");
  const json& shape = members->List(mesh, mesh_path, "shape");
  const json& axes = members->List(mesh, mesh_path, "axes");
  if (!members->status().ok()) return;
  const bool is_data_outermost = axes == json{"data", "context", "tensor"};
  if (!is_data_outermost && axes != json{"tensor", "context", "data"}) {
    members->Fault(absl::StrCat(mesh_path, ".axes"),
                   "must be data, context, tensor, or the other way round");
    return;
  }
  if (shape.size() != 3) {
    members->Fault(absl::StrCat(mesh_path, ".shape"), "must have three degrees");
    return;
  }
  std::array<int, 3> degrees = {};
  for (size_t i = 0; i < degrees.size(); ++i) {
    const std::string place = absl::StrCat(mesh_path, ".shape[", i, "]");
    degrees[i] = members->ToCount(shape[i], place, 1);
    if (degrees[i] > kMaxDeviceCount) {
      members->Fault(place, absl::StrCat("must be at most ", kMaxDeviceCount));
    }
  }
  strategy->data_parallel_degree = is_data_outermost ? degrees[0] : degrees[2];
  strategy->context_parallel_degree = degrees[1];
  strategy->tensor_parallel_degree = is_data_outermost ? degrees[2] : degrees[0];
  strategy->rank_order =
      is_data_outermost ? RankOrder::kTensorInnermost : RankOrder::kDataInnermost;
}

ShardingLevel ReadLevel(const json& entry, const std::string& path, TorchMembers* members) {
  const std::string place = absl::StrCat(path, ".data_parallel");
  const json& value = members->At(entry, path, "data_parallel");
  const std::string kind = members->Text(value, place, "kind");
  if (kind == "replicate") return ShardingLevel::kNone;
  if (kind != "fully_shard") {
    members->Fault(absl::StrCat(place, ".kind"), "must be replicate or fully_shard");
    return ShardingLevel::kNone;
  }
  const bool reshards = members->Flag(value, place, "reshard_after_forward");
  const std::string reduces = members->Text(value, place, "reduce_gradients");
  if (reduces == "micro_batch") {
    return reshards ? ShardingLevel::kParameters : ShardingLevel::kGradients;
  }
  if (reduces != "step" || reshards) {
    members->Fault(absl::StrCat(place, ".reduce_gradients"),
                   "must be micro_batch, or step without reshard_after_forward");
  }
  return ShardingLevel::kOptimizer;
}

// Returns the ranks that share the states, which are not all of those with the same parameters.
int ReadShardDegree(const json& value, const std::string& path, const Strategy& strategy,
                    TorchMembers* members) {
  const std::string place = absl::StrCat(path, ".data_parallel");
  const int degree = members->Count(value, place, "shard_degree", 2);
  const int replicas = strategy.replica_count();
  if (degree >= replicas || replicas % degree != 0) {
    members->Fault(absl::StrCat(place, ".shard_degree"),
                   absl::StrCat("must be a divisor of the ", replicas,
                                " ranks over data and context, below it"));
  }
  return degree;
}

Strategy ReadStrategy(const json& entry, const std::string& path, TorchMembers* members,
                      TorchPlanTraits* traits) {
  Strategy strategy;
  ReadMesh(entry, path, members, &strategy);
  strategy.sharding_level = ReadLevel(entry, path, members);
  if (strategy.sharding_level != ShardingLevel::kNone && members->status().ok() &&
      entry["data_parallel"].contains("shard_degree")) {
    strategy.sharding_degree = ReadShardDegree(entry["data_parallel"], path, strategy, members);
  }
  strategy.sequence_parallel = members->Flag(entry, path, "sequence_parallel");
  strategy.expert_parallel_degree = members->Count(entry, path, "expert_parallel_degree", 1);
  const std::string context = members->Text(entry, path, "context_parallel");
  if (context == "all_to_all") {
    strategy.context_kind = ContextKind::kUlysses;
  } else if (context != "ring") {
    members->Fault(absl::StrCat(path, ".context_parallel"), "must be ring or all_to_all");
  }
  const std::string recompute = members->Text(entry, path, "recompute");
  if (recompute == "layer") {
    strategy.recompute_level = RecomputeLevel::kFull;
  } else if (recompute == "attention" || recompute == "operators") {
    strategy.recompute_level = RecomputeLevel::kSelective;
    if (recompute == "operators") traits->selective_recompute = SelectiveRecompute::kOperators;
  } else if (recompute != "none") {
    members->Fault(absl::StrCat(path, ".recompute"), "must be none, layer, attention or operators");
  }
  return strategy;
}

TorchPlanFormat ReadFormat(const json& object, TorchMembers* members) {
  const std::string format = members->Text(object, "", "format");
  const int version = members->Count(object, "", "version", 1);
  if (version != kTorchPlanVersion) {
    members->Fault("version", absl::StrCat("must be ", kTorchPlanVersion,
                                           "; this release reads no other, export the plan again"));
  }
  for (const TorchPlanFormat known : {TorchPlanFormat::kFsdp2, TorchPlanFormat::kPipelining}) {
    if (format == TorchPlanFormatName(known)) return known;
  }
  members->Fault("format", "must be parplan.fsdp2 or parplan.torch-pipelining");
  return TorchPlanFormat::kFsdp2;
}

void ReadPipeline(const json& object, TorchMembers* members, Plan* plan, int* degree) {
  const json& pipeline = members->At(object, "", "pipeline");
  *degree = members->Count(pipeline, "pipeline", "degree", 1);
  plan->virtual_stage_count = members->Count(pipeline, "pipeline", "virtual_stages", 1);
  const std::optional<Schedule> schedule =
      FindSchedule(members->Text(pipeline, "pipeline", "schedule"));
  if (!schedule.has_value()) {
    members->Fault("pipeline.schedule", "must be 1f1b, gpipe, interleaved or zb-h1");
    return;
  }
  plan->schedule = *schedule;
}

// Reads which strategy each layer of each stage has.
LayerStrategies ReadStages(const json& object, const ModelSpec& model, TorchMembers* members,
                           TorchPlanTraits* traits) {
  LayerStrategies layers;
  std::vector<Strategy> strategies;
  for (const json& entry : members->List(object, "", "strategies")) {
    const std::string path = absl::StrCat("strategies[", strategies.size(), "]");
    strategies.push_back(ReadStrategy(entry, path, members, traits));
    if (!members->status().ok()) return layers;
  }
  for (const json& stage : members->List(object, "", "stages")) {
    const std::string path = absl::StrCat("stages[", layers.stage_layer_counts.size(), "]");
    const json& entries = members->List(stage, path, "layers");
    for (size_t i = 0; i < entries.size() && members->status().ok(); ++i) {
      const std::string place = absl::StrCat(path, ".layers[", i, "]");
      const int index = members->Count(entries[i], place, "strategy", 0);
      if (static_cast<size_t>(index) >= strategies.size()) {
        members->Fault(absl::StrCat(place, ".strategy"), "is no index of `strategies`");
        return layers;
      }
      layers.strategies.push_back(strategies[index]);
    }
    layers.stage_layer_counts.push_back(static_cast<int>(entries.size()));
  }
  if (layers.strategies.size() != static_cast<size_t>(model.layer_count())) {
    members->Fault("stages", absl::StrCat("hold ", layers.strategies.size(),
                                          " layers, and the model ", model.layer_count()));
  }
  return layers;
}

void ReadNumbers(const json& object, const ModelSpec& model, TorchMembers* members,
                 TorchPlanTraits* traits) {
  const json& numbers = members->At(object, "", "numbers");
  const std::string messages = members->Text(numbers, "numbers", "gradient_messages");
  const std::string type(TorchTypeName(model.precision()));
  if (messages != "float32" && messages != type) {
    members->Fault("numbers.gradient_messages", absl::StrCat("must be float32 or ", type));
  }
  traits->reduction_bytes = messages == "float32" ? 4 : 2;
}

// Requires `given` to be what the plan that was read of it makes.
absl::Status CompareDocument(const json& given, const json& expected,
                             const std::string& file_name) {
  if (given == expected) return absl::OkStatus();
  const json first = json::diff(given, expected).front();
  const json::json_pointer place(first["path"].get<std::string>());
  const std::string path = place.to_string();
  const std::string kind = first["op"].get<std::string>();
  if (kind == "remove") {
    return ImportError(Reason::kSpecInvalid, file_name, path,
                       "is unknown, or too much; leave it out");
  }
  if (kind == "add") {
    return ImportError(Reason::kSpecInvalid, file_name, path,
                       absl::StrCat("is missing, and must be ", Shown(first["value"])));
  }
  return ImportError(
      Reason::kSpecInvalid, file_name, path,
      absl::StrCat("contradicts the rest of the file, which makes it ", Shown(first["value"])));
}

}  // namespace

absl::string_view RuntimeOfTorchPlan(const TorchPlanTraits& traits) {
  if (traits.selective_recompute == SelectiveRecompute::kOperators) return "torchtitan";
  return traits.reduction_bytes == 2 ? "fsdp" : "torch";
}

absl::StatusOr<TorchPlanImport> ImportTorchPlan(const NamedText& document,
                                                const std::optional<NamedText>& passes,
                                                const ModelSpec& model) {
  PARPLAN_ASSIGN_OR_RETURN(const json object, ParseJsonObject(document, Reason::kSpecInvalid));
  TorchMembers members(document.name);
  TorchPlanImport import;
  Plan& plan = import.plan;
  import.format = ReadFormat(object, &members);
  plan.device_count = members.Count(object, "", "device_count", 1);
  plan.global_batch_size = members.Count(object, "", "global_batch_size", 1);
  plan.micro_batch_count = members.Count(object, "", "micro_batch_count", 1);
  int degree = 1;
  ReadPipeline(object, &members, &plan, &degree);
  const LayerStrategies layers = ReadStages(object, model, &members, &import.traits);
  if (import.format == TorchPlanFormat::kFsdp2) {
    ReadNumbers(object, model, &members, &import.traits);
  }
  PARPLAN_RETURN_IF_ERROR(members.status());
  const size_t stage_count = layers.stage_layer_counts.size();
  if (int64_t{degree} * plan.virtual_stage_count != static_cast<int64_t>(stage_count) ||
      plan.device_count > kMaxDeviceCount || plan.device_count % degree != 0) {
    return ImportError(
        Reason::kSpecInvalid, document.name, "pipeline.degree",
        absl::StrCat("must divide the at most ", kMaxDeviceCount,
                     " devices and, times virtual_stages, be the ", stage_count, " stages"));
  }
  plan.stages = StagesOf(layers, model, degree, plan.device_count / degree);
  PARPLAN_RETURN_IF_ERROR(import.format == TorchPlanFormat::kFsdp2
                              ? CheckFsdp2Plan(plan, model)
                              : CheckTorchPipelining(plan, model));
  const json expected =
      json::parse(TorchPlanJson(import.format, plan, model, import.traits).dump());
  PARPLAN_RETURN_IF_ERROR(CompareDocument(object, expected, document.name));
  if ((degree > 1) != passes.has_value()) {
    return ImportError(Reason::kSpecInvalid, document.name, "pipeline.passes",
                       degree > 1 ? "names a table of passes, which must be given too"
                                  : "has no table of passes, but one is given");
  }
  if (passes.has_value()) {
    PARPLAN_RETURN_IF_ERROR(CheckPassTable(passes->text, passes->name, PipelineShapeOf(plan)));
  }
  return import;
}

}  // namespace parplan
