#include "clients/calibrate/published_run.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "clients/calibrate/megatron_arguments.h"
#include "clients/calibrate/plain_model.h"
#include "clients/calibrate/row_fields.h"
#include "clients/calibrate/row_runtime.h"
#include "clients/import/named_text.h"

namespace parplan::accuracy {
namespace {

using Json = nlohmann::json;

constexpr char kSchema[] = "published_runs/1";
constexpr double kGibibyte = 1073741824.0;

// Returns the size; absent if `bytes` is not a size that any device has.
std::optional<Bytes> SizeOf(double bytes) {
  constexpr double kLargestMemory = 1e15;
  if (!(bytes > 0.0 && bytes <= kLargestMemory)) return std::nullopt;
  return Bytes::Ceil(bytes);
}

void ReadHardware(const RowFields& fields, PublishedHardware* hardware) {
  hardware->device_name = fields.Text({"gpu", "device", "accelerator"}).value_or("");
  if (hardware->device_name.empty()) fields.Fault("gpu", "is missing");
  hardware->memory_gb = fields.Number({"mem_gb", "memory_gb"}).value_or(0.0);
  hardware->device_count = fields.RequiredCount({"n_gpus", "gpus", "num_gpus", "world_size"});
  hardware->device_count_assumed = fields.Flag({"n_gpus_assumed"}).value_or(false);
  hardware->devices_per_node = fields.Count({"gpus_per_node", "devices_per_node"}, 1).value_or(0);
  const std::optional<int> node_count = fields.Count({"n_nodes", "nodes", "num_nodes"}, 1);
  if (hardware->devices_per_node == 0 && node_count.has_value()) {
    if (hardware->device_count % *node_count != 0) {
      fields.Fault("n_nodes", "must divide n_gpus");
    } else {
      hardware->devices_per_node = hardware->device_count / *node_count;
    }
  }
  hardware->heterogeneous = fields.Flag({"heterogeneous"}).value_or(false);
  hardware->interconnect =
      fields.Text({"interconnect", "network", "fabric", "gpu_note"}).value_or("");
  hardware->network_text = fields.Text({"network_text"}).value_or("");
  hardware->nvlink_domain = fields.Count({"nvlink_domain"}, 1).value_or(0);
  hardware->similar_device_name = fields.Text({"gpu_like"}).value_or("");
  hardware->power_limit_watts = fields.Number({"power_limit_w"}).value_or(0.0);
  hardware->memory_terabytes_per_second = fields.Number({"mem_bandwidth_tb_s"}).value_or(0.0);
}

// `true`, the name of a strategy, or the degree.
void ReadFsdp(const RowFields& fields, PublishedRun* run) {
  PublishedParallelism& parallelism = run->parallelism;
  const Json* fsdp = fields.Any({"fsdp", "sharding", "sharding_strategy", "fsdp_sharding"});
  const int replicas = fields.Count({"dp_replicate"}, 1).value_or(1);
  if (const auto degree = fields.Count({"dp_shard", "data_parallel_shard_degree"}, 1)) {
    parallelism.zero_level = 3;
    parallelism.data_parallel_degree = CappedProduct(*degree, replicas);
  }
  if (replicas > 1) run->beyond.push_back("replicas of sharded groups are not modelled");
  if (fsdp == nullptr) return;
  if (fsdp->is_boolean()) {
    if (fsdp->get<bool>()) parallelism.zero_level = 3;
  } else if (fsdp->is_string()) {
    const std::string name = absl::AsciiStrToLower(fsdp->get<std::string>());
    if (absl::StrContains(name, "hybrid")) {
      run->beyond.push_back("replicas of sharded groups are not modelled");
    } else if (absl::StrContains(name, "full") || absl::StrContains(name, "zero3") ||
               absl::StrContains(name, "zero-3")) {
      parallelism.zero_level = 3;
    } else if (absl::StrContains(name, "grad") || absl::StrContains(name, "zero2") ||
               absl::StrContains(name, "zero-2")) {
      parallelism.zero_level = 2;
    } else if (absl::StrContains(name, "no")) {
      parallelism.zero_level = 0;
    } else {
      fields.Fault("fsdp", absl::StrCat("`", name, "` is no strategy that is known here"));
    }
  } else if (fsdp->is_number_integer()) {
    // Tables of Megatron-Bridge and NeMo say 0 or 1, later ones the degree.
    const int degree =
        fields.Count({"fsdp", "sharding", "sharding_strategy", "fsdp_sharding"}, 0).value_or(0);
    if (degree > 0) parallelism.zero_level = 3;
    if (degree > 1) parallelism.data_parallel_degree = degree;
  } else {
    fields.Fault("fsdp", "must be true, false, a degree or a strategy");
  }
}

void ReadParallelism(const RowFields& fields, PublishedRun* run) {
  PublishedParallelism& parallelism = run->parallelism;
  const auto read = [&fields](RowFields::Names names, int* degree) {
    if (const auto value = fields.Count(names, 1)) *degree = *value;
  };
  read({"tp", "tensor_parallel"}, &parallelism.tensor_parallel_degree);
  read({"pp", "pipeline_parallel"}, &parallelism.pipeline_parallel_degree);
  read({"cp", "context_parallel"}, &parallelism.context_parallel_degree);
  read({"ep", "expert_parallel"}, &parallelism.expert_parallel_degree);
  read({"etp", "expert_tp", "expert_tensor_parallel"}, &parallelism.expert_tensor_parallel_degree);
  read({"vpp", "vp", "virtual_pipeline"}, &parallelism.virtual_stage_count);
  ReadFsdp(fields, run);
  read({"dp", "data_parallel"}, &parallelism.data_parallel_degree);
  if (const auto level = fields.Count({"zero", "zero_stage"}, 0)) {
    if (*level > 3) fields.Fault("zero", "must be 0 to 3");
    // A sharding strategy says more than the level an option leaves lower.
    parallelism.zero_level = std::max(*level, parallelism.zero_level.value_or(0));
  }
  if (const auto sharded = fields.Flag({"distributed_optimizer", "dist_opt"})) {
    if (*sharded && parallelism.zero_level.value_or(0) == 0) parallelism.zero_level = 1;
  }
  if (const auto flag = fields.Flag({"sp", "sequence_parallel"})) {
    parallelism.sequence_parallel = *flag;
  }
  if (auto layers = fields.Counts({"layers_per_stage"}, 0)) {
    parallelism.layers_per_stage = *std::move(layers);
  }
  if (fields.Has({"stage_gpus"})) run->hardware.heterogeneous = true;
  parallelism.layout = fields.Text({"layout"}).value_or("");
  const bool embedding = fields.Flag({"asym_pp_embed"}).value_or(false);
  const bool loss = fields.Flag({"asym_pp_loss"}).value_or(false);
  if (embedding != loss) {
    run->beyond.push_back("only one end of the model counts as a layer of the pipeline split");
  }
  if (embedding && loss) parallelism.ends_count_as_layers = true;
}

// Words for how context-parallel ranks share tokens: those of Megatron's --cp-comm-type, and others
// for the same.
struct ContextWord {
  absl::string_view word;
  ContextKind kind;
};
constexpr ContextWord kContextWords[] = {
    {"p2p", ContextKind::kRing},
    {"ring", ContextKind::kRing},
    {"a2a", ContextKind::kUlysses},
    {"alltoall", ContextKind::kUlysses},
    {"ulysses", ContextKind::kUlysses},
    {"allgather", ContextKind::kAllGather},
    {"all_gather", ContextKind::kAllGather},
    {"all-gather", ContextKind::kAllGather},
};

// Reads how context-parallel ranks share tokens.
void ReadContextKind(const RowFields& fields, PublishedRun* run) {
  const std::optional<std::string> name = fields.Text({"cp_comm"});
  if (!name.has_value()) return;
  PublishedParallelism& parallelism = run->parallelism;
  const std::string lower = absl::AsciiStrToLower(*name);
  for (const ContextWord& known : kContextWords) {
    if (lower != known.word) continue;
    parallelism.context_kind = known.kind;
    return;
  }
  // Among them `a2a+p2p`, of which the row would have to say how many ranks each part has.
  if (parallelism.context_parallel_degree > 1) {
    run->beyond.push_back(absl::StrCat("context parallelism by `", *name, "` is not read"));
  }
}

// A text, or true for `full` and false for `none`.
void ReadRecompute(const RowFields& fields, PublishedRun* run) {
  const RowFields::Names names = {"recompute", "activation_checkpointing", "ac"};
  const Json* value = fields.Any(names);
  if (value != nullptr) {
    if (value->is_boolean()) {
      run->recompute = value->get<bool>() ? "full" : "none";
    } else if (value->is_string()) {
      run->recompute = value->get<std::string>();
    } else {
      fields.Fault("recompute", "must be a text, true or false");
    }
  }
  if (const Json* modules = fields.Any({"recompute_modules"})) {
    if (!modules->is_array()) return fields.Fault("recompute_modules", "must be a list of names");
    // The row says more than the arguments of its model.
    run->recompute_modules.clear();
    for (const Json& module : *modules) {
      if (!module.is_string()) return fields.Fault("recompute_modules", "must be a list of names");
      run->recompute_modules.push_back(module.get<std::string>());
    }
  }
  const RowFields detail = fields.Section("recompute_detail");
  if (detail.Text({"method"}).value_or("") == "block") {
    run->recompute_layer_count = detail.Count({"num_layers"}, 1).value_or(0);
  }
  run->offloaded_layer_count = fields.Count({"offload_layers"}, 1).value_or(0);
}

void ReadMeasured(const RowFields& fields, PublishedRun* run) {
  if (const auto seconds = fields.Number({"iter_time_s", "step_time_s", "time_per_step_s"})) {
    run->step = Seconds::Of(*seconds);
  } else if (const auto milliseconds = fields.Number({"iter_time_ms", "step_time_ms"})) {
    run->step = Seconds::Milliseconds(*milliseconds);
  } else if (const auto rate = fields.Number({"tokens_per_s_per_gpu", "tokens_per_sec_per_gpu"})) {
    run->step = Seconds::Of(static_cast<double>(run->global_batch_size) *
                            run->model.sequence_length / (*rate * run->hardware.device_count));
  } else if (const auto samples = fields.Number({"samples_per_s", "samples_per_sec"})) {
    run->step = Seconds::Of(static_cast<double>(run->global_batch_size) / *samples);
  }
  // Values outside 1 ns to about a year are typing errors.
  constexpr double kLongestStep = 3e7;
  constexpr double kShortestStep = 1e-9;
  if (run->step.has_value() &&
      !(run->step->value() >= kShortestStep && run->step->value() <= kLongestStep)) {
    run->step.reset();
  }
  if (const auto bytes = fields.Number({"peak_mem_bytes", "peak_memory_bytes"})) {
    run->peak_memory = SizeOf(*bytes);
    run->peak_memory_to_the_byte = true;
  } else if (const auto gigabytes =
                 fields.Number({"peak_mem_gb", "peak_mem_gib", "peak_memory_gb"})) {
    run->peak_memory = SizeOf(*gigabytes * kGibibyte);
  } else if (const auto reserved = fields.Number({"peak_reserved_gib", "max_reserved_gib"})) {
    run->peak_memory = SizeOf(*reserved * kGibibyte);
    run->memory_view = MemoryView::kReservedMax;
  } else if (const auto reserved_bytes =
                 fields.Number({"peak_reserved_bytes", "max_reserved_bytes"})) {
    run->peak_memory = SizeOf(*reserved_bytes);
    run->memory_view = MemoryView::kReservedMax;
  }
  if (const auto bytes = fields.Number({"allocated_bytes"})) {
    run->allocated_memory = SizeOf(*bytes);
  }
  run->out_of_memory = fields.Flag({"oom"});
}

void ReadRow(const RowFields& fields, PublishedRun* run) {
  run->split = fields.Text({"split"}).value_or("");
  run->framework = fields.Text({"framework"}).value_or("");
  run->note = fields.Text({"note"}).value_or("");
  if (const auto of_memory = fields.Text({"memory_note"})) {
    absl::StrAppend(&run->note, run->note.empty() ? "" : "; ", *of_memory);
  }
  run->cite = fields.Text({"cite"}).value_or("");
  ReadRuntimeWords(run);
  const RowFields hardware = fields.Section("hardware");
  ReadHardware(hardware, &run->hardware);
  const RowFields model = fields.Section("model");
  run->model.name = model.Text({"name"}).value_or("");
  const std::string architecture = model.Text({"arch"}).value_or("");
  if (architecture == "megatron-args") {
    const RowFields arguments = model.Section("args");
    ReadMegatronArguments(arguments, run);
  } else {
    ReadPlainModel(model, architecture, run);
    ReadRuntime(model, run);
  }
  ReadParallelism(fields.Section("parallel"), run);
  const RowFields batch = fields.Section("batch");
  if (const auto size = batch.Count({"mbs", "micro_batch_size"}, 1)) run->micro_batch_size = *size;
  if (const auto size = batch.Count({"gbs", "global_batch_size"}, 1)) {
    run->global_batch_size = *size;
  }
  if (run->micro_batch_size == 0) batch.Fault("mbs", "is missing");
  ReadRecompute(fields, run);
  if (const auto precision = fields.Text({"precision", "dtype"})) run->precision = *precision;
  if (const auto split = fields.Text({"pipeline_split"})) {
    run->parallelism.ends_count_as_layers |= absl::StrContains(*split, "layer slots");
  }
  run->expert_dispatcher = fields.Text({"moe_dispatcher"}).value_or("");
  ReadContextKind(fields, run);
  ReadRuntime(fields, run);
  ReadNotes(fields, run);
  ReadConditions(fields, run);
  ReadMeasured(fields.Section("measured"), run);
  if (run->hardware.heterogeneous) {
    run->beyond.push_back("a plan is for devices of one kind; this run used several kinds");
  }
}

}  // namespace

absl::StatusOr<PublishedRuns> ReadPublishedRuns(const NamedText& file) {
  PARPLAN_ASSIGN_OR_RETURN(const Json root, ParseJsonObject(file, Reason::kSpecInvalid));
  const auto broken = [&file](absl::string_view field, absl::string_view rule) {
    return ImportError(Reason::kSpecInvalid, file.name, field, rule);
  };
  const auto schema = root.find("schema");
  if (schema == root.end() || *schema != kSchema) {
    return broken("schema", absl::StrCat("must be `", kSchema, "`"));
  }
  const auto rows = root.find("runs");
  if (rows == root.end() || !rows->is_array()) return broken("runs", "must be a list of rows");
  PublishedRuns result;
  std::set<std::string> ids;
  for (size_t i = 0; i < rows->size(); ++i) {
    const std::string place = absl::StrCat("runs[", i, "]");
    const Json& row = (*rows)[i];
    if (!row.is_object()) return broken(place, "must be an object");
    RowFault fault;
    const RowFields fields(&row, "", &fault);
    PublishedRun run;
    run.id = fields.Text({"id"}).value_or("");
    run.source = fields.Text({"source"}).value_or("");
    if (run.id.empty()) return broken(place + ".id", "must be a text that is not empty");
    if (run.source.empty()) return broken(place + ".source", "must be a text that is not empty");
    if (!ids.insert(run.id).second) {
      return broken(place + ".id", absl::StrCat("`", run.id, "` occurs twice"));
    }
    ReadRow(fields, &run);
    // A feature that the planner cannot express is reported rather than a value that the row lacks.
    if (!run.beyond.empty()) {
      result.skipped.push_back({run.id, run.source, run.beyond.front()});
    } else if (!fault.ok()) {
      result.skipped.push_back({run.id, run.source, fault.text()});
    } else {
      result.runs.push_back(std::move(run));
    }
  }
  return result;
}

}  // namespace parplan::accuracy
