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
          .sequence_parallel = strategy.sequence_parallel,
          .context_kind = strategy.context_kind};
}

Strategy OfTensorDegree(int tensor_parallel_degree, bool sequence_parallel) {
  Strategy strategy;
  strategy.tensor_parallel_degree = tensor_parallel_degree;
  strategy.sequence_parallel = sequence_parallel && tensor_parallel_degree > 1;
  return strategy;
}

// Share of a layer's forward pass that selective recomputation does again, and beside
// which keys and values travel, by floating-point operations.
double AttentionCoreShare(const LayerDefinition& layer) {
  if (!IsTransformer(layer.kind)) return 0.0;
  const double all = ForwardFlopsPerSample(layer, layer.sequence_length);
  // Matrices grow with the tokens, the core with their square.
  const double twice = ForwardFlopsPerSample(layer, 2 * layer.sequence_length);
  const double core = 0.5 * (twice - 2.0 * all);
  return all > 0.0 ? core / all : 0.0;
}

double ShareOf(Seconds part, Seconds whole) { return whole > Seconds() ? part / whole : 1.0; }

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
  source.attention_share_ = AttentionCoreShare(definition);
  const Precision precision = source.precision_;
  const Hardware* const hardware = problem.hardware();
  const Coefficients coefficients =
      problem.calibration().Resolve(hardware != nullptr ? hardware->device.device_family : "",
                                    problem.topology().cluster(), definition.kind);
  source.time_factor_ = coefficients[Coefficient::kTimeFactor];
  source.activation_factor_ = coefficients[Coefficient::kActivationFactor];
  if (hardware != nullptr) {
    source.analytic_.emplace(definition, precision, source.runtime_, hardware->device,
                             coefficients);
    source.slowest_device_factor_ = SlowestDeviceFactor(problem.device_count(), coefficients);
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
    estimator.times = [analytic = *analytic_, definition = definition_,
                       factor = slowest_device_factor_](const EstimateShape& shape,
                                                        double micro_batch_size) {
      // The same layer over another number of tokens.
      double work = static_cast<double>(shape.sequence_length) / definition.sequence_length;
      const double flops = ForwardFlopsPerSample(definition, definition.sequence_length);
      if (flops > 0.0) work = ForwardFlopsPerSample(definition, shape.sequence_length) / flops;
      const LayerPasses passes = AnalyticPassesOf(
          analytic, definition, factor,
          OfTensorDegree(shape.tensor_parallel_degree, shape.sequence_parallel), micro_batch_size);
      return LayerTimeEstimate{std::max(passes.forward, passes.forward_host) * work,
                               std::max(passes.backward, passes.backward_host) * work};
    };
  }
  estimator.memory = [definition = definition_, precision = precision_,
                      runtime = runtime_](const EstimateShape& shape) {
    LayerDefinition at_length = definition;
    at_length.sequence_length = shape.sequence_length;
    const LayerFootprint footprint =
        FootprintOf(at_length, precision, runtime,
                    OfTensorDegree(shape.tensor_parallel_degree, shape.sequence_parallel),
                    /*copies_tied_table=*/false);
    return LayerMemoryEstimate{footprint.parameter_count + footprint.expert_parameter_count,
                               Bytes::Ceil(footprint.activations.Kept(RecomputeLevel::kNone)),
                               Bytes::Ceil(footprint.activations.Kept(RecomputeLevel::kFull))};
  };
  return estimator;
}

LayerPasses LayerSource::Passes(const Strategy& strategy, double samples) const {
  LayerPasses passes =
      profile_.has_value() ? MeasuredPasses(strategy, samples) : AnalyticPasses(strategy, samples);
  passes.forward_attention = passes.forward * attention_share_;
  passes.backward_attention = passes.backward * attention_share_;
  return passes;
}

