#include "planner/calibrate/fit_parameters.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>

namespace parplan {
namespace {

using enum Coefficient;

// Prior widths of ln(value): of the global value around the prior, of a family around the global
// value, and of a cluster (or, for the factors, a kind of layer) around its family. 0 if a
// coefficient is not fitted.
struct Widths {
  Coefficient coefficient;
  ResidualQuantity quantity;
  double global;
  double family;
  double cluster;
};

constexpr auto kStep = ResidualQuantity::kStepDuration;
constexpr auto kMemory = ResidualQuantity::kPeakMemory;

// The widths are our choice. Shares of peaks are known to a twentieth from the sources that
// coefficients.cc names, and libraries, clocks and cooling of two clusters are taken to differ by
// as much again. Host times and latencies are taken to vary by half between machines.
constexpr Widths kWidths[] = {
    // Large products of one family differ by this much in those sources (0.79 to 0.86 of the peak
    // on A100). Small ones, which wait for launches, must not move the value.
    {kMatrixEfficiency, kStep, 0.06, 0.03, 0.03},   {kAttentionEfficiency, kStep, 0.25, 0.15, 0.10},
    {kMemoryEfficiency, kStep, 0.05, 0.05, 0.05},   {kSoftmaxEfficiency, kStep, 0.15, 0.05, 0.10},
    {kReductionRamp, kStep, 0.30, 0.30, 0.30},      {kDeviceSpread, kStep, 0.30, 0.0, 0.30},
    {kKernelOverhead, kStep, 0.20, 0.20, 0.20},     {kLaunchInterval, kStep, 0.50, 0.0, 0.40},
    {kStepOverhead, kStep, 0.80, 0.0, 0.80},        {kIntraNodeEfficiency, kStep, 0.10, 0.05, 0.10},
    {kInterNodeEfficiency, kStep, 0.15, 0.0, 0.15}, {kCollectiveLatency, kStep, 0.50, 0.0, 0.30},
    {kNetworkLatency, kStep, 0.50, 0.0, 0.40},      {kContention, kStep, 0.05, 0.0, 0.05},
    {kContextMemory, kMemory, 0.25, 0.10, 0.10},    {kCommunicatorMemory, kMemory, 0.60, 0.0, 0.30},
    {kWorkspaceMemory, kMemory, 0.50, 0.30, 0.0},   {kFragmentation, kMemory, 0.60, 0.0, 0.40},
    {kTimeFactor, kStep, 0.0, 0.0, 0.10},           {kActivationFactor, kMemory, 0.0, 0.0, 0.05},
};

// Rows that a value for every family needs: as many as a class of residuals (residual_classes.h).
constexpr int64_t kEvidenceForEveryFamily = 8;

bool HasLayerKinds(Coefficient coefficient) {
  return coefficient == kTimeFactor || coefficient == kActivationFactor;
}

// The parameters of one coefficient.
class ScopedParameters {
 public:
  ScopedParameters(const Widths& widths, const Calibration& base,
                   std::vector<FitParameter>& parameters)
      : widths_(widths), base_(base), parameters_(parameters) {}

  // Returns the index of the parameter in `scope`, which is added below `parent` if it is absent;
  // returns `parent` if `width` is 0.
  int Add(const CalibrationScope& scope, double width, int parent) {
    if (width == 0.0) return parent;
    const auto [entry, is_new] = index_.insert({scope, static_cast<int>(parameters_.size())});
    if (is_new) {
      const CoefficientInfo& info = InfoOf(widths_.coefficient);
      const Coefficients values =
          scope.layer_kind.has_value()
              ? base_.Resolve(scope.device_family, scope.cluster, *scope.layer_kind)
              : base_.Resolve(scope.device_family, scope.cluster);
      parameters_.push_back({.coefficient = widths_.coefficient,
                             .scope = scope,
                             .prior = values[widths_.coefficient],
                             .lowest = info.lowest,
                             .highest = info.highest,
                             .prior_width = width,
                             .parent = parent});
    }
    return entry->second;
  }

