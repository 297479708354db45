#include "planner/calibrate/fit_coefficients.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace parplan {
namespace {

// A prior at a bound is moved inside by this share of the span between bounds: the coordinate of a
// bound is infinite.
constexpr double kInset = 1e-4;
// Step of the differences, in prior widths: coarse enough to look over kinks such
// as whole bytes and whole waves of tiles.
constexpr double kDifferenceStep = 0.02;
// A fit has converged if no coordinate moves by as much. Not measured for other values.
constexpr double kSmallestStep = 1e-5;
// Derivative of a residual by the coordinate of a parameter from which its run counts as evidence
// for the parameter. Not measured for other values.
constexpr double kNoticeableChange = 1e-3;

// The fit works on a coordinate of every parameter: ln(value), bent near the bounds so that any
// coordinate is a value within them. The bend begins at this distance from a bound, in ln(value),
// and at most at a quarter of the way between the bounds.
double BendOf(const FitParameter& parameter) {
  const double span = parameter.lowest > 0.0 ? std::log(parameter.highest / parameter.lowest)
                                             : std::numeric_limits<double>::infinity();
  return std::min(parameter.prior_width, 0.25 * span);
}

double Coordinate(const FitParameter& parameter, double value) {
  const double inset = kInset * (parameter.highest - parameter.lowest);
  const double logarithm =
      std::log(std::clamp(value, parameter.lowest + inset, parameter.highest - inset));
  const double bend = BendOf(parameter);
  const double below = std::log(parameter.highest) - logarithm;
  if (below < bend) return std::log(parameter.highest) - bend - bend * std::log(below / bend);
  const double above = logarithm - std::log(parameter.lowest);
  if (above < bend) return std::log(parameter.lowest) + bend + bend * std::log(above / bend);
  return logarithm;
}

double ValueAt(const FitParameter& parameter, double coordinate) {
  const double bend = BendOf(parameter);
  const double high = std::log(parameter.highest);
  if (coordinate > high - bend) {
    return parameter.highest * std::exp(-bend * std::exp((high - bend - coordinate) / bend));
  }
  const double low = std::log(parameter.lowest);
  if (coordinate < low + bend) {
    return parameter.lowest * std::exp(bend * std::exp((coordinate - low - bend) / bend));
  }
  return std::exp(coordinate);
}

// Returns d ln(value) / d coordinate.
double Slope(const FitParameter& parameter, double value) {
  const double bend = BendOf(parameter);
  const double logarithm = std::log(value);
  return std::min({1.0, (std::log(parameter.highest) - logarithm) / bend,
                   (logarithm - std::log(parameter.lowest)) / bend});
}

absl::Status CheckParameter(absl::Span<const FitParameter> parameters, size_t index) {
  const FitParameter& parameter = parameters[index];
  const std::string field = absl::StrCat("parameters[", index, "]");
  if (!std::isfinite(parameter.lowest) || !std::isfinite(parameter.highest) ||
      !(0.0 <= parameter.lowest && parameter.lowest < parameter.highest)) {
    return FieldError(Reason::kSpecInvalid, field + ".lowest",
                      "must be at least 0 and below `highest`");
  }
  if (!(parameter.prior >= parameter.lowest && parameter.prior <= parameter.highest)) {
    return FieldError(Reason::kSpecInvalid, field + ".prior", "must be within the bounds");
  }
  if (!(parameter.prior_width > 0.0 && std::isfinite(parameter.prior_width))) {
    return FieldError(Reason::kSpecInvalid, field + ".prior_width", "must be above 0");
  }
  if (parameter.parent < 0) return absl::OkStatus();
  if (parameter.parent >= static_cast<int>(index)) {
    return FieldError(Reason::kSpecInvalid, field + ".parent", "must come before");
  }
  const FitParameter& parent = parameters[parameter.parent];
  if (parent.coefficient != parameter.coefficient || parent.lowest != parameter.lowest ||
      parent.highest != parameter.highest) {
    return FieldError(Reason::kSpecInvalid, field + ".parent",
                      "must be the same coefficient within the same bounds");
  }
  return absl::OkStatus();
}

// Replaces a symmetric, positive definite matrix, stored row by row, by its Cholesky factor below
// the diagonal. Returns false if rounding made it indefinite.
bool Factorize(std::vector<double>& matrix, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      double sum = matrix[i * size + j];
      for (size_t k = 0; k < j; ++k) sum -= matrix[i * size + k] * matrix[j * size + k];
      if (i != j) {
        matrix[i * size + j] = sum / matrix[j * size + j];
      } else if (sum > 0.0) {
        matrix[i * size + i] = std::sqrt(sum);
      } else {
        return false;
      }
    }
  }
  return true;
}

