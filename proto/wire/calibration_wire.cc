#include "proto/wire/calibration_wire.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "planner/model/coefficients.h"
#include "proto/wire/canonical_text.h"
#include "proto/wire/digest.h"
#include "proto/wire/duration_wire.h"
#include "proto/wire/enum_wire.h"
#include "proto/wire/field_path.h"

namespace parplan {
namespace {

constexpr Reason kReason = Reason::kSpecInvalid;

absl::StatusOr<Coefficient> CoefficientFromName(const std::string& name, const std::string& path) {
  const std::optional<Coefficient> coefficient = FindCoefficient(name);
  if (coefficient.has_value()) return *coefficient;
  std::vector<std::string> names;
  for (int i = 0; i < kCoefficientCount; ++i) {
    names.emplace_back(InfoOf(static_cast<Coefficient>(i)).name);
  }
  return FieldError(kReason, path, absl::StrCat("must be one of ", absl::StrJoin(names, ", ")));
}

absl::StatusOr<CoefficientValue> ValueFromProto(const v1::CoefficientValue& message,
                                                const std::string& path) {
  CoefficientValue value;
  PARPLAN_ASSIGN_OR_RETURN(
      value.coefficient, CoefficientFromName(message.coefficient(), JoinPath(path, "coefficient")));
  value.scope.device_family = message.scope().device_family();
  value.scope.cluster = message.scope().cluster();
  if (message.scope().layer_kind() != v1::LAYER_KIND_UNSPECIFIED) {
    PARPLAN_ASSIGN_OR_RETURN(value.scope.layer_kind,
                             EnumFromProto<LayerKind>(message.scope().layer_kind(),
                                                      JoinPath(path, "scope.layer_kind"), kReason));
  }
  value.value = message.value();
  value.evidence_count = message.evidence_count();
  value.fitted = message.fitted();
  return value;
}

absl::StatusOr<ResidualClass> ClassFromProto(const v1::ResidualClass& message,
                                             const std::string& path) {
  ResidualClass residuals;
  ResidualKey& key = residuals.key;
  PARPLAN_ASSIGN_OR_RETURN(
      key.quantity,
      EnumFromProto<ResidualQuantity>(message.quantity(), JoinPath(path, "quantity"), kReason));
  if (message.confidence() != v1::CONFIDENCE_UNSPECIFIED) {
    PARPLAN_ASSIGN_OR_RETURN(
        key.confidence,
        EnumFromProto<Confidence>(message.confidence(), JoinPath(path, "confidence"), kReason));
  }
  key.device_family = message.device_family();
  if (message.tensor_parallel_reach() != v1::ResidualClass::TENSOR_PARALLEL_REACH_UNSPECIFIED) {
    PARPLAN_ASSIGN_OR_RETURN(
        key.tensor_parallel_reach,
        EnumFromProto<TensorParallelReach>(message.tensor_parallel_reach(),
                                           JoinPath(path, "tensor_parallel_reach"), kReason));
  }
  residuals.residual_count = message.residual_count();
  if (message.log_ratio_quantiles_size() != static_cast<int>(residuals.log_ratio.size())) {
    return FieldError(kReason, JoinPath(path, "log_ratio_quantiles"),
                      absl::StrCat("must be ", residuals.log_ratio.size(), " numbers, not ",
                                   message.log_ratio_quantiles_size()));
  }
  std::copy(message.log_ratio_quantiles().begin(), message.log_ratio_quantiles().end(),
            residuals.log_ratio.begin());
  return residuals;
}

absl::StatusOr<Calibration::Provenance> ProvenanceFromProto(
    const v1::CalibrationProvenance& message, absl::string_view path) {
  Calibration::Provenance provenance;
  provenance.agent = message.agent();
  if (message.has_fit_time()) {
    PARPLAN_ASSIGN_OR_RETURN(
        const absl::Time time,
        TimestampFromProto(message.fit_time(), JoinPath(path, "fit_time"), kReason));
    provenance.fit_time = absl::FormatTime(absl::RFC3339_full, time, absl::UTCTimeZone());
  }
  for (const v1::CalibrationSource& source : message.sources()) {
    provenance.sources.push_back({source.source(), source.row_count(), source.slice_rule()});
  }
  provenance.parent_digest = message.parent_digest();
  provenance.notes = {message.notes().begin(), message.notes().end()};
  return provenance;
}

// Returns the time of `text`; absent if it is not RFC 3339.
std::optional<absl::Time> TimeOf(const std::string& text) {
  absl::Time time;
  std::string error;
  if (!absl::ParseTime(absl::RFC3339_full, text, &time, &error)) return std::nullopt;
  return time;
}

std::string ScopeWords(const CalibrationScope& scope) {
  return absl::StrCat(StringWord(scope.device_family), " ", StringWord(scope.cluster), " ",
                      scope.layer_kind.has_value()
                          ? IntegerWord(static_cast<int>(*scope.layer_kind))
                          : kAbsentWord);
}

std::string ClassLine(const ResidualClass& residuals) {
  const ResidualKey& key = residuals.key;
  std::string quantiles;
  for (double log_ratio : residuals.log_ratio) {
    absl::StrAppend(&quantiles, quantiles.empty() ? "" : " ", NumberWord(log_ratio));
  }
  return CanonicalLine(
      "residual_class",
      {IntegerWord(static_cast<int>(key.quantity)),
       key.confidence.has_value() ? IntegerWord(static_cast<int>(*key.confidence)) : kAbsentWord,
       StringWord(key.device_family),
       key.tensor_parallel_reach.has_value()
           ? IntegerWord(static_cast<int>(*key.tensor_parallel_reach))
           : kAbsentWord,
       IntegerWord(residuals.residual_count), quantiles});
}

}  // namespace

absl::StatusOr<Calibration> CalibrationFromProto(const v1::Calibration& message,
                                                 absl::string_view field) {
  Calibration::Content content;
  PARPLAN_ASSIGN_OR_RETURN(
      content.provenance, ProvenanceFromProto(message.provenance(), JoinPath(field, "provenance")));
  for (int i = 0; i < message.coefficient_values_size(); ++i) {
    PARPLAN_ASSIGN_OR_RETURN(
        CoefficientValue value,
        ValueFromProto(message.coefficient_values(i), JoinPath(field, "coefficient_values", i)));
    content.coefficient_values.push_back(std::move(value));
  }
  for (int i = 0; i < message.residual_classes_size(); ++i) {
    PARPLAN_ASSIGN_OR_RETURN(
        ResidualClass residuals,
        ClassFromProto(message.residual_classes(i), JoinPath(field, "residual_classes", i)));
    content.residual_classes.push_back(std::move(residuals));
  }
  content.digest = CalibrationDigest(content);
  absl::StatusOr<Calibration> calibration = Calibration::Create(std::move(content));
  if (!calibration.ok()) return MoveFieldError(calibration.status(), "", field, kReason);
  return calibration;
}

v1::Calibration CalibrationToProto(const Calibration& calibration) {
  const Calibration::Content& content = calibration.content();
  v1::Calibration message;
  message.set_digest(CalibrationDigest(content));
  v1::CalibrationProvenance& provenance = *message.mutable_provenance();
  provenance.set_agent(content.provenance.agent);
  if (const std::optional<absl::Time> fit_time = TimeOf(content.provenance.fit_time)) {
    *provenance.mutable_fit_time() = TimestampToProto(*fit_time);
  }
  for (const Calibration::Source& source : content.provenance.sources) {
    v1::CalibrationSource& entry = *provenance.add_sources();
    entry.set_source(source.source);
    entry.set_row_count(source.row_count);
    entry.set_slice_rule(source.slice_rule);
  }
  provenance.set_parent_digest(content.provenance.parent_digest);
  for (const std::string& note : content.provenance.notes) provenance.add_notes(note);

  for (const CoefficientValue& value : content.coefficient_values) {
    v1::CoefficientValue& entry = *message.add_coefficient_values();
    entry.set_coefficient(std::string(InfoOf(value.coefficient).name));
    if (value.scope != CalibrationScope()) {
      entry.mutable_scope()->set_device_family(value.scope.device_family);
      entry.mutable_scope()->set_cluster(value.scope.cluster);
      if (value.scope.layer_kind.has_value()) {
        entry.mutable_scope()->set_layer_kind(static_cast<v1::LayerKind>(*value.scope.layer_kind));
      }
    }
    entry.set_value(value.value);
    entry.set_evidence_count(value.evidence_count);
    entry.set_fitted(value.fitted);
  }
  for (const ResidualClass& residuals : content.residual_classes) {
    v1::ResidualClass& entry = *message.add_residual_classes();
    const ResidualKey& key = residuals.key;
    entry.set_quantity(static_cast<v1::ResidualClass::Quantity>(key.quantity));
    if (key.confidence.has_value()) {
      entry.set_confidence(static_cast<v1::Confidence>(*key.confidence));
    }
    entry.set_device_family(key.device_family);
    if (key.tensor_parallel_reach.has_value()) {
      entry.set_tensor_parallel_reach(
          static_cast<v1::ResidualClass::TensorParallelReach>(*key.tensor_parallel_reach));
    }
    entry.set_residual_count(residuals.residual_count);
    for (double log_ratio : residuals.log_ratio) entry.add_log_ratio_quantiles(log_ratio);
  }
  return message;
}

std::string CalibrationDigest(const Calibration::Content& content) {
  const Calibration::Provenance& provenance = content.provenance;
  const std::optional<absl::Time> fit_time = TimeOf(provenance.fit_time);
  std::string text = absl::StrCat(
      "parplan calibration 1\n", CanonicalLine("agent", {StringWord(provenance.agent)}),
      CanonicalLine("fit_time", {fit_time.has_value() ? IntegerWord(absl::ToUnixNanos(*fit_time))
                                                      : kAbsentWord}),
      CanonicalLine("parent", {StringWord(provenance.parent_digest)}));
  for (const Calibration::Source& source : provenance.sources) {
    absl::StrAppend(
        &text, CanonicalLine("source", {StringWord(source.source), IntegerWord(source.row_count),
                                        StringWord(source.slice_rule)}));
  }
  for (const std::string& note : provenance.notes) {
    absl::StrAppend(&text, CanonicalLine("note", {StringWord(note)}));
  }
  std::vector<std::string> lines;
  for (const CoefficientValue& value : content.coefficient_values) {
    lines.push_back(CanonicalLine(
        "coefficient",
        {StringWord(InfoOf(value.coefficient).name), ScopeWords(value.scope),
         NumberWord(value.value), IntegerWord(value.evidence_count), FlagWord(value.fitted)}));
  }
  for (const ResidualClass& residuals : content.residual_classes) {
    lines.push_back(ClassLine(residuals));
  }
  return Sha256Hex(absl::StrCat(text, SortedLines(std::move(lines))));
}

}  // namespace parplan
