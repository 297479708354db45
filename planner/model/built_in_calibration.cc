// The built-in calibration, which holds if nothing was calibrated. Values of coefficients are the
// priors of coefficients.cc; this file has the ranges.
//
// They are guesses from errors of other programs (docs/papers.md 14), meant to be wide rather than
// tight. For steps, simulators that were given measured layers are off by 4 to 9 % on average
// (Calculon on Korthikanti's table 5, Sailor on GH200; both run for this project), analytic ones by
// 10 to 40 % (Calculon on SC21 and vTrain, run for this project; vTrain's own multi-node 15 %, by
// its authors); two laboratories that run the same job differ by 2 to 6.5 %. For memory, simulators
// with profiles are off by 6 % on average (Sailor). Our own estimates of the fitted half of
// Megatron's test runs are off by 3 % between their quartiles, of which 1.5 times is taken; one run
// in ten of that half is off by much more, because of settings that its arguments do not contain.
// For a normal distribution a mean error of 8 % is a standard deviation of 10 %; tails are
// taken 1.5 times as heavy.

#include <vector>

#include "base/check.h"
#include "planner/model/calibration.h"

namespace parplan {
namespace {

// Returns a class of predictions whose ln(ratio) has the standard deviation `deviation` near the
// median and heavier tails than a normal distribution.
ResidualClass Prior(ResidualKey key, double deviation) {
  // Scores at kResidualProbabilities: those of a normal distribution between the quartiles, and
  // beyond them those of a Student t distribution with five degrees of freedom.
  constexpr std::array<double, 9> kScores = {-4.032, -3.365, -2.015, -0.727, 0.0,
                                             0.727,  2.015,  3.365,  4.032};
  ResidualClass residuals{.key = std::move(key)};
  for (int i = 0; i < 9; ++i) residuals.log_ratio[i] = kScores[i] * deviation;
  return residuals;
}

}  // namespace

const std::shared_ptr<const Calibration>& Calibration::BuiltIn() {
  static const auto& built_in = *new std::shared_ptr<const Calibration>([] {
    constexpr auto kStep = ResidualQuantity::kStepDuration;
    constexpr auto kMemory = ResidualQuantity::kPeakMemory;
    constexpr auto kWithin = TensorParallelReach::kWithinNode;
    constexpr auto kAcross = TensorParallelReach::kAcrossNodes;
    Content content;
    content.provenance.agent = "priors";
    content.provenance.notes = {"Ranges are priors from published errors of other simulators."};
    content.residual_classes = {
        Prior({kStep, Confidence::kMeasured, "", kWithin}, 0.06),
        Prior({kStep, Confidence::kMeasured, "", kAcross}, 0.09),
        Prior({kStep, Confidence::kMeasured, "", {}}, 0.08),
        Prior({kStep, Confidence::kMixed, "", kWithin}, 0.10),
        Prior({kStep, Confidence::kMixed, "", kAcross}, 0.14),
        Prior({kStep, Confidence::kMixed, "", {}}, 0.12),
        Prior({kStep, Confidence::kEstimated, "", kWithin}, 0.13),
        Prior({kStep, Confidence::kEstimated, "", kAcross}, 0.18),
        Prior({kStep, Confidence::kEstimated, "", {}}, 0.15),
        Prior({kStep, {}, "", {}}, 0.15),
        Prior({kMemory, Confidence::kMeasured, "", {}}, 0.03),
        Prior({kMemory, Confidence::kMixed, "", {}}, 0.04),
        Prior({kMemory, Confidence::kEstimated, "", {}}, 0.045),
        Prior({kMemory, {}, "", {}}, 0.045),
    };
    absl::StatusOr<Calibration> calibration = Create(std::move(content));
    PARPLAN_CHECK(calibration.ok());
    return std::make_shared<const Calibration>(*std::move(calibration));
  }());
  return built_in;
}

}  // namespace parplan
