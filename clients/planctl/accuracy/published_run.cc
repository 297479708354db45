#include "clients/planctl/accuracy/published_run.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "clients/planctl/accuracy/known_models.h"
#include "clients/planctl/accuracy/megatron_arguments.h"
#include "clients/planctl/accuracy/row_fields.h"
#include "planner/base/error.h"
#include "planner/base/status_macros.h"

namespace parplan::accuracy {
namespace {

using Json = nlohmann::json;

constexpr char kSchema[] = "published_runs/1";
constexpr double kGibibyte = 1073741824.0;

// Nothing where `bytes` is no size any device has.
std::optional<Bytes> SizeOf(double bytes) {
  constexpr double kLargestMemory = 1e15;
  if (!(bytes > 0.0 && bytes <= kLargestMemory)) return std::nullopt;
  return Bytes::Ceil(bytes);
}

// Families of architectures by the names rows give them.
struct Architecture {
  absl::string_view word;
  FeedForwardKind feed_forward_kind;
  bool tied_embedding;
  bool learned_positions;
};
constexpr Architecture kArchitectures[] = {
    {"gpt", FeedForwardKind::kGelu, true, true},
    {"opt", FeedForwardKind::kGelu, true, true},
    {"bert", FeedForwardKind::kGelu, true, true},
    {"mpt", FeedForwardKind::kGelu, true, false},
    {"bloom", FeedForwardKind::kGelu, true, false},
    {"llama", FeedForwardKind::kSwiglu, false, false},
    {"mistral", FeedForwardKind::kSwiglu, false, false},
    {"mixtral", FeedForwardKind::kSwiglu, false, false},
    {"qwen", FeedForwardKind::kSwiglu, false, false},
    {"moe", FeedForwardKind::kSwiglu, false, false},
    {"nemotron", FeedForwardKind::kGelu, false, false},
};

void ReadFeedForward(const RowFields& fields, PublishedModel* model) {
  if (const auto gated = fields.Flag({"swiglu", "gated"})) {
    model->feed_forward_kind = *gated ? FeedForwardKind::kSwiglu : FeedForwardKind::kGelu;
  }
  if (const auto name = fields.Text({"activation", "mlp", "act"})) {
    const std::string lower = absl::AsciiStrToLower(*name);
    const bool gated = absl::StrContains(lower, "glu") || lower == "silu" || lower == "gated";
    model->feed_forward_kind = gated ? FeedForwardKind::kSwiglu : FeedForwardKind::kGelu;
  }
  if (const auto width = fields.Count(
          {"ffn", "ffn_hidden", "ffn_hidden_size", "intermediate", "intermediate_size", "d_ff"},
          1)) {
    model->feed_forward_size = *width;
  } else if (model->feed_forward_size == 0 && model->feed_forward_kind == FeedForwardKind::kGelu) {
    model->feed_forward_size = 4 * model->hidden_size;
  }
}

void ReadExperts(const RowFields& fields, PublishedModel* model) {
  model->expert_count = fields.Count({"experts", "num_experts", "n_experts", "moe_experts"}, 0)
                            .value_or(model->expert_count);
  if (model->expert_count > 0) {
    const RowFields::Names names = {"top_k", "topk", "moe_topk", "moe_top_k", "experts_per_token"};
    if (model->experts_per_token == 0 || fields.Has(names)) {
      model->experts_per_token = fields.RequiredCount(names);
    }
    model->expert_feed_forward_size =
        fields
            .Count({"moe_ffn", "expert_ffn", "moe_ffn_hidden", "moe_ffn_hidden_size",
                    "expert_ffn_hidden", "moe_intermediate"},
                   1)
            .value_or(model->feed_forward_size);
    model->shared_expert_feed_forward_size =
        fields.Count({"shared_expert_ffn", "moe_shared_ffn", "shared_ffn"}, 0).value_or(0);
    model->dense_layer_count =
        fields.Count({"dense_layers", "first_dense_layers", "first_k_dense"}, 0).value_or(0);
    model->expert_layer_interval = fields.Count({"moe_layer_freq", "moe_interval"}, 1).value_or(1);
  }
  // Every layer has experts only, or there is a width for the others.
  const bool dense_layers =
      model->expert_count == 0 || model->dense_layer_count > 0 || model->expert_layer_interval > 1;
  const int width = dense_layers ? model->feed_forward_size : model->expert_feed_forward_size;
  if (width == 0) fields.Fault(dense_layers ? "ffn" : "moe_ffn", "is missing");
}

void ReadPlainModel(const RowFields& fields, const std::string& architecture, PublishedRun* run) {
  PublishedModel& model = run->model;
  const std::string lower = absl::AsciiStrToLower(absl::StrCat(architecture, " ", model.name));
  for (const Architecture& known : kArchitectures) {
    if (!absl::StrContains(lower, known.word)) continue;
    model.feed_forward_kind = known.feed_forward_kind;
    model.tied_embedding = known.tied_embedding;
    model.learned_positions = known.learned_positions;
    break;
  }
  // BLOOM's models and their prequel add a bias by distance to the scores (ALiBi).
  if (absl::StartsWith(run->source, "bigscience")) model.learned_positions = false;
  model.encoder = absl::StrContains(lower, "bert");
  if (absl::StrContains(lower, "t5")) {
    run->beyond.push_back("encoder-decoder models are not read");
  }
  if (absl::StrContains(lower, "deepseek") ||
      fields.Flag({"mla", "multi_latent_attention"}).value_or(false)) {
    run->beyond.push_back("multi-latent attention is not modelled");
  }
  if (absl::StrContains(lower, "mamba") || absl::StrContains(lower, "hybrid") ||
      absl::StrContains(lower, "nemotron-h") || absl::StrContains(lower, "nemotron_h")) {
    run->beyond.push_back("Mamba layers are not modelled");
  }
  FillKnownModel(model.name, &model);
  const auto require = [&fields](RowFields::Names names, int* size) {
    if (*size == 0 || fields.Has(names)) *size = fields.RequiredCount(names);
  };
  require({"layers", "num_layers", "n_layers"}, &model.layer_count);
  require({"hidden", "hidden_size", "d_model"}, &model.hidden_size);
  require({"heads", "num_heads", "n_heads", "num_attention_heads"}, &model.attention_head_count);
  require({"seq", "seq_len", "seq_length", "sequence_length", "max_seq_len"},
          &model.sequence_length);
  require({"vocab", "vocab_size", "vocabulary"}, &model.vocabulary_size);
  model.key_value_head_count =
      fields
          .Count({"kv_heads", "num_kv_heads", "n_kv_heads", "num_query_groups", "query_groups",
                  "gqa_groups", "num_key_value_heads"},
                 1)
          .value_or(model.key_value_head_count);
  model.head_size = fields.Count({"head_dim", "head_size", "kv_channels", "kv_dim"}, 1).value_or(0);
  if (const auto tied =
          fields.Flag({"tied", "tied_embedding", "tied_embeddings", "tie_embeddings",
                       "tie_word_embeddings", "share_embeddings_and_output_weights"})) {
    model.tied_embedding = *tied;
  }
  if (const auto untied = fields.Flag({"untied", "untie", "untie_embeddings"})) {
    model.tied_embedding = !*untied;
  }
  if (const auto positions = fields.Text({"pos", "positions", "position_embedding"})) {
    model.learned_positions = absl::StrContains(*positions, "learned");
  }
  ReadFeedForward(fields, &model);
  ReadExperts(fields, &model);
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
}

// `true`, the name of a strategy, or the degree.
void ReadFsdp(const RowFields& fields, PublishedRun* run) {
  PublishedParallelism& parallelism = run->parallelism;
  const Json* fsdp = fields.Any({"fsdp", "sharding", "sharding_strategy", "fsdp_sharding"});
  const int replicas = fields.Count({"dp_replicate"}, 1).value_or(1);
  if (const auto degree = fields.Count({"dp_shard", "data_parallel_shard_degree"}, 1)) {
    parallelism.zero_level = 3;
    parallelism.data_parallel_degree = *degree * replicas;
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
}

// A text, or true for `full` and false for `none`.
void ReadRecompute(const RowFields& fields, PublishedRun* run) {
  const RowFields::Names names = {"recompute", "activation_checkpointing", "ac"};
  const Json* value = fields.Any(names);
  if (value == nullptr) return;
  if (value->is_boolean()) {
    run->recompute = value->get<bool>() ? "full" : "none";
  } else if (value->is_string()) {
    run->recompute = value->get<std::string>();
  } else {
    fields.Fault("recompute", "must be a text, true or false");
  }
}

void ReadRuntime(const RowFields& fields, PublishedRun* run) {
  if (const auto kernel = fields.Text({"attention", "attn", "attn_impl", "attention_backend"})) {
    const std::string lower = absl::AsciiStrToLower(*kernel);
    if (absl::StrContains(lower, "flash") || absl::StrContains(lower, "fused") ||
        absl::StrContains(lower, "sdpa") || absl::StrContains(lower, "triton") ||
        absl::StrContains(lower, "cudnn")) {
      run->runtime.attention_kernel = AttentionKernel::kFlash;
    }
    if (absl::StrContains(lower, "cudnn") || absl::StrContains(lower, "3")) {
      run->runtime.flash_kernel = FlashKernel::kNative;
    } else if (absl::StrContains(lower, "sdpa") || absl::StrContains(lower, "2")) {
      run->runtime.flash_kernel = FlashKernel::kSecond;
    } else if (absl::StrContains(lower, "triton")) {
      run->runtime.flash_kernel = FlashKernel::kFirst;
    }
    if (absl::StrContains(lower, "unfused") || lower == "torch" || lower == "local" ||
        lower == "eager") {
      run->runtime.attention_kernel = AttentionKernel::kUnfused;
    }
  }
  if (const auto flash = fields.Flag({"flash_attention", "flash_attn"})) {
    run->runtime.attention_kernel = *flash ? AttentionKernel::kFlash : AttentionKernel::kUnfused;
  }
  for (const std::string& text : {run->framework, run->note}) {
    const std::string lower = absl::AsciiStrToLower(text);
    if (absl::StrContains(lower, "no torch.compile") ||
        absl::StrContains(lower, "without torch.compile")) {
      run->runtime.compiled = false;
    } else if (absl::StrContains(lower, "torch.compile") || absl::StrContains(lower, "compiled")) {
      run->runtime.compiled = true;
    }
    if (absl::StrContains(lower, "async tp") || absl::StrContains(lower, "asynctp")) {
      run->runtime.overlap_tensor_parallel = true;
    }
  }
  if (const auto compiled = fields.Flag({"compile", "torch_compile"})) {
    run->runtime.compiled = *compiled;
  }
  if (const auto overlap = fields.Flag({"async_tp", "tp_overlap", "tp_comm_overlap"})) {
    run->runtime.overlap_tensor_parallel = *overlap;
  }
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
  // A year, a nanosecond: beyond is a slip, not a step.
  constexpr double kLongestStep = 3e7;
  constexpr double kShortestStep = 1e-9;
  if (run->step.has_value() &&
      !(run->step->value() >= kShortestStep && run->step->value() <= kLongestStep)) {
    run->step.reset();
  }
  if (const auto bytes = fields.Number({"peak_mem_bytes", "peak_memory_bytes"})) {
    run->peak_memory = SizeOf(*bytes);
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
    run->parallelism.ends_count_as_layers = absl::StrContains(*split, "layer slots");
  }
  ReadRuntime(fields, run);
  ReadMeasured(fields.Section("measured"), run);
  if (run->hardware.heterogeneous) {
    run->beyond.push_back("a job runs on devices of one kind, these are of several");
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
    // What the planner has no words for is said before what the row lacks.
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
