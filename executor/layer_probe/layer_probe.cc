#include "executor/layer_probe/layer_probe.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "executor/layer_probe/probe_run.h"

namespace parplan {
namespace {

// Numbers of layers of the definition in the two models, whose difference is the time of two layers
// without what a model has once. More layers take more memory and time.
constexpr int kShallow = 2;
constexpr int kDeep = 4;
// Smallest number of repetitions for a median, however long they take.
constexpr int kFewestRepetitions = 3;
// Times below this share of the sum of all need not reach the precision: they hardly change a step.
constexpr double kNegligible = 0.05;

absl::Status Refuse(const std::string& field, const std::string& rule) {
  return FieldError(Reason::kSpecInvalid, field, rule);
}

// [kind][repetition] times of one layer.
struct Samples {
  std::vector<absl::Duration> forward;
  std::vector<absl::Duration> backward;
  std::vector<absl::Duration> optimizer_step;
};
using AllSamples = std::array<Samples, kProbedKindCount>;
constexpr std::vector<absl::Duration> Samples::*kSeries[] = {&Samples::forward, &Samples::backward,
                                                             &Samples::optimizer_step};

void AddRepetition(const std::array<ProbedTimes, kProbedKindCount>& shallow,
                   const std::array<ProbedTimes, kProbedKindCount>& deep, AllSamples& samples) {
  for (int kind = 0; kind < kProbedKindCount; ++kind) {
    const bool is_middle = kind == static_cast<int>(ProbedKind::kMiddle);
    const auto of_one = [&](absl::Duration ProbedTimes::*time) {
      const absl::Duration a = shallow[kind].*time;
      const absl::Duration b = deep[kind].*time;
      return is_middle ? (b - a) / (kDeep - kShallow) : (a + b) / 2;
    };
    samples[kind].forward.push_back(of_one(&ProbedTimes::forward));
    samples[kind].backward.push_back(of_one(&ProbedTimes::backward));
    samples[kind].optimizer_step.push_back(of_one(&ProbedTimes::optimizer_step));
  }
}

bool IsKnown(const AllSamples& samples, double precision) {
  absl::Duration all;
  for (const Samples& kind : samples) {
    for (const auto series : kSeries) all += SpreadOf(kind.*series).median;
  }
  for (const Samples& kind : samples) {
    for (const auto series : kSeries) {
      const absl::Duration median = SpreadOf(kind.*series).median;
      if (MedianUncertainty(kind.*series) > std::max(median, all * kNegligible) * precision) {
        return false;
      }
    }
  }
  return true;
}

// Returns whether the value is true on any rank.
absl::StatusOr<bool> AnyRank(Communicator* control, bool says_so) {
  float flag = says_so ? 1.0F : 0.0F;
  if (control != nullptr) {
    PARPLAN_RETURN_IF_ERROR(control->AllReduce(ElementType::kFloat32, &flag, 1, Reduction::kMax));
  }
  return flag > 0.0F;
}

// Returns the spread of the rank with the largest median.
absl::StatusOr<TimeSpread> SlowestOf(Communicator* control, const TimeSpread& own) {
  if (control == nullptr) return own;
  constexpr int kNumbers = 4;
  const std::array<double, kNumbers> mine = {
      absl::ToDoubleSeconds(own.median), absl::ToDoubleSeconds(own.p10),
      absl::ToDoubleSeconds(own.p90), static_cast<double>(own.sample_count)};
  std::vector<double> all(static_cast<size_t>(kNumbers) * control->size());
  PARPLAN_RETURN_IF_ERROR(
      control->AllGather(ElementType::kFloat64, mine.data(), all.data(), kNumbers));
  const double* slowest = all.data();
  for (int rank = 1; rank < control->size(); ++rank) {
    const double* const other = all.data() + static_cast<ptrdiff_t>(rank) * kNumbers;
    if (other[0] > slowest[0]) slowest = other;
  }
  return TimeSpread{.median = absl::Seconds(slowest[0]),
                    .p10 = absl::Seconds(slowest[1]),
                    .p90 = absl::Seconds(slowest[2]),
                    .sample_count = static_cast<int>(slowest[3])};
}

absl::StatusOr<AllSamples> Repeat(ProbeRun& shallow, ProbeRun& deep,
                                  const LayerProbeSetting& setting) {
  for (int k = 0; k < setting.warm_up_count; ++k) {
    PARPLAN_RETURN_IF_ERROR(shallow.Step().status());
    PARPLAN_RETURN_IF_ERROR(deep.Step().status());
  }
  AllSamples samples;
  const absl::Duration start = setting.now();
  for (int count = 1; count <= setting.max_repetition_count; ++count) {
    if (setting.control != nullptr) PARPLAN_RETURN_IF_ERROR(setting.control->Barrier());
    // The models alternate, so that a device that is slower for a while slows down both.
    PARPLAN_ASSIGN_OR_RETURN(const auto few, shallow.Step());
    PARPLAN_ASSIGN_OR_RETURN(const auto many, deep.Step());
    AddRepetition(few, many, samples);
    if (count < kFewestRepetitions) continue;
    const bool goes_on =
        count < setting.min_repetition_count || !IsKnown(samples, setting.precision);
    const bool is_late = setting.now() - start > setting.time_limit;
    PARPLAN_ASSIGN_OR_RETURN(const bool anyone_goes_on, AnyRank(setting.control, goes_on));
    PARPLAN_ASSIGN_OR_RETURN(const bool anyone_is_late, AnyRank(setting.control, is_late));
    if (!anyone_goes_on || anyone_is_late) break;
  }
  return samples;
}

// Measures the three kinds of layers, with `middle_index` between the first and the last
// definition.
absl::StatusOr<std::array<LayerTimes, kProbedKindCount>> ProbeMiddle(
    const ModelSpec& model, int middle_index, const LayerProbeShape& shape,
    const LayerProbeSetting& setting) {
  PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<ProbeRun> shallow,
                           ProbeRun::Create(model, middle_index, kShallow, shape, setting));
  PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<ProbeRun> deep,
                           ProbeRun::Create(model, middle_index, kDeep, shape, setting));
  PARPLAN_ASSIGN_OR_RETURN(const AllSamples samples, Repeat(*shallow, *deep, setting));
  const std::vector<int>& definition_of_layer = model.definition_of_layer();
  const int definitions[] = {definition_of_layer.front(), middle_index, definition_of_layer.back()};
  std::array<LayerTimes, kProbedKindCount> times;
  for (int kind = 0; kind < kProbedKindCount; ++kind) {
    LayerTimes& of_kind = times[kind];
    of_kind.definition_index = definitions[kind];
    of_kind.shape = shape;
    of_kind.sequence_length =
        shape.sequence_length > 0 ? shape.sequence_length : model.layer(0).sequence_length;
    of_kind.parameter_count = shallow->ParameterCount(static_cast<ProbedKind>(kind));
    const Samples& of = samples[kind];
    PARPLAN_ASSIGN_OR_RETURN(of_kind.forward, SlowestOf(setting.control, SpreadOf(of.forward)));
    PARPLAN_ASSIGN_OR_RETURN(of_kind.backward, SlowestOf(setting.control, SpreadOf(of.backward)));
    PARPLAN_ASSIGN_OR_RETURN(of_kind.optimizer_step,
                             SlowestOf(setting.control, SpreadOf(of.optimizer_step)));
  }
  return times;
}

}  // namespace

