#include "planner/cost/measured_layer_memory.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace parplan {
namespace {

// Largest size after scaling, which fits `Bytes`. `CostModel::Create` refuses smaller sums already.
constexpr double kLargestBytes = 0x1p60;

// Rounds up to a whole byte unless the fraction is only an error of rounding.
Bytes Rounded(double bytes) {
  bytes = std::min(bytes, kLargestBytes);
  const double whole = std::round(bytes);
  return Bytes::Ceil(std::abs(bytes - whole) < 1e-12 * bytes ? whole : bytes);
}

// Activations measured at one degree, by sequence length.
using ActivationsByLength = std::map<int, double>;

bool Covers(const ActivationsByLength& activations, int length) {
  return activations.begin()->first <= length && length <= activations.rbegin()->first;
}

int NearestLength(const ActivationsByLength& activations, int wanted) {
  int nearest = activations.begin()->first;
  for (const auto& [length, bytes] : activations) {
    if (std::abs(length - wanted) <= std::abs(nearest - wanted)) nearest = length;
  }
  return nearest;
}

// Returns the value between two lengths: a straight line in logarithms.
double Interpolated(const ActivationsByLength& activations, int wanted) {
  const auto above = activations.lower_bound(wanted);
  if (above->first == wanted) return above->second;
  const auto below = std::prev(above);
  const double weight = std::log(static_cast<double>(wanted) / below->first) /
                        std::log(static_cast<double>(above->first) / below->first);
  if (below->second <= 0.0 || above->second <= 0.0) {
    return below->second + weight * (above->second - below->second);
  }
  return std::pow(below->second, 1.0 - weight) * std::pow(above->second, weight);
}

// Returns the value outside the lengths: a s + b s^2 through the nearest two, a and b at least 0.
double Extended(const ActivationsByLength& activations, int wanted) {
  const bool above = wanted > activations.rbegin()->first;
  const auto nearest = above ? std::prev(activations.end()) : activations.begin();
  const double length = nearest->first;
  const double per_token = nearest->second / length;
  double quadratic = 0.0;
  if (activations.size() > 1) {
    const auto next = above ? std::prev(nearest) : std::next(nearest);
    const double next_length = next->first;
    quadratic = (per_token - next->second / next_length) / (length - next_length);
    quadratic = std::clamp(quadratic, 0.0, per_token / length);
  }
  const double linear = per_token - quadratic * length;
  return (linear + quadratic * wanted) * wanted;
}

// Returns the value at `degree` of a + b / degree through two points.
double SplitLine(double at_low, int low, double at_high, int high, int degree) {
  const double low_share = 1.0 / low;
  const double high_share = 1.0 / high;
  return at_high + (at_low - at_high) * (1.0 / degree - high_share) / (low_share - high_share);
}

}  // namespace

class MeasuredLayerMemory::Resolver {
 public:
  Resolver(const LayerDefinition& definition, Precision precision,
           const std::vector<LayerMemoryPoint>& memories, const LayerNeeds& needs,
           const LayerEstimator* estimator, ResolutionNotes& notes, MeasuredLayerMemory& memory)
      : definition_(definition),
        precision_(precision),
        needs_(needs),
        notes_(notes),
        memory_(memory),
        layer_(absl::StrCat("layer `", definition.layer_definition_id, "`")) {
    if (estimator != nullptr && needs.allow_estimates) estimate_ = estimator->memory;
    memory_.sequence_parallel_ = SequenceParallel(memories, needs);
    for (const LayerMemoryPoint& point : memories) {
      // At degree 1 sequence parallelism splits nothing, so either kind of point applies; of two
      // the one with sequence parallelism comes last and stays.
      if (point.tensor_parallel_degree > 1 &&
          point.sequence_parallel != memory_.sequence_parallel_) {
        continue;
      }
      points_[point.tensor_parallel_degree][point.sequence_length] = &point;
    }
    for (const auto& [degree, by_length] : points_) {
      for (const auto& [length, point] : by_length) {
        activations_[degree][length] = point->activation_per_sample.as_double();
      }
    }
  }

  void Resolve();

 private:
  // Sizes at one measured degree and the wanted length.
  struct Sizes {
    double parameter_count = 0.0;
    double activation = 0.0;
    std::optional<double> checkpoint;
  };

  static bool SequenceParallel(const std::vector<LayerMemoryPoint>& memories,
                               const LayerNeeds& needs) {
    bool any_split = false;
    for (const LayerMemoryPoint& point : memories) {
      if (point.sequence_parallel) return true;
      any_split = any_split || point.tensor_parallel_degree > 1;
    }
    return !any_split && needs.sequence_parallel;
  }
  LayerMemoryEstimate Estimate(int degree, int sequence_length) const {
    return estimate_({degree, sequence_length, memory_.sequence_parallel_ && degree > 1});
  }
  void Missing(const std::string& what) {
    notes_.missing.push_back(absl::StrCat(layer_, ": ", what));
  }
  // Adds a note once per layer.
  void Note(const std::string& what) {
    std::string sentence = absl::StrCat(layer_, ": ", what);
    if (std::find(notes_.estimated.begin(), notes_.estimated.end(), sentence) ==
        notes_.estimated.end()) {
      notes_.estimated.push_back(std::move(sentence));
    }
  }

