// The modules that a layer recomputes by name: the bytes that they make again, and the exchanges
// that they repeat (activation_tensors.h, layer_traffic.h). `AnalyticLayer` has their times.

#include "planner/cost/activation_tensors.h"
#include "planner/cost/layer_traffic.h"
#include "planner/cost/tensor_parallel_traffic.h"

namespace parplan {

double ActivationBytes::MadeAgain(RecomputeModules modules) const {
  const bool all_experts = modules.has(RecomputeModule::kExperts);
  double bytes = 0.0;
  for (int number = 1; number <= kRecomputeModuleCount; ++number) {
    const auto module = static_cast<RecomputeModule>(number);
    const bool is_within_experts =
        module == RecomputeModule::kExpertActivation || module == RecomputeModule::kSharedExperts;
    if (modules.has(module) || (all_experts && is_within_experts)) bytes += by_module[number];
  }
  return bytes;
}

void ActivationBytes::ScaleModules(double factor) {
  for (double& bytes : by_module) bytes *= factor;
}

// A feed-forward part begins with a gather and ends with a sum; the map from compressed vectors
// begins with their gather. The expert that all tokens pass shares the exchange of the others.
CollectiveList LayerTraffic::ModuleCollectives(const LayerDefinition& definition,
                                               const Strategy& strategy, double samples,
                                               RecomputeModules modules) const {
  CollectiveList calls;
  if (strategy.tensor_parallel_degree == 1) return calls;
  const GroupShape group{strategy.tensor_parallel_degree, strategy.tensor_stride()};
  const double message = OutputBytes(definition, strategy, samples);
  const auto repeats = [&](RecomputeModule module) {
    return modules.has(module) && HasRecomputeModule(definition, module);
  };
  const bool exchanges_here =
      strategy.expert_tensor_parallel_degree == 0 || definition.shared_expert_feed_forward_size > 0;
  if (repeats(RecomputeModule::kFeedForward) ||
      (repeats(RecomputeModule::kExperts) && exchanges_here)) {
    if (strategy.sequence_parallel) {
      // The tokens of experts travel as they lie in memory.
      const double share = definition.has_experts() ? 1.0 : GatheredShare(definition);
      calls.Add(Collective::kAllGather, group, message * share, 1);
      calls.Add(Collective::kReduceScatter, group, message, 1);
    } else {
      calls.Add(Collective::kAllReduce, group, message, 1);
    }
  }
  if (repeats(RecomputeModule::kLatentUpProjection)) {
    const TensorParallelTraffic traffic =
        TrafficOf(definition, strategy.sequence_parallel, runtime_);
    calls.Add(Collective::kAllGather, group,
              message * GatheredShare(definition) / definition.hidden_size * traffic.inner_width,
              traffic.inner_forward.gathers);
  }
  return calls;
}

}  // namespace parplan