LayerPasses LayerSource::MeasuredPasses(const Strategy& strategy, double samples) const {
  const int tensor = strategy.tensor_parallel_degree;
  LayerPasses passes;
  passes.forward = profile_->Forward(tensor, samples) * time_factor_;
  passes.backward = profile_->Backward(tensor, samples) * time_factor_;
  if (IsTransformer(definition_.kind)) {
    switch (strategy.recompute_level) {
      case RecomputeLevel::kNone:
        break;
      case RecomputeLevel::kFull:
        passes.recompute = passes.forward;
        break;
      case RecomputeLevel::kSelective:
        passes.recompute = passes.forward * SelectiveShare(strategy, samples);
        break;
    }
  }
  const bool is_plain = strategy.context_parallel_degree * strategy.expert_parallel_degree == 1;
  if (!analytic_.has_value()) {
    const double share = 1.0 / strategy.context_parallel_degree;
    passes.forward = passes.forward * share;
    passes.backward = passes.backward * share;
    passes.recompute = passes.recompute * share;
    return passes;
  }
  // Nobody measures what hides collectives, nor context and expert parallelism; theory
  // says what share of the work that is.
  if (is_plain && !runtime_.overlap_tensor_parallel) return passes;
  const LayerPasses theory = AnalyticPasses(strategy, samples);
  if (!is_plain) {
    const LayerPasses plain =
        AnalyticPasses(OfTensorDegree(tensor, strategy.sequence_parallel), samples);
    const double forward_share = ShareOf(theory.forward, plain.forward);
    passes.forward = passes.forward * forward_share;
    passes.recompute = passes.recompute * forward_share;
    passes.backward = passes.backward * ShareOf(theory.backward, plain.backward);
  }
  passes.hiding_backward = passes.backward * ShareOf(theory.hiding_backward, theory.backward);
  return passes;
}

double LayerSource::SelectiveShare(const Strategy& strategy, double samples) const {
  if (analytic_.has_value()) {
    const LayerPasses theory = AnalyticPasses(strategy, samples);
    return ShareOf(theory.recompute, theory.forward);
  }
  // Fused attention leaves nothing to save.
  return runtime_.attention_kernel == AttentionKernel::kFlash ? 0.0 : attention_share_;
}

LayerPasses LayerSource::AnalyticPasses(const Strategy& strategy, double samples) const {
  return AnalyticPassesOf(*analytic_, definition_, time_factor_ * slowest_device_factor_, strategy,
                          samples);
}

LayerFootprint LayerSource::Footprint(const Strategy& strategy,
                                      int pipeline_parallel_degree) const {
  const bool copies_table = definition_.tied_embedding && pipeline_parallel_degree > 1;
  LayerFootprint footprint = FootprintOf(definition_, precision_, runtime_, strategy, copies_table);
  if (profile_.has_value()) return MeasuredFootprint(strategy, footprint, copies_table);
  footprint.activations.layer *= activation_factor_;
  footprint.activations.attention_core *= activation_factor_;
  footprint.activations.backward *= activation_factor_;
  return footprint;
}

LayerFootprint LayerSource::MeasuredFootprint(const Strategy& strategy, LayerFootprint footprint,
                                              bool copies_table) const {
  const int tensor = strategy.tensor_parallel_degree;
  int64_t count = profile_->ParameterCount(tensor);
  // Measured on one stage, where the table is the embedding's.
  if (copies_table && count < footprint.largest_matrix_parameter_count) {
    count += footprint.largest_matrix_parameter_count;
  }
  // Measured with all experts on each rank; theory says how many they are of the sum.
  int64_t experts = 0;
  if (footprint.expert_parameter_count > 0) {
    const LayerFootprint plain = FootprintOf(definition_, precision_, runtime_,
                                             OfTensorDegree(tensor, strategy.sequence_parallel),
                                             /*copies_tied_table=*/false);
    experts = std::min(plain.expert_parameter_count, count);
    footprint.expert_parameter_count =
        (experts + strategy.expert_parallel_degree - 1) / strategy.expert_parallel_degree;
  }
  footprint.parameter_count = count - experts;
  footprint.largest_matrix_parameter_count =
      std::min(footprint.largest_matrix_parameter_count, count);
  // The measured sum, cut up as theory cuts it; tokens shared by context-parallel ranks.
  ActivationBytes& activations = footprint.activations;
  const double context = strategy.context_parallel_degree;
  const double kept = profile_->ActivationPerSample(tensor).as_double() / context;
  const double checkpoint =
      std::min(kept, profile_->CheckpointPerSample(tensor).as_double() / context);
  const double inner = activations.layer + activations.attention_core;
  const double core_share = inner > 0.0 ? activations.attention_core / inner : 0.0;
  const double inside = (kept - checkpoint) * activation_factor_;
  activations.checkpoint = checkpoint;
  activations.attention_core = inside * core_share;
  activations.layer = inside - activations.attention_core;
  activations.backward = 0.0;
  return footprint;
}

}  // namespace parplan