  double ActivationAt(int degree);
  Sizes SizesAt(int degree);
  std::optional<Sizes> Fill(int degree);
  Sizes FillBeyond(int degree, bool above);

  const LayerDefinition& definition_;
  const Precision precision_;
  const LayerNeeds& needs_;
  ResolutionNotes& notes_;
  MeasuredLayerMemory& memory_;
  const std::string layer_;
  std::function<LayerMemoryEstimate(const EstimateShape&)> estimate_;
  // [degree][sequence length]
  std::map<int, std::map<int, const LayerMemoryPoint*>> points_;
  std::map<int, ActivationsByLength> activations_;
};

double MeasuredLayerMemory::Resolver::ActivationAt(int degree) {
  const int wanted = definition_.sequence_length;
  const ActivationsByLength& own = activations_.at(degree);
  if (Covers(own, wanted)) {
    if (!own.contains(wanted)) {
      Note(absl::StrCat("activations at sequence_length ", wanted, " interpolated between ",
                        std::prev(own.lower_bound(wanted))->first, " and ",
                        own.lower_bound(wanted)->first));
    }
    return Interpolated(own, wanted);
  }
  const int nearest = NearestLength(own, wanted);
  // The nearest degree that was measured around the length shows the growth.
  const ActivationsByLength* shown = nullptr;
  double distance = 0.0;
  for (const auto& [other, activations] : activations_) {
    if (!Covers(activations, wanted)) continue;
    const double away = std::abs(std::log(static_cast<double>(other) / degree));
    if (shown == nullptr || away < distance) {
      shown = &activations;
      distance = away;
    }
  }
  const auto from = shown == nullptr          ? 0.0
                    : Covers(*shown, nearest) ? Interpolated(*shown, nearest)
                                              : Extended(*shown, nearest);
  if (from > 0.0) {
    Note(absl::StrCat("activations at sequence_length ", wanted, " and tensor_parallel_degree ",
                      degree, " extended from ", nearest, " as at another degree"));
    return own.at(nearest) * (Interpolated(*shown, wanted) / from);
  }
  if (estimate_ != nullptr) {
    const double estimated = Estimate(degree, nearest).activation_per_sample.as_double();
    if (estimated > 0.0) {
      Note(absl::StrCat("activations at sequence_length ", wanted, " estimated in their ratio to ",
                        nearest));
      return own.at(nearest) *
             (Estimate(degree, wanted).activation_per_sample.as_double() / estimated);
    }
  }
  Note(absl::StrCat("activations at sequence_length ", wanted, " extended from ", nearest));
  return Extended(own, wanted);
}

MeasuredLayerMemory::Resolver::Sizes MeasuredLayerMemory::Resolver::SizesAt(int degree) {
  const int wanted = definition_.sequence_length;
  const int nearest = NearestLength(activations_.at(degree), wanted);
  const LayerMemoryPoint& point = *points_.at(degree).at(nearest);
  Sizes sizes;
  sizes.parameter_count = static_cast<double>(point.parameter_count);
  sizes.activation = ActivationAt(degree);
  if (point.checkpoint_per_sample.has_value()) {
    sizes.checkpoint =
        point.checkpoint_per_sample->as_double() * (static_cast<double>(wanted) / nearest);
  }
  return sizes;
}

// Returns the sizes at a degree outside the measured ones.
MeasuredLayerMemory::Resolver::Sizes MeasuredLayerMemory::Resolver::FillBeyond(int degree,
                                                                               bool above) {
  const int nearest = above ? activations_.rbegin()->first : activations_.begin()->first;
  const double ratio = static_cast<double>(nearest) / degree;
  const bool splits_all = memory_.sequence_parallel_;
  Sizes sizes = SizesAt(nearest);
  if (sizes.checkpoint.has_value() && splits_all) *sizes.checkpoint *= ratio;
  const double split_perfectly = sizes.activation * ratio;
  if (estimate_ != nullptr) {
    const int length = definition_.sequence_length;
    const LayerMemoryEstimate from = Estimate(nearest, length);
    const LayerMemoryEstimate to = Estimate(degree, length);
    if (from.activation_per_sample > Bytes() && from.parameter_count > 0) {
      Note(absl::StrCat("memory at tensor_parallel_degree ", degree, " estimated in its ratio to ",
                        nearest));
      sizes.activation *=
          to.activation_per_sample.as_double() / from.activation_per_sample.as_double();
      if (above) sizes.activation = std::max(sizes.activation, split_perfectly);
      sizes.parameter_count *=
          static_cast<double>(to.parameter_count) / static_cast<double>(from.parameter_count);
      return sizes;
    }
  }
  Note(absl::StrCat("memory at tensor_parallel_degree ", degree,
                    " extended from tensor_parallel_degree ", nearest));
  sizes.parameter_count *= ratio;
  if (splits_all || !above) {
    sizes.activation = split_perfectly;
  } else if (activations_.size() > 1) {
    const int before = std::prev(activations_.end(), 2)->first;
    // Noise may make either part of the line negative.
    const double line = SplitLine(ActivationAt(before), before, sizes.activation, nearest, degree);
    sizes.activation = std::clamp(line, split_perfectly, sizes.activation);
  }
  return sizes;
}

