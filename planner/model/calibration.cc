#include "planner/model/calibration.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/normal_score.h"
#include "base/status_macros.h"
#include "planner/model/spec_error.h"

namespace parplan {
namespace {

// Limits of a calibration, so that a wrong file is refused before it takes memory. The published
// one has some tens of values and classes; these leave room for twenty times as many and more.
constexpr size_t kMaxValueCount = 4096;
constexpr size_t kMaxClassCount = 1024;
constexpr size_t kMaxSourceCount = 1024;
constexpr size_t kMaxNameSize = 63;
constexpr size_t kMaxTextSize = 4096;

absl::Status CheckName(const std::string& name, const std::string& field) {
  if (name.size() <= kMaxNameSize) return absl::OkStatus();
  return SpecError(field, absl::StrCat("at most ", kMaxNameSize, " characters"));
}

bool HasLayerKinds(Coefficient coefficient) {
  return coefficient == Coefficient::kTimeFactor || coefficient == Coefficient::kActivationFactor;
}

absl::Status CheckProvenance(const Calibration::Provenance& provenance) {
  const std::string field = "provenance";
  if (provenance.agent.empty() || provenance.agent.size() > kMaxTextSize) {
    return SpecError(field + ".agent", "must name the program that fitted, with its release");
  }
  PARPLAN_RETURN_IF_ERROR(CheckName(provenance.fit_time, field + ".fit_time"));
  if (provenance.parent_digest.size() > 64) {
    return SpecError(field + ".parent_digest", "must be the digest of a calibration, or empty");
  }
  if (provenance.sources.size() > kMaxSourceCount) {
    return SpecError(field + ".sources", absl::StrCat("at most ", kMaxSourceCount, " sources"));
  }
  for (size_t i = 0; i < provenance.sources.size(); ++i) {
    const Calibration::Source& source = provenance.sources[i];
    const std::string path = absl::StrCat(field, ".sources[", i, "]");
    if (source.source.empty() || source.source.size() > kMaxTextSize) {
      return SpecError(path + ".source", "must name where the runs come from");
    }
    if (source.row_count < 1) return SpecError(path + ".row_count", "must be at least 1");
    if (source.slice_rule.size() > kMaxTextSize) {
      return SpecError(path + ".slice_rule", absl::StrCat("at most ", kMaxTextSize, " characters"));
    }
  }
  if (provenance.notes.size() > kMaxSourceCount) {
    return SpecError(field + ".notes", absl::StrCat("at most ", kMaxSourceCount, " notes"));
  }
  return absl::OkStatus();
}

absl::Status CheckValue(const CoefficientValue& value, const std::string& path) {
  const CoefficientInfo& info = InfoOf(value.coefficient);
  PARPLAN_RETURN_IF_ERROR(CheckName(value.scope.device_family, path + ".scope.device_family"));
  PARPLAN_RETURN_IF_ERROR(CheckName(value.scope.cluster, path + ".scope.cluster"));
  if (value.scope.layer_kind.has_value() && !HasLayerKinds(value.coefficient)) {
    return SpecError(path + ".scope.layer_kind",
                     "only with the coefficients time_factor and activation_factor");
  }
  // The comparison is also false for a value that is not a number.
  if (!(value.value >= info.lowest && value.value <= info.highest)) {
    return SpecError(path + ".value", absl::StrCat(info.name, " must be within ", info.lowest,
                                                   " and ", info.highest, ", not ", value.value));
  }
  if (value.evidence_count < 0) {
    return SpecError(path + ".evidence_count", "must be at least 0");
  }
  return absl::OkStatus();
}

absl::Status CheckClass(const ResidualClass& residuals, const std::string& path) {
  PARPLAN_RETURN_IF_ERROR(CheckName(residuals.key.device_family, path + ".device_family"));
  if (residuals.residual_count < 0) {
    return SpecError(path + ".residual_count", "must be at least 0");
  }
  double before = -kMaxLogRatio;
  for (double log_ratio : residuals.log_ratio) {
    if (!(log_ratio >= before && log_ratio <= kMaxLogRatio)) {
      return SpecError(path + ".log_ratio_quantiles",
                       "none may be below the one before, and all within -5 and 5");
    }
    before = log_ratio;
  }
  return absl::OkStatus();
}

// Returns the narrowness of a scope. Of several values that apply, the one with the highest counts.
int Narrowness(const CalibrationScope& scope) {
  return (scope.layer_kind.has_value() ? 4 : 0) + (scope.cluster.empty() ? 0 : 2) +
         (scope.device_family.empty() ? 0 : 1);
}

bool Covers(const std::string& scope, absl::string_view name) {
  return scope.empty() || absl::string_view(scope) == name;
}

std::string Basis(const ResidualClass& residuals) {
  std::string text = "any prediction";
  if (residuals.key.confidence.has_value()) {
    switch (*residuals.key.confidence) {
      case Confidence::kMeasured:
        text = "measured";
        break;
      case Confidence::kMixed:
        text = "mixed";
        break;
      case Confidence::kEstimated:
        text = "estimated";
        break;
    }
  }
  if (!residuals.key.device_family.empty()) {
    absl::StrAppend(&text, ", ", residuals.key.device_family);
  }
  if (residuals.key.tensor_parallel_reach.has_value()) {
    absl::StrAppend(&text, *residuals.key.tensor_parallel_reach == TensorParallelReach::kWithinNode
                               ? ", tensor parallel within a node"
                               : ", tensor parallel across nodes");
  }
  if (residuals.residual_count == 0) return absl::StrCat(text, ": prior");
  return absl::StrCat(text, ": ", residuals.residual_count,
                      residuals.residual_count == 1 ? " run" : " runs");
}

// The quantiles that apply to a key, with `basis` and `residual_count` of the narrowest class.
struct Quantiles {
  std::array<double, 9> log_ratio = {};
  std::string basis;
  int64_t residual_count = 0;
  bool found = false;
  bool enough = false;
};

void LookUp(const std::vector<ResidualClass>& classes, const ResidualKey& key, Quantiles& found) {
  std::set<ResidualKey> seen;
  for (const ResidualKey& wider : WiderKeys(key)) {
    if (!seen.insert(wider).second) continue;
    const auto match = std::find_if(classes.begin(), classes.end(),
                                    [&](const ResidualClass& c) { return c.key == wider; });
    if (match == classes.end()) continue;
    if (!found.found) {
      found = {match->log_ratio, Basis(*match), match->residual_count, true, false};
    } else {
      for (int i = 0; i < kResidualMedian; ++i) {
        found.log_ratio[i] = std::min(found.log_ratio[i], match->log_ratio[i]);
      }
      for (int i = kResidualMedian + 1; i < 9; ++i) {
        found.log_ratio[i] = std::max(found.log_ratio[i], match->log_ratio[i]);
      }
    }
    found.enough = match->residual_count == 0 || match->residual_count >= kEnoughResiduals;
    if (found.enough) return;
  }
}

// Returns ln(ratio) at `probability`.
double LogRatioAt(const std::array<double, 9>& log_ratio, double probability) {
  static const std::array<double, 9> scores = [] {
    std::array<double, 9> values;
    for (int i = 0; i < 9; ++i) values[i] = NormalScore(kResidualProbabilities[i]);
    return values;
  }();
  const double score = NormalScore(std::clamp(probability, 1e-9, 1.0 - 1e-9));
  // Beyond the ends the slope is that at the end, and at least that between the median and the end.
  const auto beyond = [&](int end, int inner) {
    const double at_end = (log_ratio[end] - log_ratio[inner]) / (scores[end] - scores[inner]);
    const double from_median = (log_ratio[end] - log_ratio[kResidualMedian]) / scores[end];
    return log_ratio[end] + std::max(at_end, from_median) * (score - scores[end]);
  };
  if (score <= scores.front()) return beyond(0, 1);
  if (score >= scores.back()) return beyond(8, 7);
  int i = 1;
  while (scores[i] < score) ++i;
  const double share = (score - scores[i - 1]) / (scores[i] - scores[i - 1]);
  return log_ratio[i - 1] + share * (log_ratio[i] - log_ratio[i - 1]);
}

}  // namespace

std::array<ResidualKey, 5> WiderKeys(const ResidualKey& key) {
  const ResidualKey everything{.quantity = key.quantity};
  ResidualKey of_confidence = everything;
  of_confidence.confidence = key.confidence;
  ResidualKey of_reach = of_confidence;
  of_reach.tensor_parallel_reach = key.tensor_parallel_reach;
  ResidualKey of_family = of_confidence;
  of_family.device_family = key.device_family;
  return {key, of_reach, of_family, of_confidence, everything};
}

absl::StatusOr<Calibration> Calibration::Create(Content content) {
  PARPLAN_RETURN_IF_ERROR(CheckProvenance(content.provenance));
  if (content.coefficient_values.size() > kMaxValueCount) {
    return SpecError("coefficient_values", absl::StrCat("at most ", kMaxValueCount, " values"));
  }
  std::set<std::pair<Coefficient, CalibrationScope>> scopes;
  for (size_t i = 0; i < content.coefficient_values.size(); ++i) {
    const CoefficientValue& value = content.coefficient_values[i];
    const std::string path = absl::StrCat("coefficient_values[", i, "]");
    PARPLAN_RETURN_IF_ERROR(CheckValue(value, path));
    if (!scopes.insert({value.coefficient, value.scope}).second) {
      return SpecError(path, absl::StrCat(InfoOf(value.coefficient).name,
                                          " has two values for the same scope; leave one out"));
    }
  }
  if (content.residual_classes.size() > kMaxClassCount) {
    return SpecError("residual_classes", absl::StrCat("at most ", kMaxClassCount, " classes"));
  }
  std::set<ResidualKey> keys;
  for (size_t i = 0; i < content.residual_classes.size(); ++i) {
    const ResidualClass& residuals = content.residual_classes[i];
    const std::string path = absl::StrCat("residual_classes[", i, "]");
    PARPLAN_RETURN_IF_ERROR(CheckClass(residuals, path));
    if (!keys.insert(residuals.key).second) {
      return SpecError(path, "another class has the same key; leave one out");
    }
  }
  return Calibration(std::move(content));
}

Coefficients Calibration::Resolve(absl::string_view device_family,
                                  absl::string_view cluster) const {
  return ResolveScopes(device_family, cluster, std::nullopt);
}

Coefficients Calibration::Resolve(absl::string_view device_family, absl::string_view cluster,
                                  LayerKind layer_kind) const {
  return ResolveScopes(device_family, cluster, layer_kind);
}

Coefficients Calibration::ResolveScopes(absl::string_view device_family, absl::string_view cluster,
                                        std::optional<LayerKind> layer_kind) const {
  Coefficients coefficients(device_family);
  std::array<int, kCoefficientCount> narrowness;
  narrowness.fill(-1);
  // A prior of the family is narrower than a global value.
  for (int i = 0; i < kCoefficientCount; ++i) {
    const auto coefficient = static_cast<Coefficient>(i);
    if (coefficients[coefficient] != Coefficients()[coefficient]) narrowness[i] = 1;
  }
  for (const CoefficientValue& value : content_.coefficient_values) {
    const CalibrationScope& scope = value.scope;
    if (!Covers(scope.device_family, device_family) || !Covers(scope.cluster, cluster)) continue;
    if (scope.layer_kind.has_value() && scope.layer_kind != layer_kind) continue;
    int& narrowest = narrowness[static_cast<int>(value.coefficient)];
    if (Narrowness(scope) < narrowest) continue;
    narrowest = Narrowness(scope);
    coefficients[value.coefficient] = value.value;
  }
  return coefficients;
}

RangeFactors Calibration::Range(const ResidualKey& key, double coverage) const {
  PARPLAN_CHECK(coverage > 0.0 && coverage < 1.0);
  Quantiles quantiles;
  LookUp(content_.residual_classes, key, quantiles);
  if (!quantiles.enough) LookUp(BuiltIn()->content_.residual_classes, key, quantiles);
  PARPLAN_CHECK(quantiles.found);
  RangeFactors factors;
  factors.lower = std::exp(LogRatioAt(quantiles.log_ratio, 0.5 * (1.0 - coverage)));
  factors.median = std::exp(quantiles.log_ratio[kResidualMedian]);
  factors.upper = std::exp(LogRatioAt(quantiles.log_ratio, 0.5 * (1.0 + coverage)));
  factors.residual_count = quantiles.residual_count;
  factors.basis = std::move(quantiles.basis);
  return factors;
}

double Calibration::UpperFactor(const ResidualKey& key, double risk) const {
  PARPLAN_CHECK(risk > 0.0 && risk <= 0.5);
  Quantiles quantiles;
  LookUp(content_.residual_classes, key, quantiles);
  if (!quantiles.enough) LookUp(BuiltIn()->content_.residual_classes, key, quantiles);
  PARPLAN_CHECK(quantiles.found);
  return std::max(1.0, std::exp(LogRatioAt(quantiles.log_ratio, 1.0 - risk)));
}

}  // namespace parplan
