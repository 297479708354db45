// Plans as JSON for programs that run them with plain PyTorch. docs/exports.md has the schema.
// torch_plan_export.h writes it, and clients/import/torch_plan.h reads it.
//
// Two formats have most members in common. `parplan.fsdp2` says all that is needed to apply a plan:
// what to shard and to recompute in each layer, and how activations move between layers.
// `parplan.torch-pipelining` says which modules each stage has; the strategies inside stages are
// for the user's own code. Each member says one thing, or follows from others: a reader makes
// what follows once more and compares.

#ifndef PARPLAN_EXPORTS_TORCH_PLAN_JSON_H_
#define PARPLAN_EXPORTS_TORCH_PLAN_JSON_H_

#include <cstdint>

#include <nlohmann/json.hpp>

#include "absl/strings/string_view.h"
#include "planner/model/model_spec.h"
#include "planner/model/plan.h"
#include "planner/model/runtime_traits.h"

namespace parplan {

// The two formats above.
enum class TorchPlanFormat {
  kFsdp2,
  kPipelining,
};

// Version of both schemas. It grows when a reader of the version before would misunderstand a file.
inline constexpr int kTorchPlanVersion = 1;

// Returns the member `format`: `parplan.fsdp2` or `parplan.torch-pipelining`.
absl::string_view TorchPlanFormatName(TorchPlanFormat format);

// Facts of such a file that are of the runtime, not of the plan.
struct TorchPlanTraits {
  // Bytes of an element of the messages that reduce gradients. 4 is written as `float32`, 2 as the
  // type of the model, which is `float32` too if its precision is fp32. Only `parplan.fsdp2` has
  // it.
  int reduction_bytes = 4;
  SelectiveRecompute selective_recompute = SelectiveRecompute::kAttention;
};

// Returns `plan` in that format. Layers with equal strategies share one element of `strategies`,
// whose order is that of their first layers. REQUIRES, unchecked: `CheckFsdp2Plan` or
// `CheckTorchPipelining` (torch_plan_export.h), whichever is of the format, accepts it. O(layers).
nlohmann::ordered_json TorchPlanJson(TorchPlanFormat format, const Plan& plan,
                                     const ModelSpec& model, const TorchPlanTraits& traits);

// Returns one strategy as an element of the list `strategies`. REQUIRES, unchecked: it is one of a
// plan that `CheckTorchPlan` (torch_plan.h) accepts without `may_gather`; what no such plan has is
// written as something else (keys and values gathered as `all_to_all`).
nlohmann::ordered_json TorchStrategyJson(const Strategy& strategy,
                                         SelectiveRecompute selective_recompute);

// Returns the name in PyTorch of the numbers that layers compute with: `bfloat16` (also for
// precisions that quantise matrices, whose weights and activations lie in memory so), `float16` or
// `float32`.
absl::string_view TorchTypeName(Precision precision);

// A factor as a fraction in lowest terms.
struct GradientScale {
  int64_t numerator = 1;
  int64_t denominator = 1;
};

// Returns the factor by which gradients of activations are multiplied on their way back from a
// layer under `to` to the layer before, under `from`. A layer averages its gradients over its data-
// and context-parallel ranks, so the gradient of its outputs must be as many times that of the mean
// loss as it has such ranks: the factor is the number of such ranks of `from` over that of `to`.
// REQUIRES, unchecked: no degree is 0.
GradientScale GradientScaleBetween(const Strategy& from, const Strategy& to);

// Returns whether the ranks of a stage hold the same activations and gradients under both, so that
// nothing happens between a layer of one and a layer of the other. REQUIRES, unchecked:
// `CheckTorchPlan` (torch_plan.h) accepts both.
bool HoldActivationsAlike(const Strategy& from, const Strategy& to);

}  // namespace parplan

#endif  // PARPLAN_EXPORTS_TORCH_PLAN_JSON_H_
