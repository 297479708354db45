#include "planner/cost/layer_source.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "planner/cost/activation_tensors.h"
#include "planner/cost/slowest_device.h"
#include "planner/model/calibration.h"
#include "planner/model/measured_runtime.h"
#include "planner/model/strategy_fields.h"

namespace parplan {
namespace {

// The part of a strategy on which one rank's kernels depend, apart from its number of samples.
static_assert(kStrategyFieldCount == 13, "say whether the new field changes kernels");

LayerShape LayerShapeOf(const Strategy& strategy) {
  return {.tensor_parallel_degree = strategy.tensor_parallel_degree,
          .context_parallel_degree = strategy.context_parallel_degree,
          .expert_parallel_degree = strategy.expert_parallel_degree,
          .sequence_parallel = strategy.sequence_parallel,
          .context_kind = strategy.context_kind,
          .context_exchange_degree = strategy.context_exchange_degree,
          .expert_tensor_parallel_degree = strategy.expert_tensor_parallel_degree};
}

Strategy OfTensorDegree(int tensor_parallel_degree, bool sequence_parallel) {
  Strategy strategy;
  strategy.tensor_parallel_degree = tensor_parallel_degree;
  strategy.sequence_parallel = sequence_parallel && tensor_parallel_degree > 1;
  return strategy;
}

// Returns the share of a layer's forward pass, by floating-point operations, that selective
// recomputation repeats and during which keys and values travel.
double AttentionCoreShare(const LayerDefinition& layer) {
  const double all = ForwardFlopsPerSample(layer, layer.sequence_length);
  return all > 0.0 ? AttentionFlopsPerSample(layer, layer.sequence_length) / all : 0.0;
}

double ShareOf(Seconds part, Seconds whole) { return whole > Seconds() ? part / whole : 1.0; }

// Returns whether the profiles that answer for a runtime measure what autograd saves. They may be
// those of another runtime, whose layers are the same modules.
bool MeasuresSavedTensors(const RuntimeTraits& runtime) {
  const RuntimeTraits* const measured = FindRuntime(MeasuredRuntime(runtime.runtime_id));
  return runtime.measures_saved_tensors ||
         (measured != nullptr && measured->measures_saved_tensors);
}

LayerWork AnalyticWorkOf(const AnalyticLayer& analytic, const LayerDefinition& definition,
                         double factor, const Strategy& strategy, double samples,
                         RepeatedParts parts) {
  const bool with_modules = parts == RepeatedParts::kModules;
  const AnalyticTimes times = analytic.Times(LayerShapeOf(strategy), samples, with_modules);
  LayerWork work;
  work.bare.forward = times.forward.device * factor;
  work.bare.backward = times.backward.device * factor;
  work.bare.hiding_backward = times.hiding_backward * factor;
  work.bare.splitting_forward = times.splitting_forward * factor;
  work.bare.splitting_backward = times.splitting_backward * factor;
  work.bare.backward_weights = times.backward_weights * factor;
  work.bare.forward_host = times.forward.host;
  work.bare.backward_host = times.backward.host;
  if (!IsTransformer(definition.kind)) return work;
  work.full = {times.full_recompute.device * factor, times.full_recompute.host};
  work.selective = {times.selective_recompute.device * factor, times.selective_recompute.host};
  for (size_t module = 1; with_modules && module < work.modules.size(); ++module) {
    work.modules[module] = {times.modules[module].device * factor, times.modules[module].host};
  }
  return work;
}

}  // namespace

LayerSource LayerSource::Resolve(const PlanningProblem& problem, GroupIndex group,
                                 const LayerDefinition& definition, const LayerNeeds& needs,
                                 ResolutionNotes& notes) {
  LayerSource source;
  source.definition_ = definition;
  source.precision_ = problem.model().precision();
  source.runtime_ = problem.rules().runtime;
  source.attention_share_ = AttentionCoreShare(definition);
  const Precision precision = source.precision_;
  const Hardware* const hardware = problem.hardware(group);
  const Coefficients coefficients =
      problem.calibration().Resolve(hardware != nullptr ? hardware->device.device_family : "",
                                    problem.topology().cluster(), definition.kind);
  source.time_factor_ = coefficients[Coefficient::kTimeFactor];
  source.activation_factor_ = coefficients[Coefficient::kActivationFactor];
  if (hardware != nullptr) {
    source.analytic_.emplace(definition, precision, source.runtime_, hardware->device,
                             coefficients);
    source.slowest_device_factor_ =
        SlowestDeviceFactor(problem.node_group(group).device_count(), coefficients);
  }
  const MeasuredLayer* const measured = problem.profile(group).FindLayer(definition, precision);
  if (definition.kind == LayerKind::kOpaque) {
    source.ResolveOpaque(measured, needs, notes);
    return source;
  }
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

void LayerSource::ResolveOpaque(const MeasuredLayer* measured, const LayerNeeds& needs,
                                ResolutionNotes& notes) {
  LayerNeeds own = needs;
  own.sequence_parallel = false;
  own.tensor_parallel_degrees.clear();
  for (const int degree : needs.tensor_parallel_degrees) {
    if (!SplitsOverTensorRanks(definition_, degree)) continue;
    own.tensor_parallel_degrees.push_back(degree);
    const bool is_timed =
        measured != nullptr && std::any_of(measured->timings.begin(), measured->timings.end(),
                                           [degree](const LayerTimingPoint& point) {
                                             return point.tensor_parallel_degree == degree;
                                           });
    if (is_timed) continue;
    notes.missing.push_back(absl::StrCat("layer `", definition_.layer_definition_id,
                                         "` is opaque and its time at ", "tensor_parallel_degree ",
                                         degree, " can only be measured (planctl profile)"));
  }
  if (measured == nullptr) return;
  const LayerEstimator estimator = Estimator();
  profile_ = LayerProfile::Resolve(definition_, precision_, measured, own, notes, &estimator);
}

LayerEstimator LayerSource::Estimator() const {
  LayerEstimator estimator;
  // The functions hold copies, so they may outlive this source.
  if (analytic_.has_value() && definition_.kind != LayerKind::kOpaque) {
    estimator.times = [analytic = *analytic_, definition = definition_,
                       factor = slowest_device_factor_](const EstimateShape& shape,
                                                        double micro_batch_size) {
      // The same layer over another number of tokens.
      double work = static_cast<double>(shape.sequence_length) / definition.sequence_length;
      const double flops = ForwardFlopsPerSample(definition, definition.sequence_length);
      if (flops > 0.0) work = ForwardFlopsPerSample(definition, shape.sequence_length) / flops;
      const LayerPasses passes =
          AnalyticWorkOf(analytic, definition, factor,
                         OfTensorDegree(shape.tensor_parallel_degree, shape.sequence_parallel),
                         micro_batch_size, RepeatedParts::kWholeLayer)
              .bare;
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

LayerPasses LayerWork::At(const Recomputation& recomputation) const {
  LayerPasses passes = bare;
  const auto repeat = [&passes](const PassTime& again) {
    passes.recompute += again.device;
    passes.backward_host += again.host;
  };
  switch (recomputation.level) {
    case RecomputeLevel::kNone:
      break;
    case RecomputeLevel::kFull:
      repeat(full);
      break;
    case RecomputeLevel::kSelective:
      repeat(selective);
      break;
    case RecomputeLevel::kModules:
      for (int module = 1; module <= kRecomputeModuleCount; ++module) {
        if (recomputation.modules.has(static_cast<RecomputeModule>(module))) {
          repeat(modules[module]);
        }
      }
      break;
  }
  return passes;
}

void LayerWork::ScaleRepeated(double factor) {
  full.device = full.device * factor;
  selective.device = selective.device * factor;
  for (PassTime& module : modules) module.device = module.device * factor;
}

LayerPasses LayerSource::Passes(const Strategy& strategy, double samples) const {
  return Work(strategy, samples, PartsOf(strategy.recompute_level)).At(strategy.recomputation());
}

LayerWork LayerSource::Work(const Strategy& strategy, double samples, RepeatedParts parts) const {
  LayerWork work = profile_.has_value() ? MeasuredWork(strategy, samples, parts)
                                        : AnalyticWork(strategy, samples, parts);
  work.bare.forward_attention = work.bare.forward * attention_share_;
  work.bare.backward_attention = work.bare.backward * attention_share_;
  if (!runtime_.splits_backward) work.bare.backward_weights = Seconds();
  return work;
}

LayerWork LayerSource::MeasuredWork(const Strategy& strategy, double samples,
                                    RepeatedParts parts) const {
  const int tensor = strategy.tensor_parallel_degree;
  LayerWork work;
  LayerPasses& passes = work.bare;
  passes.forward = profile_->Forward(tensor, samples) * time_factor_;
  passes.backward = profile_->Backward(tensor, samples) * time_factor_;
  const bool recomputes = IsTransformer(definition_.kind);
  if (definition_.kind == LayerKind::kOpaque) {
    work.full.device = passes.forward;
    return work;
  }
  if (!analytic_.has_value()) {
    const double share = 1.0 / strategy.context_parallel_degree;
    const double selective = runtime_.RepeatsCoreAttention() ? attention_share_ : 0.0;
    if (recomputes) {
      work.full.device = passes.forward * share;
      work.selective.device = passes.forward * selective * share;
    }
    passes.forward = passes.forward * share;
    passes.backward = passes.backward * share;
    // Each linear map has a product for the gradient of its input and one for that of its weights;
    // the lookup of an embedding and what attention does beside its maps have no weights.
    if (definition_.kind != LayerKind::kEmbedding && !definition_.frozen) {
      passes.backward_weights = passes.backward * ((1.0 - attention_share_) / 2.0);
    }
    return work;
  }
  // Profiles do not measure the work that hides collectives, nor context and expert parallelism.
  // Theory gives their share of the work, and the part that selective recomputation repeats.
  const bool is_plain = strategy.context_parallel_degree * strategy.expert_parallel_degree == 1 &&
                        strategy.expert_tensor_parallel_degree == 0;
  const bool needs_theory = !is_plain || runtime_.splits_backward ||
                            runtime_.tensor_parallel_overlap != TensorParallelOverlap::kNone;
  const bool has_parts = recomputes && parts >= RepeatedParts::kAttention;
  LayerWork theory;
  if (needs_theory || has_parts) theory = AnalyticWork(strategy, samples, parts);
  if (recomputes) work.full.device = passes.forward;
  if (has_parts) {
    work.selective.device = passes.forward * ShareOf(theory.selective.device, theory.bare.forward);
    for (size_t module = 1; module < work.modules.size(); ++module) {
      work.modules[module].device =
          passes.forward * ShareOf(theory.modules[module].device, theory.bare.forward);
    }
  }
  if (!needs_theory) return work;
  if (!is_plain) {
    const LayerPasses plain = AnalyticWork(OfTensorDegree(tensor, strategy.sequence_parallel),
                                           samples, RepeatedParts::kWholeLayer)
                                  .bare;
    const double forward_share = ShareOf(theory.bare.forward, plain.forward);
    passes.forward = passes.forward * forward_share;
    work.ScaleRepeated(forward_share);
    passes.backward = passes.backward * ShareOf(theory.bare.backward, plain.backward);
  }
  passes.hiding_backward =
      passes.backward * ShareOf(theory.bare.hiding_backward, theory.bare.backward);
  passes.splitting_forward =
      passes.forward * ShareOf(theory.bare.splitting_forward, theory.bare.forward);
  passes.splitting_backward =
      passes.backward * ShareOf(theory.bare.splitting_backward, theory.bare.backward);
  passes.backward_weights =
      passes.backward * ShareOf(theory.bare.backward_weights, theory.bare.backward);
  return work;
}

LayerWork LayerSource::AnalyticWork(const Strategy& strategy, double samples,
                                    RepeatedParts parts) const {
  return AnalyticWorkOf(*analytic_, definition_, time_factor_ * slowest_device_factor_, strategy,
                        samples, parts);
}

LayerFootprint LayerSource::Footprint(const Strategy& strategy,
                                      int pipeline_parallel_degree) const {
  const bool copies_table = (definition_.tied_embedding || definition_.prediction_depth > 0) &&
                            pipeline_parallel_degree > 1;
  LayerFootprint footprint = FootprintOf(definition_, precision_, runtime_, strategy, copies_table);
  if (profile_.has_value()) return MeasuredFootprint(strategy, footprint, copies_table);
  footprint.activations.layer *= activation_factor_;
  footprint.activations.attention_core *= activation_factor_;
  footprint.activations.backward *= activation_factor_;
  footprint.activations.logits *= activation_factor_;
  footprint.activations.ScaleModules(activation_factor_);
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
  // Profiles measure all experts on each rank; theory gives their share of the parameters.
  int64_t experts = 0;
  if (footprint.expert_parameter_count > 0) {
    const LayerFootprint plain = FootprintOf(definition_, precision_, runtime_,
                                             OfTensorDegree(tensor, strategy.sequence_parallel),
                                             /*copies_tied_table=*/false);
    experts = std::min(plain.expert_parameter_count, count);
    const int64_t whole = experts * tensor / strategy.expert_tensor_degree();
    footprint.expert_parameter_count =
        (whole + strategy.expert_parallel_degree - 1) / strategy.expert_parallel_degree;
  }
  // Profiles count what is frozen beside what is trained; theory takes them apart.
  if (!footprint.is_frozen()) footprint.parameter_count = count - experts;
  footprint.largest_matrix_parameter_count =
      std::min(footprint.largest_matrix_parameter_count, count);
  // The measured sum, divided in the proportions of theory.
  ActivationBytes& activations = footprint.activations;
  double kept_share = 1.0 / strategy.context_parallel_degree;
  double checkpoint_share = kept_share;
  if (runtime_.reuses_activations) {
    // Theory is exact for such a runtime, so it also gives the effect of shared tokens.
    const ActivationBytes plain = ActivationBytesOf(definition_, precision_, runtime_,
                                                    OfTensorDegree(tensor, sequence_parallel_));
    const auto share = [&](RecomputeLevel level) {
      const double whole = plain.Kept(level);
      return whole > 0.0 ? activations.Kept(level) / whole : 1.0;
    };
    kept_share = share(RecomputeLevel::kNone);
    checkpoint_share = share(RecomputeLevel::kFull);
  }
  const double kept = profile_->ActivationPerSample(tensor).as_double() * kept_share;
  const double checkpoint =
      std::min(kept, profile_->CheckpointPerSample(tensor).as_double() * checkpoint_share);
  const double inner = activations.layer + activations.attention_core;
  const double core_share = inner > 0.0 ? activations.attention_core / inner : 0.0;
  const double inside = (kept - checkpoint) * activation_factor_;
  activations.checkpoint = checkpoint;
  activations.attention_core = inside * core_share;
  activations.layer = inside - activations.attention_core;
  activations.ScaleModules(inner > 0.0 ? inside / inner : 0.0);
  if (MeasuresSavedTensors(runtime_)) {
    // The logarithms of probabilities, of 4 bytes, were measured.
    activations.logits *= 1.0 - 4.0 / runtime_.loss_bytes_per_logit;
  } else if (!runtime_.reuses_activations) {
    activations.backward = 0.0;
    activations.logits = 0.0;
  }
  return footprint;
}

}  // namespace parplan
