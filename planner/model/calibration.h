// The result of comparing predictions with measured runs: coefficients of the cost model, each for
// the scope in which it was fitted, and the residuals they leave, from which the ranges of
// predictions are made. docs/calibration.md describes how planner/calibrate makes one and what the
// ranges promise. proto/wire/calibration_wire.h reads one from files and messages.

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

// The scope of a coefficient's value; an empty member stands for all. If several values apply, the
// narrowest counts: layer kind before cluster before device family before global.
struct CalibrationScope {
  std::string device_family;
  std::string cluster;
  // Only with `kTimeFactor` and `kActivationFactor`.
  std::optional<LayerKind> layer_kind;
  friend auto operator<=>(const CalibrationScope&, const CalibrationScope&) = default;
};

// A coefficient's value in one scope. A calibration has at most one value for a coefficient in a
// scope.
struct CoefficientValue {
  Coefficient coefficient = Coefficient::kMatrixEfficiency;
  CalibrationScope scope;
  double value = 0.0;
  // Number of runs whose residuals depended on the coefficient when it was fitted.
  int64_t evidence_count = 0;
  // If false, the value was set by a person or is a prior.
  bool fitted = false;
  friend bool operator==(const CoefficientValue&, const CoefficientValue&) = default;
};

// The quantity that was predicted and measured. The numbers are those of
// proto/parplan/v1/calibration.proto.
enum class ResidualQuantity { kStepDuration = 1, kPeakMemory = 2 };
// Whether the ranks of every tensor-parallel group are on one node, also if nothing is split
// (`kWithinNode`), or those of some group are on several (`kAcrossNodes`).
enum class TensorParallelReach { kWithinNode = 1, kAcrossNodes = 2 };

// A class of predictions. A member that is absent or empty stands for all.
struct ResidualKey {
  ResidualQuantity quantity = ResidualQuantity::kStepDuration;
  // `Prediction::confidence`; the `DeviceDescription::device_family` of the devices; and where
  // tensor-parallel groups lie.
  std::optional<Confidence> confidence;
  std::string device_family;
  std::optional<TensorParallelReach> tensor_parallel_reach;
  friend auto operator<=>(const ResidualKey&, const ResidualKey&) = default;
};

// Returns `key` and the wider classes that replace it if it is unknown, in this order:
//
//   confidence, family, reach;  confidence, reach;  confidence, family;  confidence;
//   everything
//
// Some of them are equal if members of `key` are absent.
std::array<ResidualKey, 5> WiderKeys(const ResidualKey& key);

// The probabilities of a class's quantiles.
inline constexpr std::array<double, 9> kResidualProbabilities = {0.005, 0.01, 0.05, 0.25, 0.5,
                                                                 0.75,  0.95, 0.99, 0.995};
// Index of the median among them.
inline constexpr int kResidualMedian = 4;
// Largest ln(measured / predicted) of a class, either way: a factor of 148. A larger one is an
// error in units or in a run, and not of the model.
inline constexpr double kMaxLogRatio = 5.0;

// The distances of predictions of one class from measurements.
struct ResidualClass {
  ResidualKey key;
  // Number of measured runs; 0 for a prior.
  int64_t residual_count = 0;
  // Quantiles of ln(measured / predicted) at `kResidualProbabilities`, already corrected for the
  // number of runs.
  std::array<double, 9> log_ratio = {};
  friend bool operator==(const ResidualClass&, const ResidualClass&) = default;
};

// Number of runs from which a class is trusted alone; below it a range is the wider of the class's
// own and that of the next wider class. 30 is the usual size from which a sample's 5 % and 95 %
// quantiles are not just its extremes (30 * 0.05 = 1.5). Not measured.
inline constexpr int64_t kEnoughResiduals = 30;

// The range in which a measured value is expected, as factors of the predicted one: lower <= median
// <= upper, but 1 may lie outside if predictions of the class are off to one side.
struct RangeFactors {
  double lower = 1.0;
  double median = 1.0;
  double upper = 1.0;
  // Number of runs of the narrowest class that covers the prediction; 0 for a prior.
  int64_t residual_count = 0;
  // Description of that class: `estimated, ampere, tensor parallel within a node: 151 runs`.
  std::string basis;
};

