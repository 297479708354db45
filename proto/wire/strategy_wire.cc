// The strategies of plans (plan_wire.h).

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/model/planning_problem.h"
#include "planner/model/strategy_fields.h"
#include "proto/wire/enum_wire.h"
#include "proto/wire/field_path.h"
#include "proto/wire/payload_error.h"
#include "proto/wire/plan_wire.h"

namespace parplan {
namespace {

static_assert(kStrategyFieldCount == 13, "write and read the new field");

static_assert(v1::ShardingLevel_MAX == static_cast<int>(ShardingLevel::kParameters));
static_assert(v1::RecomputeLevel_MAX == static_cast<int>(RecomputeLevel::kModules));
static_assert(v1::RecomputeModule_MAX == kRecomputeModuleCount);
static_assert(v1::ContextKind_MAX == static_cast<int>(ContextKind::kAllGather));

absl::StatusOr<RankOrder> RankOrderFromProto(const v1::Strategy& message, absl::string_view field) {
  if (message.rank_order_size() == 2) {
    const v1::ParallelAxis inner = message.rank_order(0);
    const v1::ParallelAxis outer = message.rank_order(1);
    if (inner == v1::PARALLEL_AXIS_TENSOR && outer == v1::PARALLEL_AXIS_DATA) {
      return RankOrder::kTensorInnermost;
    }
    if (inner == v1::PARALLEL_AXIS_DATA && outer == v1::PARALLEL_AXIS_TENSOR) {
      return RankOrder::kDataInnermost;
    }
  }
  return Malformed(JoinPath(field, "rank_order"),
                   "must name PARALLEL_AXIS_TENSOR and PARALLEL_AXIS_DATA once each");
}

// Returns a degree that older plans do not set: 0 means 1.
absl::Status InnerDegreesFromProto(const v1::Strategy& message, absl::string_view field,
                                   Strategy& strategy) {
  const int context = std::max(message.context_parallel_degree(), 1);
  const int expert = std::max(message.expert_parallel_degree(), 1);
  const int data = strategy.data_parallel_degree;
  if (message.context_parallel_degree() < 0 ||
      context > kMaxDeviceCount / (strategy.tensor_parallel_degree * data)) {
    return Malformed(
        JoinPath(field, "context_parallel_degree"),
        absl::StrCat("must be 0 to the devices of a stage, at most ", kMaxDeviceCount));
  }
  const int own_tensor = message.expert_tensor_parallel_degree();
  const int rank_count = strategy.tensor_parallel_degree * data * context;
  if (own_tensor < 0 || own_tensor == strategy.tensor_parallel_degree ||
      (own_tensor > 0 && rank_count % own_tensor != 0)) {
    return Malformed(JoinPath(field, "expert_tensor_parallel_degree"),
                     "must be 0, or divide the product of the degrees and not be "
                     "tensor_parallel_degree");
  }
  const int shared = own_tensor > 0 ? rank_count / own_tensor : data * context;
  if (message.expert_parallel_degree() < 0 || shared % expert != 0) {
    return Malformed(
        JoinPath(field, "expert_parallel_degree"),
        "must divide data_parallel_degree * context_parallel_degree, or the ranks over "
        "expert_tensor_parallel_degree if that is set");
  }
  strategy.expert_tensor_parallel_degree = own_tensor;
  strategy.context_parallel_degree = context;
  strategy.expert_parallel_degree = expert;
  switch (message.context_kind()) {
    case v1::CONTEXT_KIND_UNSPECIFIED:
    case v1::CONTEXT_KIND_RING:
      break;
    case v1::CONTEXT_KIND_ULYSSES:
    case v1::CONTEXT_KIND_ALL_GATHER:
      if (context > 1) {
        strategy.context_kind = static_cast<ContextKind>(message.context_kind());
        break;
      }
      [[fallthrough]];
    default:
      return Malformed(JoinPath(field, "context_kind"),
                       "must be CONTEXT_KIND_RING, or CONTEXT_KIND_ULYSSES or "
                       "CONTEXT_KIND_ALL_GATHER with a context_parallel_degree above 1");
  }
  const int exchange = std::max(message.context_exchange_degree(), 1);
  if (message.context_exchange_degree() < 0 ||
      (exchange > 1 && (strategy.context_kind != ContextKind::kRing || exchange >= context ||
                        context % exchange != 0))) {
    return Malformed(JoinPath(field, "context_exchange_degree"),
                     "must be 0, 1, or a divisor of context_parallel_degree below it with "
                     "CONTEXT_KIND_RING");
  }
  strategy.context_exchange_degree = exchange;
  return absl::OkStatus();
}

// Reads the ranks that share the states of a strategy whose degrees and level are known.
absl::Status ShardingDegreeFromProto(const v1::Strategy& message, absl::string_view field,
                                     Strategy& strategy) {
  const int degree = message.sharding_degree();
  if (degree == 0) return absl::OkStatus();
  const int replicas = strategy.replica_count();
  if (degree < 2 || degree >= replicas || replicas % degree != 0 ||
      strategy.sharding_level == ShardingLevel::kNone) {
    return Malformed(JoinPath(field, "sharding_degree"),
                     "must be 0, or with a sharding_level a divisor of data_parallel_degree * "
                     "context_parallel_degree above 1 and below it");
  }
  strategy.sharding_degree = degree;
  if (!strategy.has_experts_in_groups()) {
    return Malformed(JoinPath(field, "sharding_degree"),
                     "must make groups with all ranks that share the experts");
  }
  return absl::OkStatus();
}

// Reads the modules of a strategy whose level is known.
absl::Status ModulesFromProto(const v1::Strategy& message, absl::string_view field,
                              Strategy& strategy) {
  const std::string path = JoinPath(field, "recompute_modules");
  if (strategy.recompute_level != RecomputeLevel::kModules) {
    if (message.recompute_modules().empty()) return absl::OkStatus();
    return Malformed(path, "must be empty unless recompute_level is RECOMPUTE_LEVEL_MODULES");
  }
  std::vector<RecomputeModule> modules;
  for (int i = 0; i < message.recompute_modules_size(); ++i) {
    PARPLAN_ASSIGN_OR_RETURN(
        const RecomputeModule module,
        EnumFromProto<RecomputeModule>(message.recompute_modules(i),
                                       JoinPath(field, "recompute_modules", i), kMalformed));
    if (!modules.empty() && module <= modules.back()) {
      return Malformed(path, "must be ascending, and none twice");
    }
    modules.push_back(module);
  }
  const absl::StatusOr<RecomputeModules> set = RecomputeModules::Create(modules, path);
  if (!set.ok()) {
    return Malformed(path,
                     "must name a module, and not attention alone, which is "
                     "RECOMPUTE_LEVEL_SELECTIVE");
  }
  strategy.recompute_modules = *set;
  return absl::OkStatus();
}

}  // namespace

v1::Strategy StrategyToProto(const Strategy& strategy) {
  v1::Strategy message;
  message.set_tensor_parallel_degree(strategy.tensor_parallel_degree);
  message.set_data_parallel_degree(strategy.data_parallel_degree);
  message.set_sharding_level(static_cast<v1::ShardingLevel>(strategy.sharding_level));
  const bool tensor_innermost = strategy.rank_order == RankOrder::kTensorInnermost;
  message.add_rank_order(tensor_innermost ? v1::PARALLEL_AXIS_TENSOR : v1::PARALLEL_AXIS_DATA);
  message.add_rank_order(tensor_innermost ? v1::PARALLEL_AXIS_DATA : v1::PARALLEL_AXIS_TENSOR);
  message.set_recompute_level(static_cast<v1::RecomputeLevel>(strategy.recompute_level));
  message.set_sequence_parallel(strategy.sequence_parallel);
  message.set_context_parallel_degree(strategy.context_parallel_degree);
  message.set_expert_parallel_degree(strategy.expert_parallel_degree);
  if (strategy.context_kind != ContextKind::kRing) {
    message.set_context_kind(static_cast<v1::ContextKind>(strategy.context_kind));
  }
  if (strategy.context_exchange_degree > 1) {
    message.set_context_exchange_degree(strategy.context_exchange_degree);
  }
  message.set_expert_tensor_parallel_degree(strategy.expert_tensor_parallel_degree);
  message.set_sharding_degree(strategy.sharding_degree);
  for (const RecomputeModule module : strategy.recompute_modules.Modules()) {
    message.add_recompute_modules(static_cast<v1::RecomputeModule>(module));
  }
  return message;
}

absl::StatusOr<Strategy> StrategyFromProto(const v1::Strategy& message, absl::string_view field) {
  Strategy strategy;
  strategy.tensor_parallel_degree = message.tensor_parallel_degree();
  strategy.data_parallel_degree = message.data_parallel_degree();
  if (strategy.tensor_parallel_degree < 1 || strategy.tensor_parallel_degree > kMaxDeviceCount) {
    return Malformed(JoinPath(field, "tensor_parallel_degree"), "must be at least 1");
  }
  if (strategy.data_parallel_degree < 1 ||
      strategy.data_parallel_degree > kMaxDeviceCount / strategy.tensor_parallel_degree) {
    return Malformed(JoinPath(field, "data_parallel_degree"), "must be at least 1");
  }
  if (message.sharding_level() != v1::SHARDING_LEVEL_UNSPECIFIED) {
    PARPLAN_ASSIGN_OR_RETURN(
        strategy.sharding_level,
        EnumFromProto<ShardingLevel>(message.sharding_level(), JoinPath(field, "sharding_level"),
                                     kMalformed));
  }
  PARPLAN_ASSIGN_OR_RETURN(strategy.rank_order, RankOrderFromProto(message, field));
  if (message.recompute_level() != v1::RECOMPUTE_LEVEL_UNSPECIFIED) {
    PARPLAN_ASSIGN_OR_RETURN(
        strategy.recompute_level,
        EnumFromProto<RecomputeLevel>(message.recompute_level(), JoinPath(field, "recompute_level"),
                                      kMalformed));
  }
  strategy.sequence_parallel = message.sequence_parallel();
  PARPLAN_RETURN_IF_ERROR(ModulesFromProto(message, field, strategy));
  PARPLAN_RETURN_IF_ERROR(InnerDegreesFromProto(message, field, strategy));
  PARPLAN_RETURN_IF_ERROR(ShardingDegreeFromProto(message, field, strategy));
  return strategy;
}

}  // namespace parplan