std::vector<double> Solve(const std::vector<double>& factor, std::vector<double> right) {
  const size_t size = right.size();
  for (size_t i = 0; i < size; ++i) {
    for (size_t k = 0; k < i; ++k) right[i] -= factor[i * size + k] * right[k];
    right[i] /= factor[i * size + i];
  }
  for (size_t i = size; i-- > 0;) {
    for (size_t k = i + 1; k < size; ++k) right[i] -= factor[k * size + i] * right[k];
    right[i] /= factor[i * size + i];
  }
  return right;
}

// The problem in the variables that are fitted: the distance of each parameter from the place that
// its parent and its prior give it, in prior widths.
class Problem {
 public:
  Problem(absl::Span<const FitParameter> parameters, int64_t run_count,
          const ResidualFunction& residuals, const FitOptions& options)
      : parameters_(parameters),
        run_count_(static_cast<size_t>(run_count)),
        residual_function_(residuals),
        options_(options) {
    for (const FitParameter& parameter : parameters) {
      prior_coordinates_.push_back(Coordinate(parameter, parameter.prior));
    }
  }

  std::vector<double> ValuesAt(const std::vector<double>& widths_away) const {
    std::vector<double> coordinates(parameters_.size());
    std::vector<double> values(parameters_.size());
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const int parent = parameters_[i].parent;
      coordinates[i] = prior_coordinates_[i] + widths_away[i] * parameters_[i].prior_width;
      if (parent >= 0) coordinates[i] += coordinates[parent] - prior_coordinates_[parent];
      values[i] = ValueAt(parameters_[i], coordinates[i]);
    }
    return values;
  }

  std::vector<double> ResidualsAt(const std::vector<double>& widths_away) const {
    std::vector<double> residuals(run_count_, std::numeric_limits<double>::quiet_NaN());
    if (run_count_ > 0) residual_function_(ValuesAt(widths_away), absl::MakeSpan(residuals));
    return residuals;
  }

  // Returns twice the negative logarithm of the posterior, without constants. Infinite if a run of
  // `used` cannot be predicted.
  double Objective(const std::vector<double>& widths_away, const std::vector<double>& residuals,
                   const std::vector<bool>& used) const {
    double sum = 0.0;
    for (double widths : widths_away) sum += widths * widths;
    const double threshold = options_.outlier_threshold;
    for (size_t i = 0; i < run_count_; ++i) {
      if (!used[i]) continue;
      if (!std::isfinite(residuals[i])) return std::numeric_limits<double>::infinity();
      const double deviations = std::abs(residuals[i]) / options_.residual_deviation;
      sum += deviations <= threshold ? deviations * deviations
                                     : threshold * (2.0 * deviations - threshold);
    }
    return sum;
  }

  // Returns the weight of a residual as a share of its weight in least squares.
  double WeightOf(double residual) const {
    const double deviations = std::abs(residual) / options_.residual_deviation;
    return deviations <= options_.outlier_threshold ? 1.0 : options_.outlier_threshold / deviations;
  }

  // [run][parameter]; 0 for runs not used.
  std::vector<double> JacobianAt(const std::vector<double>& widths_away,
                                 const std::vector<bool>& used) const {
    const size_t count = parameters_.size();
    std::vector<double> jacobian(run_count_ * count, 0.0);
    for (size_t j = 0; j < count; ++j) {
      std::vector<double> moved = widths_away;
      moved[j] = widths_away[j] + kDifferenceStep;
      const std::vector<double> above = ResidualsAt(moved);
      moved[j] = widths_away[j] - kDifferenceStep;
      const std::vector<double> below = ResidualsAt(moved);
      for (size_t i = 0; i < run_count_; ++i) {
        const double slope = (above[i] - below[i]) / (2.0 * kDifferenceStep);
        if (used[i] && std::isfinite(slope)) jacobian[i * count + j] = slope;
      }
    }
    return jacobian;
  }

  // Returns the width of ln(value) at `value` that corresponds to `widths` prior widths.
  double WidthOf(size_t index, double value, double widths) const {
    return widths * parameters_[index].prior_width * Slope(parameters_[index], value);
  }

  double residual_deviation() const { return options_.residual_deviation; }

 private:
  absl::Span<const FitParameter> parameters_;
  size_t run_count_;
  const ResidualFunction& residual_function_;
  const FitOptions& options_;
  std::vector<double> prior_coordinates_;
};

