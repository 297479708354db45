#include "planner/cost/layer_source.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "planner/cost/activation_tensors.h"
#include "planner/cost/slowest_device.h"
#include "planner/model/calibration.h"

namespace parplan {
namespace {

LayerShape ShapeOf(const Strategy& strategy) {
  return {.tensor_parallel_degree = strategy.tensor_parallel_degree,
          .context_parallel_degree = strategy.context_parallel_degree,
          .expert_parallel_degree = strategy.expert_parallel_degree,
          .sequence_parallel = strategy.sequence_parallel};
}

Strategy OfTensorDegree(int tensor_parallel_degree, bool sequence_parallel) {
  Strategy strategy;
  strategy.tensor_parallel_degree = tensor_parallel_degree;
  strategy.sequence_parallel = sequence_parallel && tensor_parallel_degree > 1;
  return strategy;
}

// Share of a layer's forward pass that selective recomputation does again, by
// floating-point operations.
double AttentionCoreShare(const LayerDefinition& layer) {
  if (!IsTransformer(layer.kind)) return 0.0;
  const double all = ForwardFlopsPerSample(layer, layer.sequence_length);
  // Matrices grow with the tokens, the core with their square.
  const double twice = ForwardFlopsPerSample(layer, 2 * layer.sequence_length);
  const double core = 0.5 * (twice - 2.0 * all);
  return all > 0.0 ? core / all : 0.0;
}

LayerPasses AnalyticPassesOf(const AnalyticLayer& analytic, const LayerDefinition& definition,
                             double factor, const Strategy& strategy, double samples) {
  const LayerTimes times = analytic.Times(ShapeOf(strategy), samples);
  LayerPasses passes;
  passes.forward = times.forward.device * factor;
  passes.backward = times.backward.device * factor;
  passes.hiding_backward = times.hiding_backward * factor;
  passes.forward_host = times.forward.host;
  passes.backward_host = times.backward.host;
  if (!IsTransformer(definition.kind) || strategy.recompute_level == RecomputeLevel::kNone) {
    return passes;
  }
  const PassTime& again = strategy.recompute_level == RecomputeLevel::kFull
                              ? times.full_recompute
                              : times.selective_recompute;
  passes.recompute = again.device * factor;
  passes.backward_host += again.host;
  return passes;
}

}  // namespace

LayerSource LayerSource::Resolve(const PlanningProblem& problem, const LayerDefinition& definition,
                                 const LayerNeeds& needs, ResolutionNotes& notes) {
  LayerSource source;
  source.definition_ = definition;
  source.precision_ = problem.model().precision();
  source.runtime_ = problem.rules().runtime;
  const Precision precision = source.precision_;
  const Hardware* const hardware = problem.hardware();
  if (hardware != nullptr) {
    const Coefficients coefficients =
        problem.calibration().Resolve(hardware->device.device_family,
                                      problem.topology().cluster(), definition.kind);
    source.analytic_.emplace(definition, precision, source.runtime_, hardware->device,
                             coefficients);
    source.time_factor_ = coefficients[Coefficient::kTimeFactor] *
                          SlowestDeviceFactor(problem.device_count(), coefficients);
    source.activation_factor_ = coefficients[Coefficient::kActivationFactor];
  }
  const MeasuredLayer* const measured = problem.profile().FindLayer(definition, precision);
  if (measured == nullptr && needs.allow_estimates && source.analytic_.has_value()) {
    source.sequence_parallel_ = source.runtime_.sequence_parallel;
    notes.estimated.push_back(
        absl::StrCat("layer `", definition.layer_definition_id,
                     "`: time and memory from its definition and the data sheet of the device"));
    return source;
  }

  const LayerEstimator estimator = source.Estimator();
  source.profile_ =
      LayerProfile::Resolve(definition, precision, measured, needs, notes, &estimator);
  source.sequence_parallel_ = source.profile_->sequence_parallel();
  return source;
}

LayerEstimator LayerSource::Estimator() const {
  LayerEstimator estimator;
  // Both outlive this source: they hold copies.
  if (analytic_.has_value()) {
    estimator.times = [analytic = *analytic_, definition = definition_, factor = time_factor_](
                          const EstimateShape& shape, double micro_batch_size) {
      // The same layer over another number of tokens.
      double work = static_cast<double>(shape.sequence_length) / definition.sequence_length;
      const double flops = ForwardFlopsPerSample(definition, definition.sequence_length);
      if (flops > 0.0) work = ForwardFlopsPerSample(definition, shape.sequence_length) / flops;
      const LayerPasses passes =
          AnalyticPassesOf(analytic, definition, factor,
                           OfTensorDegree(shape.tensor_parallel_degree, shape.sequence_parallel),
                           micro_batch_size);
      return LayerTimeEstimate{std::max(passes.forward, passes.forward_host) * work,
                               std::max(passes.backward, passes.backward_host) * work};
    };
  }
  estimator.memory = [definition = definition_, precision = precision_, runtime = runtime_,
                      factor = activation_factor_](const EstimateShape& shape) {
    LayerDefinition at_length = definition;
    at_length.sequence_length = shape.sequence_length;
    const LayerFootprint footprint =
        FootprintOf(at_length, precision, runtime,
                    OfTensorDegree(shape.tensor_parallel_degree, shape.sequence_parallel),
                    /*copies_tied_table=*/false);
    return LayerMemoryEstimate{
        footprint.parameter_count + footprint.expert_parameter_count,
        Bytes::Ceil(footprint.activations.Kept(RecomputeLevel::kNone) * factor),
        Bytes::Ceil(footprint.activations.Kept(RecomputeLevel::kFull))};
  };
  return estimator;
}

LayerPasses LayerSource::Passes(const Strategy& strategy, double samples) const {
  return profile_.has_value() ? MeasuredPasses(strategy, samples)
                              : AnalyticPasses(strategy, samples);
}

LayerPasses LayerSource::MeasuredPasses(const Strategy& strategy, double samples) const {
  const int tensor = strategy.tensor_parallel_degree;
  LayerPasses passes;
  passes.forward = profile_->Forward(tensor, samples);
  passes.backward = profile_->Backward(tensor, samples);
  switch (strategy.recompute_level) {
    case RecomputeLevel::kNone:
      break;
    case RecomputeLevel::kFull:
      passes.recompute = passes.forward;
      break;
    case RecomputeLevel::kSelective:
      passes.recompute = passes.forward * AttentionCoreShare(definition_);
      break;
  }
  if (strategy.context_parallel_degree * strategy.expert_parallel_degree == 1) return passes;
  // Nobody measures these; theory says what share of the work is left.
  const Strategy plain = OfTensorDegree(tensor, strategy.sequence_parallel);
  double share = 1.0 / strategy.context_parallel_degree;
  if (analytic_.has_value()) {
    share = AnalyticPasses(strategy, samples).forward / AnalyticPasses(plain, samples).forward;
  }
  passes.forward = passes.forward * share;
  passes.backward = passes.backward * share;
  passes.recompute = passes.recompute * share;
  return passes;
}

LayerPasses LayerSource::AnalyticPasses(const Strategy& strategy, double samples) const {
  return AnalyticPassesOf(*analytic_, definition_, time_factor_, strategy, samples);
}

LayerFootprint LayerSource::Footprint(const Strategy& strategy,
                                      int pipeline_parallel_degree) const {
  const bool copies_table = definition_.tied_embedding && pipeline_parallel_degree > 1;
  LayerFootprint footprint =
      FootprintOf(definition_, precision_, runtime_, strategy, copies_table && !profile_);
  ActivationBytes& activations = footprint.activations;
  if (!profile_.has_value()) {
    activations.layer *= activation_factor_;
    activations.attention_core *= activation_factor_;
    activations.backward *= activation_factor_;
    return footprint;
  }
  const int tensor = strategy.tensor_parallel_degree;
  footprint.parameter_count = profile_->ParameterCount(tensor) - footprint.expert_parameter_count;
  if (footprint.parameter_count < 0) {
    footprint.expert_parameter_count += footprint.parameter_count;
    footprint.parameter_count = 0;
  }
  footprint.largest_matrix_parameter_count =
      std::min(footprint.largest_matrix_parameter_count, footprint.parameter_count);
  // The measured sum, cut up as theory cuts it; tokens shared by context-parallel ranks.
  const double context = strategy.context_parallel_degree;
  const double kept = profile_->ActivationPerSample(tensor).as_double() / context;
  const double checkpoint =
      std::min(kept, profile_->CheckpointPerSample(tensor).as_double() / context);
  const double inner = activations.layer + activations.attention_core;
  const double core_share = inner > 0.0 ? activations.attention_core / inner : 0.0;
  activations.checkpoint = checkpoint;
  activations.attention_core = (kept - checkpoint) * core_share;
  activations.layer = (kept - checkpoint) - activations.attention_core;
  activations.backward = 0.0;
  return footprint;
}

}  // namespace parplan
