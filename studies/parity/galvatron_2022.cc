#include "studies/parity/galvatron_2022.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace parplan {
namespace {

constexpr double kBytesPerMb = 1024.0 * 1024.0;
constexpr double kBytesPerActivation = 4.0;
// Parameter, gradient and two moments.
constexpr double kStatesPerParameter = 4.0;
// Share of the states that sharding leaves on each device for buffers.
constexpr double kShardingBuffers = 0.025;
// Predictions were scaled by it to meet measured steps.
constexpr double kTimeCorrection = 1.1;

absl::Status Missing(const std::string& what) {
  return MakeError(absl::StatusCode::kFailedPrecondition, Reason::kProfileMissing,
                   absl::StrCat("not measured: ", what, "; add it to the constants"),
                   {{"count", "1"}, {"missing0", what}});
}

// ms per MB of an all-reduce over `participant_count` of the ranks of a stage.
absl::StatusOr<double> AllReduceSpeed(const Galvatron2022Hardware& hardware,
                                      int pipeline_parallel_degree, int participant_count,
                                      bool consecutive, bool whole_stage) {
  for (const Galvatron2022AllReduce& entry : hardware.all_reduces) {
    if (entry.pipeline_parallel_degree == pipeline_parallel_degree &&
        entry.participant_count == participant_count &&
        (whole_stage || entry.consecutive == consecutive)) {
      return entry.ms_per_mb;
    }
  }
  return Missing(absl::StrCat("all-reduce of ", participant_count,
                              whole_stage ? "" : (consecutive ? " consecutive" : " strided"),
                              " ranks at pipeline degree ", pipeline_parallel_degree));
}

absl::StatusOr<double> ActivationPerSample(const Galvatron2022Layer& layer, int degree) {
  for (size_t i = 0; i < layer.activation_mb_per_sample.size(); ++i) {
    if (int64_t{1} << i == degree) return layer.activation_mb_per_sample[i];
  }
  return Missing(absl::StrCat("activations at tensor-parallel degree ", degree));
}

// Returns the message of a ring all-reduce.
double RingMb(int participant_count, double mb) {
  return 2.0 * (participant_count - 1) / participant_count * mb;
}

// Returns the share of the backward pass that runs while gradients are synchronised.
double OverlappingShare(const Galvatron2022Layer& layer, int pipeline_parallel_degree,
                        const Strategy& strategy) {
  const int degree = strategy.tensor_parallel_degree;
  if (degree == 1) return 1.0;
  if (layer.is_decoder && pipeline_parallel_degree == 1) return 2.0 / 3.0;
  return 2 * degree >= strategy.rank_count() ? 0.5 : 1.0;
}

// Returns the ms that `communication` ms of communication add to the `compute` ms they overlap
// with; see OverlappedTime. The part that outlasts the compute is divided by `divisor`.
double ExposedMs(double compute, double communication, double slowdown, double divisor) {
  return (slowdown - 1.0) * std::min(compute, communication) +
         std::max(communication - compute, 0.0) / divisor;
}

}  // namespace

absl::StatusOr<Galvatron2022LayerCost> CostOfLayerIn2022(
    const Galvatron2022Hardware& hardware, const Galvatron2022Model& model,
    const Galvatron2022Layer& layer, int pipeline_parallel_degree, const Strategy& strategy,
    int64_t global_batch_size, double micro_batch_count) {
  PARPLAN_CHECK(strategy.recompute_level == RecomputeLevel::kNone && !strategy.sequence_parallel);
  PARPLAN_CHECK(strategy.sharding_level == ShardingLevel::kNone ||
                strategy.sharding_level == ShardingLevel::kParameters);
  PARPLAN_CHECK(pipeline_parallel_degree >= 1 && micro_batch_count >= 1.0);
  const int tensor_degree = strategy.tensor_parallel_degree;
  const int data_degree = strategy.data_parallel_degree;
  const bool sharded = strategy.sharding_level == ShardingLevel::kParameters;
  const double batch = static_cast<double>(global_batch_size);
  const double samples = batch / data_degree;  // of one data-parallel replica
  const double parameter_mb = layer.parameter_mb / tensor_degree;

  Galvatron2022LayerCost cost;
  cost.states_mb =
      kStatesPerParameter * parameter_mb * (sharded ? 1.0 / data_degree + kShardingBuffers : 1.0);
  PARPLAN_ASSIGN_OR_RETURN(const double activation, ActivationPerSample(layer, tensor_degree));
  cost.activation_mb = activation * samples;
  cost.other_mb = model.other_states_mb +
                  model.other_activation_mb_per_sample * batch / strategy.rank_count() +
                  model.context_mb;

  const double forward = layer.forward_ms_per_sample * samples / tensor_degree;
  const double backward = hardware.backward_over_forward * forward;
  // Micro-batches and bubbles of GPipe, as a share of the work of all stages.
  const double pipeline_share = (pipeline_parallel_degree + micro_batch_count - 1.0) /
                                (pipeline_parallel_degree * micro_batch_count);
  cost.forward_ms = kTimeCorrection * pipeline_share * forward;
  cost.backward_ms = kTimeCorrection * pipeline_share * backward;

  if (tensor_degree > 1) {
    PARPLAN_ASSIGN_OR_RETURN(const double speed,
                             AllReduceSpeed(hardware, pipeline_parallel_degree, tensor_degree,
                                            strategy.tensor_stride() == 1, data_degree == 1));
    const double activation_mb =
        samples * layer.sequence_length * layer.hidden_size * kBytesPerActivation / kBytesPerMb;
    const double all_reduce_count = layer.is_decoder ? 6.0 : 4.0;
    cost.tensor_parallel_ms = kTimeCorrection * pipeline_share * all_reduce_count *
                              RingMb(tensor_degree, activation_mb) * speed;
  }

  if (data_degree > 1) {
    PARPLAN_ASSIGN_OR_RETURN(const double speed,
                             AllReduceSpeed(hardware, pipeline_parallel_degree, data_degree,
                                            strategy.data_stride() == 1, tensor_degree == 1));
    const double synchronisation = RingMb(data_degree, parameter_mb) * speed;
    // Stages without tensor parallelism synchronise at the same time, so what
    // outlasts the backward pass is waited for once and shared among them.
    const double sharing_stages = tensor_degree == 1 && !sharded ? pipeline_parallel_degree : 1;
    cost.gradient_sync_ms =
        kTimeCorrection *
        (ExposedMs(OverlappingShare(layer, pipeline_parallel_degree, strategy) * backward,
                   synchronisation, hardware.overlap_slowdown, sharing_stages) +
         model.data_parallel_overhead_ms);
    if (sharded) cost.sharding_ms = kTimeCorrection * 0.5 * synchronisation;
  }
  return cost;
}