// The quadratic approximation of the objective: curvature (row by row) and half the gradient.
struct Quadratic {
  std::vector<double> curvature;
  std::vector<double> gradient;
};

Quadratic QuadraticAt(const Problem& problem, const std::vector<double>& widths_away,
                      const std::vector<double>& residuals, const std::vector<double>& jacobian) {
  const size_t count = widths_away.size();
  const double scale = 1.0 / (problem.residual_deviation() * problem.residual_deviation());
  Quadratic quadratic{std::vector<double>(count * count, 0.0), widths_away};
  for (size_t j = 0; j < count; ++j) quadratic.curvature[j * count + j] = 1.0;
  for (size_t i = 0; i < residuals.size(); ++i) {
    if (!std::isfinite(residuals[i])) continue;
    const double weight = problem.WeightOf(residuals[i]) * scale;
    const double* slopes = &jacobian[i * count];
    for (size_t j = 0; j < count; ++j) {
      quadratic.gradient[j] += weight * slopes[j] * residuals[i];
      for (size_t k = 0; k < count; ++k) {
        quadratic.curvature[j * count + k] += weight * slopes[j] * slopes[k];
      }
    }
  }
  return quadratic;
}

}  // namespace

absl::StatusOr<Fit> FitCoefficients(absl::Span<const FitParameter> parameters, int64_t run_count,
                                    const ResidualFunction& residual_function,
                                    const FitOptions& options) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    PARPLAN_RETURN_IF_ERROR(CheckParameter(parameters, i));
  }
  const size_t count = parameters.size();
  const Problem problem(parameters, run_count, residual_function, options);
  std::vector<double> widths_away(count, 0.0);
  Fit fit;
  fit.residuals = problem.ResidualsAt(widths_away);
  std::vector<bool> used(fit.residuals.size());
  std::transform(fit.residuals.begin(), fit.residuals.end(), used.begin(),
                 [](double residual) { return std::isfinite(residual); });

  double objective = problem.Objective(widths_away, fit.residuals, used);
  std::vector<double> jacobian = problem.JacobianAt(widths_away, used);
  double damping = 1e-3;
  while (!fit.converged && fit.iteration_count < options.max_iteration_count) {
    ++fit.iteration_count;
    const Quadratic quadratic = QuadraticAt(problem, widths_away, fit.residuals, jacobian);
    bool moved = false;
    while (!moved && !fit.converged) {
      std::vector<double> factor = quadratic.curvature;
      for (size_t j = 0; j < count; ++j) factor[j * count + j] *= 1.0 + damping;
      std::vector<double> step(count, 0.0);
      if (Factorize(factor, count)) step = Solve(factor, quadratic.gradient);
      double largest = 0.0;
      std::vector<double> next = widths_away;
      for (size_t j = 0; j < count; ++j) {
        next[j] -= step[j];
        largest = std::max(largest, std::abs(step[j]));
      }
      // Damping may also have made the step this small.
      if (largest < kSmallestStep) {
        fit.converged = true;
        break;
      }
      const std::vector<double> residuals = problem.ResidualsAt(next);
      const double reached = problem.Objective(next, residuals, used);
      if (reached < objective) {
        moved = true;
        fit.converged = objective - reached < 1e-10 * objective;
        widths_away = next;
        fit.residuals = residuals;
        objective = reached;
        damping = std::max(damping * 0.1, 1e-9);
      } else {
        damping *= 10.0;
      }
    }
    if (moved) jacobian = problem.JacobianAt(widths_away, used);
  }

  Quadratic quadratic = QuadraticAt(problem, widths_away, fit.residuals, jacobian);
  const bool invertible = Factorize(quadratic.curvature, count);
  const std::vector<double> values = problem.ValuesAt(widths_away);
  for (size_t j = 0; j < count; ++j) {
    FittedParameter fitted;
    fitted.value = values[j];
    double variance = 1.0;
    if (invertible) {
      std::vector<double> unit(count, 0.0);
      unit[j] = 1.0;
      variance = Solve(quadratic.curvature, std::move(unit))[j];
    }
    fitted.width = problem.WidthOf(j, values[j], std::sqrt(variance));
    for (size_t i = 0; i < fit.residuals.size(); ++i) {
      if (std::abs(jacobian[i * count + j]) >= kNoticeableChange) ++fitted.evidence_count;
    }
    fit.parameters.push_back(fitted);
  }
  return fit;
}

}  // namespace parplan