// Returns the sizes at `degree`, or nothing if they are missing.
std::optional<MeasuredLayerMemory::Resolver::Sizes> MeasuredLayerMemory::Resolver::Fill(
    int degree) {
  const auto above = activations_.lower_bound(degree);
  if (above != activations_.end() && above->first == degree) return SizesAt(degree);
  if (above != activations_.end() && above != activations_.begin()) {
    const int low = std::prev(above)->first;
    const int high = above->first;
    Note(absl::StrCat("memory at tensor_parallel_degree ", degree, " interpolated between ", low,
                      " and ", high));
    Sizes sizes = SizesAt(low);
    const Sizes beyond = SizesAt(high);
    sizes.parameter_count =
        SplitLine(sizes.parameter_count, low, beyond.parameter_count, high, degree);
    sizes.activation = SplitLine(sizes.activation, low, beyond.activation, high, degree);
    if (sizes.checkpoint.has_value() && memory_.sequence_parallel_) {
      *sizes.checkpoint *= static_cast<double>(low) / degree;
    }
    return sizes;
  }
  if (!needs_.allow_estimates) {
    Missing(absl::StrCat("memory at tensor_parallel_degree ", degree));
    return std::nullopt;
  }
  return FillBeyond(degree, above == activations_.end());
}

void MeasuredLayerMemory::Resolver::Resolve() {
  const int wanted = definition_.sequence_length;
  if (activations_.empty()) {
    if (estimate_ == nullptr) return Missing("memory at any tensor_parallel_degree");
    for (const int degree : needs_.tensor_parallel_degrees) {
      const LayerMemoryEstimate estimate = Estimate(degree, wanted);
      memory_.degrees_.push_back({degree, estimate.parameter_count, estimate.activation_per_sample,
                                  estimate.checkpoint_per_sample});
    }
    return Note("memory estimated, none measured");
  }
  const bool covered = std::any_of(activations_.begin(), activations_.end(),
                                   [wanted](const auto& at) { return Covers(at.second, wanted); });
  if (!covered && !needs_.allow_estimates) {
    return Missing(absl::StrCat("memory at sequence_length ", wanted));
  }
  bool checkpoint_assumed = false;
  for (const int degree : needs_.tensor_parallel_degrees) {
    const std::optional<Sizes> sizes = Fill(degree);
    if (!sizes.has_value()) continue;
    AtDegree at;
    at.tensor_parallel_degree = degree;
    at.parameter_count = Rounded(sizes->parameter_count).count();
    at.activation_per_sample = Rounded(sizes->activation);
    if (sizes->checkpoint.has_value()) {
      at.checkpoint_per_sample = Rounded(*sizes->checkpoint);
    } else {
      // The input of the layer: one row of the residual stream per token.
      checkpoint_assumed = true;
      const double input = static_cast<double>(wanted) * definition_.hidden_size *
                           static_cast<double>(BytesPerElement(precision_));
      at.checkpoint_per_sample = Rounded(memory_.sequence_parallel_ ? input / degree : input);
    }
    memory_.degrees_.push_back(at);
  }
  if (checkpoint_assumed && IsTransformer(definition_.kind)) {
    Note("kept when recomputing taken as the size of the layer's input");
  }
}

MeasuredLayerMemory MeasuredLayerMemory::Resolve(const LayerDefinition& definition,
                                                 Precision precision,
                                                 const std::vector<LayerMemoryPoint>& memories,
                                                 const LayerNeeds& needs,
                                                 const LayerEstimator* estimator,
                                                 ResolutionNotes& notes) {
  MeasuredLayerMemory memory;
  Resolver(definition, precision, memories, needs, estimator, notes, memory).Resolve();
  return memory;
}

const MeasuredLayerMemory::AtDegree& MeasuredLayerMemory::At(int tensor_parallel_degree) const {
  for (const AtDegree& at : degrees_) {
    if (at.tensor_parallel_degree == tensor_parallel_degree) return at;
  }
  internal::CheckFailed(__FILE__, __LINE__, "tensor-parallel degree was resolved");
}

}  // namespace parplan
