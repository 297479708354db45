// What was learned from comparing predictions with measured runs: coefficients of
// the cost model, each for the scope it was fitted in, and the residuals they
// leave, which make the ranges of predictions. docs/calibration.md tells how one is
// made (planner/calibrate/) and what the ranges promise.

#ifndef PARPLAN_PLANNER_MODEL_CALIBRATION_H_
#define PARPLAN_PLANNER_MODEL_CALIBRATION_H_

#include <array>
#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/units.h"
#include "planner/model/coefficients.h"
#include "planner/model/model_spec.h"
#include "planner/model/plan.h"

namespace parplan {

// What a coefficient's value holds for; an empty member stands for all. Of several
// values that hold for the same thing the narrowest counts: layer kind before
// cluster before device family before global.
struct CalibrationScope {
  std::string device_family;
  std::string cluster;
  // Only with `kTimeFactor` and `kActivationFactor`.
  std::optional<LayerKind> layer_kind;
  friend auto operator<=>(const CalibrationScope&, const CalibrationScope&) = default;
};

struct CoefficientValue {
  Coefficient coefficient = Coefficient::kMatrixEfficiency;
  CalibrationScope scope;
  double value = 0.0;
  // Runs on whose residuals the coefficient had a say when it was fitted.
  int64_t evidence_count = 0;
  // Otherwise set by a person, or a prior.
  bool fitted = false;
  friend bool operator==(const CoefficientValue&, const CoefficientValue&) = default;
};

// Values as in proto/parplan/v1/calibration.proto.
enum class ResidualQuantity { kStepDuration = 1, kPeakMemory = 2 };
enum class TensorParallelReach { kWithinNode = 1, kAcrossNodes = 2 };

// A kind of prediction. A member that is absent or empty stands for all.
struct ResidualKey {
  ResidualQuantity quantity = ResidualQuantity::kStepDuration;
  std::optional<Confidence> confidence;
  std::string device_family;
  std::optional<TensorParallelReach> tensor_parallel_reach;
  friend auto operator<=>(const ResidualKey&, const ResidualKey&) = default;
};

// `key` and the wider ones that speak for it where it is not known, in this order:
//
//   confidence, family, reach;  confidence, reach;  confidence, family;  confidence;
//   everything
//
// Some are equal when members of `key` are absent.
std::array<ResidualKey, 5> WiderKeys(const ResidualKey& key);

// The probabilities of a class's quantiles.
inline constexpr std::array<double, 9> kResidualProbabilities = {0.005, 0.01, 0.05, 0.25, 0.5,
                                                                 0.75,  0.95, 0.99, 0.995};

// How far predictions of one kind were from what was measured.
struct ResidualClass {
  ResidualKey key;
  // Measured runs; 0 for a prior.
  int64_t residual_count = 0;
  // ln(measured / predicted) at `kResidualProbabilities`, corrected for the number
  // of runs where the class was made.
  std::array<double, 9> log_ratio = {};
  friend bool operator==(const ResidualClass&, const ResidualClass&) = default;
};

// Classes with fewer runs are not trusted alone: ranges are then the wider of
// theirs and the next wider class's.
inline constexpr int64_t kEnoughResiduals = 30;

// Where a measured value is expected, as factors of the predicted one.
struct RangeFactors {
  double lower = 1.0;
  double median = 1.0;
  double upper = 1.0;
  // Runs behind the narrowest class that knew of the prediction; 0 for a prior.
  int64_t residual_count = 0;
  // Which class that was, for people: `estimated, ampere, tensor parallel within a
  // node: 151 runs`.
  std::string basis;
};

// Ends of a range of times, and of sizes.
struct StepRange {
  Seconds lower;
  Seconds upper;
};
struct PeakMemoryRange {
  Bytes lower;
  Bytes upper;
};

// Immutable.
class Calibration {
 public:
  struct Source {
    std::string source;
    int64_t row_count = 0;
    // How rows were chosen; empty for all.
    std::string slice_rule;
    friend bool operator==(const Source&, const Source&) = default;
  };
  struct Provenance {
    // Program and release that fitted.
    std::string agent;
    // RFC 3339, as the caller says; any other text is taken for unknown.
    std::string fit_time;
    std::vector<Source> sources;
    // Of the calibration this one began with; empty for the priors.
    std::string parent_digest;
    std::vector<std::string> notes;
    friend bool operator==(const Provenance&, const Provenance&) = default;
  };
  struct Content {
    // Made by proto/wire/calibration_wire.h; empty for priors. Not looked at.
    std::string digest;
    Provenance provenance;
    std::vector<CoefficientValue> coefficient_values;
    std::vector<ResidualClass> residual_classes;
    friend bool operator==(const Content&, const Content&) = default;
  };

  // INVALID_ARGUMENT (SPEC_INVALID) naming the member, for example
  // `coefficient_values[2].value`, for: a value outside its coefficient's bounds;
  // two values of one coefficient and scope; a layer kind with a coefficient that
  // has none; quantiles that fall or lie outside [-5, 5]; two classes of one key;
  // negative counts; too many entries.
  static absl::StatusOr<Calibration> Create(Content content);

  // Priors of coefficients and of ranges, from data sheets and literature: what
  // holds where nothing was calibrated. Its digest is empty.
  static const std::shared_ptr<const Calibration>& BuiltIn();

  // Priors, under global values, under priors of the device family, under values of
  // the family, the cluster, and the family within the cluster. `device_family` and
  // `cluster` may be empty for an unknown one.
  Coefficients Resolve(absl::string_view device_family, absl::string_view cluster) const;

  // The same with `kTimeFactor` and `kActivationFactor` of one kind of layer.
  Coefficients Resolve(absl::string_view device_family, absl::string_view cluster,
                       LayerKind layer_kind) const;

  // Factors of the range that holds a measured value with a probability of
  // `coverage`, or exceeds it with at most `risk`. The class is the first of
  // `WiderKeys(key)` that this calibration has, or `BuiltIn()`; one with fewer than
  // `kEnoughResiduals` runs takes the wider of its own quantiles and the next
  // class's. Between the nine quantiles, and beyond them, ln(ratio) is linear in the
  // normal score of the probability.
  //
  // REQUIRES: 0 < coverage < 1; 0 < risk <= 0.5. Meant to be called once a
  // problem, not once a plan.
  RangeFactors Range(const ResidualKey& key, double coverage = 0.9) const;
  // At least 1: that predictions were too high is no leave to go beyond them.
  double UpperFactor(const ResidualKey& key, double risk) const;

  // The same, applied. `key.quantity` is set by the function.
  StepRange RangeOfStep(ResidualKey key, Seconds predicted, double coverage = 0.9) const;
  PeakMemoryRange RangeOfMemory(ResidualKey key, Bytes predicted, double risk) const;

  const Content& content() const { return content_; }
  friend bool operator==(const Calibration&, const Calibration&) = default;

 private:
  explicit Calibration(Content content) : content_(std::move(content)) {}
  Coefficients ResolveScopes(absl::string_view device_family, absl::string_view cluster,
                             std::optional<LayerKind> layer_kind) const;
  Content content_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_CALIBRATION_H_