  int Find(const CalibrationScope& scope) const {
    const auto entry = index_.find(scope);
    return entry == index_.end() ? -1 : entry->second;
  }

 private:
  const Widths& widths_;
  const Calibration& base_;
  std::vector<FitParameter>& parameters_;
  std::map<CalibrationScope, int> index_;
};

CoefficientValue& ValueIn(std::vector<CoefficientValue>& values, const FitParameter& parameter) {
  const auto match = std::find_if(values.begin(), values.end(), [&](const CoefficientValue& value) {
    return value.coefficient == parameter.coefficient && value.scope == parameter.scope;
  });
  if (match != values.end()) return *match;
  values.push_back({.coefficient = parameter.coefficient, .scope = parameter.scope});
  return values.back();
}

}  // namespace

std::vector<FitParameter> ParametersOf(ResidualQuantity quantity, const Calibration& base,
                                       absl::Span<const FitPlace> places,
                                       absl::Span<const LayerKind> layer_kinds) {
  const std::set<FitPlace> sorted(places.begin(), places.end());
  std::vector<FitParameter> parameters;
  for (const Widths& widths : kWidths) {
    if (widths.quantity != quantity) continue;
    ScopedParameters added(widths, base, parameters);
    const bool is_fitted_everywhere =
        std::any_of(base.content().coefficient_values.begin(),
                    base.content().coefficient_values.end(), [&](const CoefficientValue& value) {
                      return value.coefficient == widths.coefficient &&
                             value.scope == CalibrationScope() && value.fitted;
                    });
    for (const FitPlace& place : sorted) {
      if (!place.moves_wider_scopes) continue;
      // A family with a known value of its own does not follow the others, nor is it evidence for
      // them. What an earlier fit learned everywhere stays: these runs move only their own scopes.
      const bool is_known = base.Resolve(place.device_family, "")[widths.coefficient] !=
                            base.Resolve("", "")[widths.coefficient];
      const int global = is_known || is_fitted_everywhere ? -1 : added.Add({}, widths.global, -1);
      if (place.device_family.empty()) continue;
      added.Add({place.device_family, "", {}}, widths.family, global);
    }
    for (const FitPlace& place : sorted) {
      if (place.cluster.empty()) continue;
      const bool is_factor = HasLayerKinds(widths.coefficient);
      const bool is_fitted =
          place.is_several_machines ? widths.coefficient == kTimeFactor : !is_factor;
      if (place.moves_wider_scopes && !is_fitted) continue;
      int parent = added.Find({place.device_family, "", {}});
      if (parent < 0) parent = added.Find({});
      const int cluster =
          added.Add({place.device_family, place.cluster, {}}, widths.cluster, parent);
      if (!is_factor || place.moves_wider_scopes) continue;
      for (LayerKind kind : layer_kinds) {
        added.Add({place.device_family, place.cluster, kind}, widths.cluster, cluster);
      }
    }
  }
  return parameters;
}

std::vector<CoefficientValue> WithValues(const Calibration& base,
                                         absl::Span<const FitParameter> parameters,
                                         absl::Span<const double> values) {
  std::vector<CoefficientValue> all = base.content().coefficient_values;
  for (size_t i = 0; i < parameters.size(); ++i) ValueIn(all, parameters[i]).value = values[i];
  return all;
}

std::vector<CoefficientValue> WithFitted(const Calibration& base,
                                         absl::Span<const FitParameter> parameters,
                                         absl::Span<const FittedParameter> fitted) {
  std::vector<CoefficientValue> all = base.content().coefficient_values;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (fitted[i].evidence_count == 0) continue;
    // A few rows of one family say nothing of every family.
    if (parameters[i].scope == CalibrationScope() &&
        fitted[i].evidence_count < kEvidenceForEveryFamily) {
      continue;
    }
    CoefficientValue& value = ValueIn(all, parameters[i]);
    value.value = fitted[i].value;
    value.evidence_count = fitted[i].evidence_count;
    value.fitted = true;
  }
  return all;
}

}  // namespace parplan
