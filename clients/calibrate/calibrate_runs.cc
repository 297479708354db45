#include "clients/calibrate/calibrate_runs.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/calibrate/residual_classes.h"

namespace parplan::planctl {
namespace {

constexpr auto kStep = ResidualQuantity::kStepDuration;
constexpr auto kMemory = ResidualQuantity::kPeakMemory;
constexpr LayerKind kLayerKinds[] = {LayerKind::kEmbedding, LayerKind::kDecoder,
                                     LayerKind::kEncoder,   LayerKind::kCrossDecoder,
                                     LayerKind::kHead,      LayerKind::kPatchEmbedding};

// Peaks below this are mostly fixed costs (a library's buffers, blocks that the allocator rounds up
// to). A fit wants them, but their relative errors do not apply to jobs that fill a device, for
// which ranges are made. A tenth of a device of 80 GB.
constexpr double kSmallestPeakForRanges = 8e9;

double MeasuredOf(const MeasuredRun& run, ResidualQuantity quantity) {
  return quantity == kStep ? run.step->value() : run.memory->as_double();
}

// ln(measured / predicted); NaN when there is no such prediction.
double LogRatio(const MeasuredRun& run, ResidualQuantity quantity,
                const RunPrediction& prediction) {
  double predicted = 0.0;
  if (quantity == kStep && prediction.step.has_value()) predicted = prediction.step->value();
  if (quantity == kMemory && prediction.memory.has_value()) {
    predicted = prediction.memory->as_double();
  }
  const double log_ratio = std::log(MeasuredOf(run, quantity) / predicted);
  return std::isfinite(log_ratio) ? log_ratio : std::numeric_limits<double>::quiet_NaN();
}

// `base` with other values.
Calibration WithCoefficients(const Calibration& base, std::vector<CoefficientValue> values) {
  Calibration::Content content = base.content();
  content.coefficient_values = std::move(values);
  absl::StatusOr<Calibration> calibration = Calibration::Create(std::move(content));
  // Fitted values are within their bounds, and `QuantityFit::Run` has checked their number and
  // names.
  PARPLAN_CHECK(calibration.ok());
  return *std::move(calibration);
}

// The runs of one quantity while it is fitted.
class QuantityFit {
 public:
  QuantityFit(ResidualQuantity quantity, const std::vector<MeasuredRun>& runs,
              const Calibration& base, std::vector<std::string>& skipped)
      : quantity_(quantity), base_(base) {
    for (const MeasuredRun& run : runs) {
      if (!(quantity == kStep ? run.step.has_value() : run.memory.has_value())) continue;
      const absl::StatusOr<RunPrediction> prediction = run.predict(base);
      if (!prediction.ok()) {
        skipped.push_back(absl::StrCat(run.id, ": ", prediction.status().message()));
        continue;
      }
      const double log_ratio = LogRatio(run, quantity, *prediction);
      if (!std::isfinite(log_ratio)) {
        skipped.push_back(absl::StrCat(run.id, ": no prediction to compare with"));
        continue;
      }
      runs_.push_back(&run);
      before_.push_back(log_ratio);
      keys_.push_back({quantity, prediction->confidence, run.place.device_family,
                       prediction->tensor_parallel_reach});
    }
  }

  bool empty() const { return runs_.empty(); }
  const std::vector<const MeasuredRun*>& runs() const { return runs_; }

  // The base with the values fitted.
  absl::StatusOr<Calibration> Run(CalibrateResult& result) {
    std::vector<FitPlace> places;
    for (const MeasuredRun* run : runs_) places.push_back(run->place);
    const std::vector<FitParameter> parameters =
        ParametersOf(quantity_, base_, places, kLayerKinds);
    // A fit adds a value for each parameter: a calibration may have no room for them, and places
    // may have names that it does not take.
    std::vector<double> priors;
    for (const FitParameter& parameter : parameters) priors.push_back(parameter.prior);
    Calibration::Content first = base_.content();
    first.coefficient_values = WithValues(base_, parameters, priors);
    PARPLAN_RETURN_IF_ERROR(Calibration::Create(std::move(first)).status());
    const ResidualFunction residuals = [&](absl::Span<const double> values,
                                           absl::Span<double> log_ratios) {
      const Calibration trial = WithCoefficients(base_, WithValues(base_, parameters, values));
      for (size_t i = 0; i < runs_.size(); ++i) {
        const absl::StatusOr<RunPrediction> prediction = runs_[i]->predict(trial);
        log_ratios[i] = prediction.ok() ? LogRatio(*runs_[i], quantity_, *prediction)
                                        : std::numeric_limits<double>::quiet_NaN();
      }
    };
    PARPLAN_ASSIGN_OR_RETURN(
        const Fit fit, FitCoefficients(parameters, static_cast<int64_t>(runs_.size()), residuals));
    for (size_t i = 0; i < parameters.size(); ++i) {
      result.coefficients.push_back({parameters[i], fit.parameters[i]});
      // A parameter that the runs settled has used up one of them.
      const double share = fit.parameters[i].width / parameters[i].prior_width;
      settled_ += std::clamp(1.0 - share * share, 0.0, 1.0);
    }
    after_ = fit.residuals;
    AddResiduals(result);
    return WithCoefficients(base_, WithFitted(base_, parameters, fit.parameters));
  }

