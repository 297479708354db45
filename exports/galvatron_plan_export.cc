#include "exports/galvatron_plan_export.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "exports/readme_text.h"
#include "planner/model/schedule_traits.h"
#include "planner/model/strategy_fields.h"

namespace parplan {
namespace {

static_assert(kStrategyFieldCount == 13, "write or refuse the new field");

absl::Status Refuse(absl::string_view field, absl::string_view rule) {
  return FieldError(Reason::kSpecInvalid, field,
                    absl::StrCat(rule, "; Galvatron's format can't hold that"));
}

absl::Status RefuseGalvatronModel(const std::string& rule) {
  return FieldError(Reason::kSpecInvalid, "model.layer_runs",
                    absl::StrCat(rule,
                                 "; Galvatron's format can't hold that, whatever the plan: change "
                                 "the model, or plan for another target"));
}

// Returns the value of `pipeline_type` for a schedule, or nothing if the format has none.
std::optional<absl::string_view> PipelineTypeOf(Schedule schedule) {
  switch (schedule) {
    case Schedule::kOneForwardOneBackward:
      return "pipedream_flush";
    case Schedule::kGpipe:
      return "gpipe";
    case Schedule::kInterleaved:
    case Schedule::kZeroBubble:
      break;
  }
  return std::nullopt;
}

// The settings a file has once for all layers.
struct CommonSettings {
  std::optional<ShardingLevel> default_level;
  std::optional<bool> sequence_parallel;
};

absl::Status NoteCommon(const std::string& field, const Strategy& strategy,
                        CommonSettings* common) {
  if (strategy.data_parallel_degree > 1 && strategy.sharding_level != ShardingLevel::kParameters) {
    if (strategy.sharding_level == ShardingLevel::kOptimizer) {
      return Refuse(absl::StrCat(field, ".sharding_level"), "shards optimizer state alone");
    }
    if (common->default_level.value_or(strategy.sharding_level) != strategy.sharding_level) {
      return Refuse(absl::StrCat(field, ".sharding_level"),
                    "shards gradients beside layers that shard nothing");
    }
    common->default_level = strategy.sharding_level;
  }
  if (strategy.sharding_degree != 0) {
    return Refuse(absl::StrCat(field, ".sharding_degree"), "shares states in groups of ranks");
  }
  if (strategy.expert_tensor_parallel_degree != 0) {
    return Refuse(absl::StrCat(field, ".expert_tensor_parallel_degree"),
                  "splits experts over other ranks than the rest of their layer");
  }
  if (strategy.expert_parallel_degree > 1) {
    return Refuse(absl::StrCat(field, ".expert_parallel_degree"), "spreads experts over ranks");
  }
  if (strategy.context_kind == ContextKind::kAllGather || strategy.context_exchange_degree > 1) {
    return Refuse(absl::StrCat(field, ".context_kind"), "is neither a plain ring nor Ulysses");
  }
  if (strategy.context_kind == ContextKind::kUlysses && strategy.tensor_parallel_degree > 1) {
    return Refuse(absl::StrCat(field, ".context_kind"), "is Ulysses beside tensor parallelism");
  }
  if (strategy.data_parallel_degree == 1 && strategy.sharding_level != ShardingLevel::kNone) {
    return Refuse(absl::StrCat(field, ".sharding_level"), "shards without data parallelism");
  }
  if (strategy.recompute_level == RecomputeLevel::kSelective) {
    return Refuse(absl::StrCat(field, ".recompute_level"), "recomputes attention alone");
  }
  if (strategy.recompute_level == RecomputeLevel::kModules) {
    return Refuse(absl::StrCat(field, ".recompute_modules"), "recomputes modules by name");
  }
  if (strategy.tensor_parallel_degree > 1) {
    if (common->sequence_parallel.value_or(strategy.sequence_parallel) !=
        strategy.sequence_parallel) {
      return Refuse(absl::StrCat(field, ".sequence_parallel"), "differs from layer to layer");
    }
    common->sequence_parallel = strategy.sequence_parallel;
  }
  return absl::OkStatus();
}

// The one degree of tensor parallelism or Ulysses.
int InnerDegree(const Strategy& strategy) {
  return strategy.context_kind == ContextKind::kUlysses ? strategy.context_parallel_degree
                                                        : strategy.tensor_parallel_degree;
}

int RingDegree(const Strategy& strategy) {
  return strategy.context_kind == ContextKind::kRing ? strategy.context_parallel_degree : 1;
}

}  // namespace

absl::Status CheckGalvatronModel(const ModelSpec& model) {
  const int last = model.layer_count() - 1;
  if (last < 2 || IsTransformer(model.layer(0).kind) ||
      model.layer(last).kind != LayerKind::kHead) {
    return RefuseGalvatronModel("must start with an embedding and end with a head");
  }
  for (int layer = 1; layer < last; ++layer) {
    const LayerDefinition& definition = model.layer(layer);
    const char* const fault = !IsTransformer(definition.kind) ? "is no transformer layer"
                              : !HasUsualParts(definition)
                                  ? "is no attention with a feed-forward part"
                                  : nullptr;
    if (fault == nullptr) continue;
    return RefuseGalvatronModel(absl::StrCat("has layer ", layer, " (`",
                                             definition.layer_definition_id, "`), which ", fault));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ExportGalvatronPlan(const Plan& plan, const ModelSpec& model) {
  std::vector<int> degrees, consecutive, sharded, recompute, ulysses, rings, sizes;
  std::vector<int> expert_tensor_degrees;
  bool has_experts = false;
  std::vector<Strategy> ends;
  CommonSettings common;
  int layer = 0;
  const int last_layer = model.layer_count() - 1;
  PARPLAN_RETURN_IF_ERROR(CheckGalvatronModel(model));
  const std::optional<absl::string_view> pipeline_type = PipelineTypeOf(plan.schedule);
  if (!pipeline_type.has_value()) {
    return Refuse("schedule", absl::StrCat("is ", TraitsOf(plan.schedule).name));
  }
  if (plan.virtual_stage_count > 1) {
    return Refuse("virtual_stage_count", "gives each device several stages");
  }
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const StagePlan& stage = plan.stages[i];
    const std::string stage_field = absl::StrCat("stages[", i, "]");
    if (stage.rank_count != plan.stages.front().rank_count) {
      return Refuse(absl::StrCat(stage_field, ".rank_count"), "differs from stage to stage");
    }
    int transformer_count = 0;
    for (size_t j = 0; j < stage.layer_runs.size(); ++j) {
      const StageLayerRun& run = stage.layer_runs[j];
      const Strategy& strategy = run.strategy;
      const std::string field = absl::StrCat(stage_field, ".layer_runs[", j, "].strategy");
      const absl::Status status = NoteCommon(field, strategy, &common);
      if (!status.ok()) return status;
      for (int k = 0; k < run.layer_count; ++k, ++layer) {
        if (layer == 0 || layer == last_layer) {
          if (strategy.recompute_level != RecomputeLevel::kNone) {
            return Refuse(absl::StrCat(field, ".recompute_level"),
                          "recomputes the embedding or the head");
          }
          if (strategy.rank_order != RankOrder::kTensorInnermost) {
            return Refuse(absl::StrCat(field, ".rank_order"),
                          "strides the tensor-parallel group of the embedding or the head");
          }
          ends.push_back(strategy);
          continue;
        }
        if (layer > last_layer) return Refuse("stages", "must hold every layer of the model once");
        ++transformer_count;
        has_experts = has_experts || model.layer(layer).expert_count > 0;
        expert_tensor_degrees.push_back(strategy.tensor_parallel_degree);
        degrees.push_back(InnerDegree(strategy));
        ulysses.push_back(strategy.context_kind == ContextKind::kUlysses);
        rings.push_back(RingDegree(strategy));
        consecutive.push_back(strategy.rank_order == RankOrder::kTensorInnermost);
        sharded.push_back(strategy.data_parallel_degree > 1 &&
                          strategy.sharding_level == ShardingLevel::kParameters);
        recompute.push_back(strategy.recompute_level == RecomputeLevel::kFull);
      }
    }
    if (transformer_count == 0) {
      return Refuse(stage_field, "has no transformer layer");
    }
    sizes.push_back(transformer_count);
  }
  if (layer != last_layer + 1 || ends.size() != 2) {
    return Refuse("stages", "must hold every layer of the model once");
  }
  if (ends[0] != ends[1]) {
    return Refuse("stages", "has the embedding and the head under different strategies");
  }

  nlohmann::ordered_json file;
  const auto text = [](const std::vector<int>& values) { return absl::StrJoin(values, ","); };
  file["pp_deg"] = plan.stages.size();
  file["tp_sizes_enc"] = text(degrees);
  file["tp_consecutive_flags"] = text(consecutive);
  file["dp_types_enc"] = text(sharded);
  file["use_sp"] = text(ulysses);
  file["checkpoint"] = text(recompute);
  file["global_bsz"] = plan.global_batch_size;
  file["chunks"] = plan.micro_batch_count;
  file["pp_division"] = text(sizes);
  file["pipeline_type"] = std::string(*pipeline_type);
  file["default_dp_type"] = common.default_level == ShardingLevel::kGradients ? "zero2" : "ddp";
  file["vtp"] = InnerDegree(ends[0]);
  file["vsp"] = ends[0].context_kind == ContextKind::kUlysses ? 1 : 0;
  // Version 2.4.0 reads the first key, the runtime of 2026 only the second.
  const int ends_sharded = ends[0].sharding_level == ShardingLevel::kParameters ? 1 : 0;
  file["embed_sdp"] = ends_sharded;
  file["vocab_sdp"] = ends_sharded;
  file["world_size"] = plan.device_count;
  const bool has_rings =
      RingDegree(ends[0]) > 1 ||
      std::any_of(rings.begin(), rings.end(), [](int degree) { return degree > 1; });
  if (has_rings) {
    file["cp_sizes_enc"] = text(rings);
    file["vcp"] = RingDegree(ends[0]);
  }
  if (has_experts) {
    // Absent, the second key stands for 1, where plans split experts like the rest of the layer.
    file["ep_sizes_enc"] = text(std::vector<int>(expert_tensor_degrees.size(), 1));
    file["tp_of_ep_sizes_enc"] = text(expert_tensor_degrees);
  }
  return file.dump(4) + "\n";
}

std::string GalvatronReadme(const Plan& plan, const ExportFacts& facts) {
  bool has_sequence_parallel = false, has_rings = false;
  for (const StagePlan& stage : plan.stages) {
    for (const StageLayerRun& run : stage.layer_runs) {
      has_sequence_parallel = has_sequence_parallel || run.strategy.sequence_parallel;
      has_rings = has_rings || RingDegree(run.strategy) > 1;
    }
  }
  return absl::StrCat(
      ReadmeTitle(facts, has_rings ? "Galvatron (its repository of 2026-06-16)" : "Galvatron (2.4)",
                  plan.device_count),
      has_rings ? "Release 2.4.0 has no ring attention: it passes over cp_sizes_enc without a "
                  "word, and would\n"
                  "train another plan, in which the ranks of a ring are replicas.\n\n"
                : "",
      "  torchrun TORCHRUN_ARGUMENTS train_dist.py \\\n"
      "      --galvatron_config_path galvatron_config.json",
      has_sequence_parallel ? " --sequence-parallel" : "",
      " YOUR_ARGUMENTS\n\n"
      "Ranks are numbered node by node, as torchrun does. The file has the degrees, the batch and\n"
      "the micro-batches; YOUR_ARGUMENTS are the model's sizes, data, precision and optimizer",
      has_sequence_parallel ? "" : ",\nwithout --sequence-parallel",
      ".\ngalvatron.env repeats the sizes of the batch for scripts.\n",
      ReadmePrediction(facts, /*is_of_program=*/true, ""));
}

}  // namespace parplan