double BertMicroBatchCountIn2022(int pipeline_parallel_degree, const Strategy& strategy,
                                 int64_t global_batch_size) {
  if (pipeline_parallel_degree == 1) return 1.0;
  const double samples = static_cast<double>(global_batch_size) / strategy.data_parallel_degree;
  const bool tensor_only =
      strategy.tensor_parallel_degree > 1 && strategy.data_parallel_degree == 1;
  if (tensor_only) return std::max(1.0, samples / 4.0);
  return std::max(1.0, samples < 6.0 ? samples / 2.0 : samples / 8.0 + 2.0);
}

double MicroBatchCountIn2022(MicroBatchRule2022 rule, int pipeline_parallel_degree,
                             const Strategy& strategy, int64_t global_batch_size) {
  if (pipeline_parallel_degree == 1) return 1.0;
  switch (rule) {
    case MicroBatchRule2022::kBert:
      return BertMicroBatchCountIn2022(pipeline_parallel_degree, strategy, global_batch_size);
    case MicroBatchRule2022::kT5:
      if (strategy.rank_count() == 1) return 3.0;
      return global_batch_size < int64_t{4} * strategy.data_parallel_degree ? 1.0 : 2.0;
    case MicroBatchRule2022::kVit:
      return global_batch_size == int64_t{8} * strategy.data_parallel_degree ? 1.0 : 2.0;
    case MicroBatchRule2022::kSwin: {
      const int64_t replicas = strategy.data_parallel_degree;
      return global_batch_size <= 8 * replicas    ? 1.0
             : global_batch_size < 32 * replicas  ? 2.0
             : global_batch_size <= 96 * replicas ? 3.0
                                                  : 4.0;
    }
  }
  return 1.0;
}

absl::StatusOr<double> TransitionMsIn2022(const Galvatron2022Hardware& hardware,
                                          int pipeline_parallel_degree, const Strategy& from,
                                          const Strategy& to, int64_t global_batch_size) {
  // Cost of a transition between strategies that differ in sharding alone: only keeps equal ones
  // together.
  constexpr double kShardingSwitchMs = 0.1;
  constexpr double kMbPerSample = 2.0;
  const int before = from.tensor_parallel_degree;
  const int after = to.tensor_parallel_degree;
  const double sharding = from.sharding_level != to.sharding_level ? kShardingSwitchMs : 0.0;
  const bool other_order = (from.tensor_stride() == 1) != (to.tensor_stride() == 1);
  const bool gathers = after > before || (after == before && other_order) ||
                       (to.rank_count() == 8 && before == 4 && after == 2 && other_order);
  if (!gathers || after == 1) return sharding;
  PARPLAN_ASSIGN_OR_RETURN(const double speed,
                           AllReduceSpeed(hardware, pipeline_parallel_degree, after,
                                          to.tensor_stride() == 1, to.data_parallel_degree == 1));
  const double samples = static_cast<double>(global_batch_size) / to.data_parallel_degree;
  return sharding + (after - 1.0) / after * kMbPerSample * samples * speed;
}

}  // namespace parplan