  std::vector<ResidualClass> Classes() const {
    std::vector<Residual> residuals;
    for (size_t i = 0; i < runs_.size(); ++i) {
      if (!runs_[i]->makes_range) continue;
      if (quantity_ == kMemory && runs_[i]->memory->as_double() < kSmallestPeakForRanges) continue;
      residuals.push_back({keys_[i], after_[i]});
    }
    return MakeResidualClasses(residuals, {.fitted_parameter_count = settled_});
  }

 private:
  void AddResiduals(CalibrateResult& result) const {
    std::map<std::string, SourceResiduals> by_source;
    for (size_t i = 0; i < runs_.size(); ++i) {
      SourceResiduals& residuals = by_source[runs_[i]->source];
      residuals.quantity = quantity_;
      residuals.source = runs_[i]->source;
      ++residuals.run_count;
      residuals.error_before += std::abs(std::exp(-before_[i]) - 1.0);
      residuals.error_after += std::abs(std::exp(-after_[i]) - 1.0);
      residuals.bias_after += std::exp(-after_[i]) - 1.0;
    }
    for (auto& [source, residuals] : by_source) {
      const auto count = static_cast<double>(residuals.run_count);
      residuals.error_before /= count;
      residuals.error_after /= count;
      residuals.bias_after /= count;
      result.residuals.push_back(residuals);
    }
  }

  ResidualQuantity quantity_;
  const Calibration& base_;
  std::vector<const MeasuredRun*> runs_;
  std::vector<ResidualKey> keys_;
  std::vector<double> before_;
  std::vector<double> after_;
  double settled_ = 0.0;
};

}  // namespace

absl::StatusOr<CalibrateResult> CalibrateRuns(const std::vector<MeasuredRun>& runs,
                                              const CalibrateRequest& request) {
  const Calibration base = request.base == nullptr ? *Calibration::BuiltIn() : *request.base;
  CalibrateResult result{base, {}, {}, {}};
  std::map<ResidualKey, ResidualClass> classes;
  for (const ResidualClass& residuals : base.content().residual_classes) {
    // Classes without residuals are left out: `Calibration` uses its priors for them.
    if (residuals.residual_count > 0) classes[residuals.key] = residuals;
  }
  std::map<std::string, std::map<std::string, int>> runs_of_source;
  for (ResidualQuantity quantity : {kStep, kMemory}) {
    const Calibration start = result.calibration;
    QuantityFit fit(quantity, runs, start, result.skipped);
    if (fit.empty()) continue;
    PARPLAN_ASSIGN_OR_RETURN(result.calibration, fit.Run(result));
    for (ResidualClass& residuals : fit.Classes()) classes[residuals.key] = std::move(residuals);
    for (const MeasuredRun* run : fit.runs()) runs_of_source[run->source].insert({run->id, 1});
  }
  if (runs_of_source.empty()) {
    return FieldError(Reason::kSpecInvalid, "runs",
                      absl::StrCat("none is left to fit; ", result.skipped.size(),
                                   " could not be predicted. Check the slices."));
  }

  Calibration::Content content;
  content.provenance.agent = request.agent;
  content.provenance.fit_time = request.fit_time;
  content.provenance.parent_digest = base.content().digest;
  // The values still hold what the base was made of.
  for (const Calibration::Source& source : base.content().provenance.sources) {
    if (!runs_of_source.contains(source.source)) content.provenance.sources.push_back(source);
  }
  for (const auto& [source, ids] : runs_of_source) {
    content.provenance.sources.push_back(
        {source, static_cast<int64_t>(ids.size()),
         request.slice_rule_of ? request.slice_rule_of(source) : ""});
  }
  content.coefficient_values = result.calibration.content().coefficient_values;
  for (auto& [key, residuals] : classes) content.residual_classes.push_back(residuals);
  PARPLAN_ASSIGN_OR_RETURN(result.calibration, Calibration::Create(std::move(content)));
  return result;
}

}  // namespace parplan::planctl
