#include "clients/import/deepspeed_section.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace parplan {
namespace {

using nlohmann::json;

// The flags of `planctl import deepspeed` that stand in for the keys of the batch.
constexpr char kFlagsOfBatch[] = ", or give --micro-batch-size and --accumulation-steps";

bool IsOfBatch(absl::string_view key) {
  return key == "train_batch_size" || key == "train_micro_batch_size_per_gpu" ||
         key == "gradient_accumulation_steps";
}

// Keys that change neither the shape of the model nor how it is divided over ranks, by object. The
// empty path is the whole file.
struct IgnoredKeys {
  const char* path;
  std::vector<const char*> keys;
};

const std::vector<IgnoredKeys>& AllIgnoredKeys() {
  static const auto* const keys = new std::vector<IgnoredKeys>{
      {"",
       {"aio",
        "checkpoint",
        "comet",
        "comms_config",
        "comms_logger",
        "communication_data_type",
        "csv_monitor",
        "data_types",
        "dataloader_drop_last",
        "datastates",
        "disable_python_gc",
        "dump_state",
        "flops_profiler",
        "gradient_allreduce_op",
        "gradient_clipping",
        "gradient_predivide_factor",
        "log_level",
        "managed_gradient_accumulation",
        "memory_breakdown",
        "monitor_config",
        "nebula",
        "prescale_gradients",
        "scheduler",
        "seq_parallel_communication_data_type",
        "sparse_gradients",
        "steps_per_print",
        "tensorboard",
        "timers",
        "use_node_local_storage",
        "vocabulary_size",
        "wall_clock_breakdown",
        "wandb",
        "zero3_init_flag",
        "zero3_save_16bit_model",
        "zero_allow_untested_optimizer",
        "zero_force_ds_cpu_optimizer"}},
      {"zero_optimization",
       {"allgather_bucket_size",
        "allgather_partitions",
        "compute_grad_norm",
        "contiguous_gradients",
        "elastic_checkpoint",
        "enable_sanity_checks",
        "gather_16bit_weights_on_model_save",
        "ignore_unused_parameters",
        "leaf_module",
        "legacy_stage1",
        "load_from_fp32_weights",
        "log_trace_cache_warnings",
        "max_live_parameters",
        "max_reuse_distance",
        "memory_efficient_linear",
        "model_persistence_threshold",
        "module_granularity_threshold",
        "overlap_comm",
        "override_module_apply",
        "param_persistence_threshold",
        "parameter_alignment",
        "pipeline_loading_checkpoint",
        "prefetch_bucket_size",
        "reduce_bucket_size",
        "reduce_scatter",
        "round_robin_gradients",
        "stage3_allgather_sequential",
        "stage3_gather_16bit_weights_on_model_save",
        "stage3_max_live_parameters",
        "stage3_max_reuse_distance",
        "stage3_model_persistence_threshold",
        "stage3_module_granularity_threshold",
        "stage3_param_persistence_threshold",
        "stage3_prefetch_bucket_size",
        "stage3_use_all_reduce_for_fetch_params",
        "sub_group_size",
        "use_multi_rank_bucket_allreduce"}},
      {"bf16", {"check_grad_overflow", "immediate_grad_update"}},
      {"fp16",
       {"auto_cast", "consecutive_hysteresis", "hysteresis", "initial_scale_power", "loss_scale",
        "loss_scale_window", "min_loss_scale"}},
      {"optimizer", {"legacy_fusion", "params"}},
      {"tensor_parallel",
       {"dtype", "injection_policy_tuple", "keep_module_on_host", "partition_config",
        "preset_model", "tp_overlap_comm", "vocab_parallel_ce_backend", "vocab_parallel_lm_head"}},
      {"expert_parallel",
       {"async_split_plan", "combine_impl", "comm_backend", "disable_triton_grouped_mm",
        "expert_pattern", "gate_up_impl", "load_balance_coeff", "moe_layer_pattern", "preset_model",
        "route_norm", "route_scale", "router_pattern", "row_weighting_impl", "score_apply",
        "score_func", "top_k", "use_grouped_mm", "validate_folding_routing"}},
      {"pipeline",
       {"grad_partitioned", "partition", "pipe_partitioned", "seed_layers", "use_reentrant"}},
      {"activation_checkpointing",
       {"contiguous_memory_optimization", "profile", "synchronize_checkpoint_boundary"}},
  };
  return *keys;
}

const json& EmptyObject() {
  static const auto* const empty = new json(json::object());
  return *empty;
}

}  // namespace

DeepSpeedSection::DeepSpeedSection(const json* object, absl::string_view file_name, std::string key)
    : object_(object == nullptr ? EmptyObject() : *object),
      key_(std::move(key)),
      fields_(object_, file_name, key_.empty() ? "" : absl::StrCat(key_, ".")) {}

bool DeepSpeedSection::IsAuto(const char* key) const {
  const auto found = object_.find(key);
  return found != object_.end() && found->is_string() && *found == "auto";
}

bool DeepSpeedSection::Is(const char* key, bool value) const {
  const auto found = object_.find(key);
  return found != object_.end() && found->is_boolean() && found->get<bool>() == value;
}

std::optional<int> DeepSpeedSection::Number(const char* key, int minimum) {
  fields_.MarkRead(key);
  if (!Has(key)) return std::nullopt;
  if (IsAuto(key)) {
    fields_.Fail(key, absl::StrCat("is `auto`, which a trainer fills in; write the number",
                                   IsOfBatch(key) ? kFlagsOfBatch : ""));
    return std::nullopt;
  }
  return minimum == 0 ? fields_.Count({key}, 0) : fields_.Optional({key}, 1);
}

void DeepSpeedSection::Sort(std::vector<std::string>* ignored,
                            std::vector<std::string>* unknown) const {
  for (const std::string& key : fields_.Unread()) {
    // Comments begin with an underscore.
    const bool is_known =
        absl::StartsWith(key, "_") ||
        std::any_of(AllIgnoredKeys().begin(), AllIgnoredKeys().end(), [&](const auto& known) {
          return known.path == key_ &&
                 std::any_of(known.keys.begin(), known.keys.end(),
                             [&key](const char* name) { return key == name; });
        });
    (is_known ? ignored : unknown)->push_back(key_.empty() ? key : absl::StrCat(key_, ".", key));
  }
}

}  // namespace parplan