// Ends of a range of step times.
struct StepRange {
  // Both as times, the predicted one times the factors of `RangeFactors`.
  Seconds lower;
  Seconds upper;
};

// A valid calibration. Immutable.
class Calibration {
 public:
  // One set of measured runs from which a fit was made.
  struct Source {
    // Name of the set, for example `vtrain-single`, or of a plan whose executions were used. Not
    // empty.
    std::string source;
    // Number of its runs that were used, at least 1.
    int64_t row_count = 0;
    // Rule by which rows were chosen; empty for all.
    std::string slice_rule;
    friend bool operator==(const Source&, const Source&) = default;
  };
  // Origin of a calibration.
  struct Provenance {
    // Program and release that made the fit.
    std::string agent;
    // Time of the fit in RFC 3339, from the caller; any other text means unknown.
    std::string fit_time;
    std::vector<Source> sources;
    // Digest of the calibration from which the fit started; empty for the priors.
    std::string parent_digest;
    // One sentence each for readers.
    std::vector<std::string> notes;
    friend bool operator==(const Provenance&, const Provenance&) = default;
  };
  // All that a calibration consists of, before `Create` checks it.
  struct Content {
    // Made by proto/wire/calibration_wire.h and opaque here; empty for priors.
    std::string digest;
    Provenance provenance;
    std::vector<CoefficientValue> coefficient_values;
    std::vector<ResidualClass> residual_classes;
    friend bool operator==(const Content&, const Content&) = default;
  };

  // Returns INVALID_ARGUMENT (SPEC_INVALID) naming the member, for example
  // `coefficient_values[2].value`, for a value outside its coefficient's bounds, two values of one
  // coefficient and scope, a layer kind with a coefficient that has none, quantiles that fall or
  // lie outside [-5, 5], two classes of one key, negative counts, an empty `agent`, a source
  // without a name or rows, texts that are too long, or too many entries. `digest` and the length
  // of notes are not checked.
  static absl::StatusOr<Calibration> Create(Content content);

  // Returns the priors of coefficients and ranges, from data sheets and literature, which hold if
  // nothing was calibrated. Its digest is empty. The reference lives as long as the program.
  static const std::shared_ptr<const Calibration>& BuiltIn();

  // Returns the coefficients for a device family and a cluster, each of which may be empty if
  // unknown. Later layers replace earlier ones: priors, global values, priors of the family, values
  // of the family, of the cluster, and of the family within the cluster. Values of one kind of
  // layer are left out. O(values) time.
  Coefficients Resolve(absl::string_view device_family, absl::string_view cluster) const;

  // Returns the same with `kTimeFactor` and `kActivationFactor` of one kind of layer, which replace
  // those of all kinds even if their scope is wider in cluster and family.
  Coefficients Resolve(absl::string_view device_family, absl::string_view cluster,
                       LayerKind layer_kind) const;

  // Return factors of the predicted value: the range that holds a measured value with probability
  // `coverage`, and the bound that one exceeds with probability `risk` at most. The class is the
  // first of `WiderKeys(key)` in this calibration or, if it has none of them, in `BuiltIn()`. With
  // fewer than `kEnoughResiduals` runs, the wider of its quantiles and those of the next class are
  // taken, and so on up to a class with enough runs or a prior, first in this calibration and then
  // in `BuiltIn()`, whose classes are all priors; the median stays. Between the nine quantiles, and
  // beyond them, ln(ratio) is linear in the normal score of the probability. Call them once per
  // problem, not per plan.
  //
  // REQUIRES: 0 < coverage < 1; 0 < risk <= 0.5. Aborts otherwise, also for NaN.
  RangeFactors Range(const ResidualKey& key, double coverage = 0.9) const;
  // The bound is at least 1: predictions that were too high are no reason to exceed memory.
  double UpperFactor(const ResidualKey& key, double risk) const;

  // The content that `Create` accepted, unchanged.
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
