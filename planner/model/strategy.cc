#include "planner/model/strategy.h"

#include "absl/strings/str_cat.h"
#include "planner/model/strategy_fields.h"

namespace parplan {

static_assert(kStrategyFieldCount == 13, "say whether the notation shows the new field");

absl::string_view ContextKindName(ContextKind kind) {
  switch (kind) {
    case ContextKind::kUlysses:
      return "ulysses";
    case ContextKind::kAllGather:
      return "all_gather";
    case ContextKind::kRing:
      break;
  }
  return "ring";
}

std::string StrategyNotation(int pipeline_parallel_degree, const Strategy& strategy) {
  const bool two_axes = strategy.tensor_parallel_degree > 1 && strategy.data_parallel_degree > 1;
  const bool tensor_inner = strategy.rank_order == RankOrder::kTensorInnermost;
  std::string text =
      absl::StrCat(pipeline_parallel_degree, "-", strategy.tensor_parallel_degree,
                   two_axes && tensor_inner ? "*" : "", "-", strategy.data_parallel_degree);
  switch (strategy.sharding_level) {
    case ShardingLevel::kNone:
      break;
    case ShardingLevel::kOptimizer:
      text += "z1";
      break;
    case ShardingLevel::kGradients:
      text += "z2";
      break;
    case ShardingLevel::kParameters:
      text += "f";
      break;
  }
  if (two_axes && !tensor_inner) text += "*";
  if (strategy.recompute_level == RecomputeLevel::kFull) text += "-c";
  if (strategy.recompute_level == RecomputeLevel::kSelective) text += "-s";
  if (strategy.recompute_level == RecomputeLevel::kModules) {
    absl::StrAppend(&text, "-s:", strategy.recompute_modules.ToString("+"));
  }
  if (strategy.context_parallel_degree > 1) {
    const int exchange = strategy.head_exchange_degree();
    if (exchange > 1) absl::StrAppend(&text, "-sp", exchange);
    const int other = strategy.context_parallel_degree / exchange;
    const bool gathers = strategy.context_kind == ContextKind::kAllGather;
    if (other > 1) absl::StrAppend(&text, gathers ? "-ag" : "-cp", other);
  }
  if (strategy.expert_parallel_degree > 1) {
    absl::StrAppend(&text, "-ep", strategy.expert_parallel_degree);
  }
  if (strategy.expert_tensor_parallel_degree > 0) {
    absl::StrAppend(&text, "-etp", strategy.expert_tensor_parallel_degree);
  }
  if (strategy.sharding_degree > 0) absl::StrAppend(&text, "-hs", strategy.sharding_degree);
  return text;
}

}  // namespace parplan