absl::Status CheckProbeShape(const LayerProbeShape& shape, const LayerProbeSetting& setting) {
  if (shape.tensor_parallel_degree < 1 || setting.world_size % shape.tensor_parallel_degree != 0) {
    return Refuse("tensor_parallel_degree",
                  absl::StrCat("it divides the ", setting.world_size, " ranks that measure"));
  }
  if (shape.samples < 1) return Refuse("samples", "at least 1");
  if (shape.sequence_length < 0) return Refuse("sequence_length", "at least 0");
  return absl::OkStatus();
}

absl::StatusOr<std::vector<LayerTimes>> ProbeLayers(const ModelSpec& model,
                                                    const LayerProbeShape& shape,
                                                    const LayerProbeSetting& setting) {
  PARPLAN_RETURN_IF_ERROR(CheckProbeShape(shape, setting));
  const int first = model.definition_of_layer().front();
  const int last = model.definition_of_layer().back();
  std::vector<LayerTimes> all(model.layer_definitions().size());
  bool has_ends = false;
  for (int index = 0; index < static_cast<int>(all.size()); ++index) {
    if (index == first || index == last) continue;
    auto times = ProbeMiddle(model, index, shape, setting);
    if (!times.ok()) {
      // All ranks refuse what cannot be run, so no rank waits for another.
      if (setting.control != nullptr && !absl::IsInvalidArgument(times.status())) {
        setting.control->Abort(times.status().message());
      }
      return times.status();
    }
    all[index] = (*times)[static_cast<int>(ProbedKind::kMiddle)];
    if (has_ends) continue;
    all[first] = (*times)[static_cast<int>(ProbedKind::kEmbedding)];
    all[last] = (*times)[static_cast<int>(ProbedKind::kHead)];
    has_ends = true;
  }
  if (!has_ends) return Refuse("layer_definitions", "at least one between embedding and head");
  return all;
}

}  // namespace parplan
