#include "planner/planners/exact/pipeline/partition_graph.h"

#include <algorithm>

#include "planner/search/base/search_numbers.h"

namespace parplan {

PartitionGraph::PartitionGraph(const PipelineSetting& setting, RangeBounds& ranges)
    : setting_(setting), ranges_(ranges) {
  const int layer_count = setting.layer_count();
  forward_backward_of_layers_.assign(layer_count + 1, 0.0);
  for (int layer = 0; layer < layer_count;) {
    const int end = setting.EndOfRun(layer);
    RangeBounds::Sums sums;
    // The last stage has the fewest micro-batches in flight.
    ranges.Add(setting.depth() - 1, setting.definition_of(layer), 1, sums);
    for (; layer < end; ++layer) {
      forward_backward_of_layers_[layer + 1] = forward_backward_of_layers_[layer] + sums.relaxed[0];
    }
  }
}

// Applies the terms of `SuffixRecurrence`, each with its own bound.
PartitionGraph::Suffix PartitionGraph::Join(const PipelineSetting& setting, int stage,
                                            const RangeTimes& times, const Suffix* later) {
  const SuffixRecurrence& recurrence = setting.recurrence();
  const double count = recurrence.micro_batch_count();
  Suffix suffix;
  if (later == nullptr) {
    suffix.round_trip = times.forward_backward;
    suffix.last_backward = count * times.forward_backward;
    suffix.end = std::max(suffix.last_backward, times.work);
    return suffix;
  }
  const double send = setting.stage(stage).least_send;
  suffix.round_trip = times.forward_backward + 2.0 * send + later->round_trip;
  suffix.last_backward = times.forward_backward + 2.0 * send + later->last_backward;
  if (recurrence.is_gpipe()) {
    suffix.last_backward =
        std::max(suffix.last_backward, suffix.round_trip + (count - 1.0) * times.forward_backward);
    suffix.end = later->round_trip + 2.0 * send + times.work;
  } else {
    suffix.arc = recurrence.Arc(stage, times.forward_backward, send, later->arc);
    suffix.last_backward =
        std::max({suffix.last_backward, count * times.forward_backward,
                  times.uneven + 2.0 * send + later->round_trip,
                  recurrence.Rounds(stage, times.forward_backward, suffix.round_trip,
                                    stage == 0 ? suffix.arc : 0.0)});
    suffix.end = times.work;
  }
  suffix.end = std::max({suffix.end, suffix.last_backward,
                         times.forward_backward_sync + 2.0 * send + later->last_backward,
                         times.forward + send + later->end});
  return suffix;
}

double PartitionGraph::SpreadBound() const {
  double longest = 0.0;
  for (size_t layer = 1; layer < forward_backward_of_layers_.size(); ++layer) {
    longest = std::max(longest,
                       forward_backward_of_layers_[layer] - forward_backward_of_layers_[layer - 1]);
  }
  return SpreadStepBound(setting_.candidate().schedule, setting_.depth(),
                         setting_.candidate().micro_batch_count, forward_backward_of_layers_.back(),
                         longest) *
         (1.0 - 1e-12);
}

double PartitionGraph::BoundOf(const PipelineSetting& setting, RangeBounds& ranges,
                               absl::Span<const int> boundaries) {
  Suffix suffix;
  for (int i = setting.depth() - 1; i >= 0; --i) {
    const RangeBounds::Sums sums = ranges.SumsOf(i, boundaries[i], boundaries[i + 1]);
    if (ranges.TooMuch(sums)) return kInfinity;
    suffix = Join(setting, i, ranges.Times(i, sums), i + 1 < setting.depth() ? &suffix : nullptr);
  }
  return suffix.end;
}

// Sets the range of first layers of each stage: as far to the right as the stages in front can
// reach, and as far to the left as the later ones can.
bool PartitionGraph::FindWindows(double cutoff, const SearchMeter& meter) {
  const int depth = setting_.depth();
  const int layer_count = setting_.layer_count();
  cut_anything_ = false;
  begin_.assign(depth + 1, 0);
  end_.assign(depth + 1, 1);
  begin_[depth] = layer_count;
  end_[depth] = layer_count + 1;
  if (!setting_.fixed_boundaries().empty()) {
    for (int i = 0; i <= depth; ++i) {
      begin_[i] = setting_.fixed_boundaries()[i];
      end_[i] = begin_[i] + 1;
    }
    return true;
  }
  const double limit = cutoff * kCutoffRoom;
  std::vector<int> latest(depth + 1, 0);
  for (int i = 0; i + 1 < depth && !meter.stopped(); ++i) {
    const int max_end = setting_.largest_first(i + 1);
    RangeBounds::Sums sums;
    int end = latest[i];
    while (end < max_end) {
      ranges_.Add(i, setting_.definition_of(end), 1, sums);
      if (ranges_.TooMuch(sums)) break;
      if (!Allows(i, latest[i], sums, limit)) {
        cut_anything_ = true;
        break;
      }
      ++end;
    }
    if (end < setting_.least_first(i + 1)) return false;
    latest[i + 1] = end;
  }
  int earliest = layer_count;
  for (int i = depth - 1; i > 0 && !meter.stopped(); --i) {
    RangeBounds::Sums sums;
    int first = earliest;
    while (first > setting_.least_first(i)) {
      ranges_.Add(i, setting_.definition_of(first - 1), 1, sums);
      if (ranges_.TooMuch(sums)) break;
      if (!Allows(i, first - 1, sums, limit)) {
        cut_anything_ = true;
        break;
      }
      --first;
    }
    if (first > latest[i] || first == earliest) return false;
    begin_[i] = earliest = first;
    end_[i] = latest[i] + 1;
  }
  return true;
}

// The condition is monotone: a layer in front adds to the times before a stage what it takes from
// the stage's own time, at least once per micro-batch, and from every round trip.
bool PartitionGraph::Allows(int stage, int first, const RangeBounds::Sums& sums,
                            double limit) const {
  const SuffixRecurrence& recurrence = setting_.recurrence();
  const double forward_backward = ranges_.Times(stage, sums).forward_backward;
  const double all = forward_backward_of_layers_.back();
  if (recurrence.is_gpipe())
    return all + (recurrence.micro_batch_count() - 1.0) * forward_backward <= limit;
  const double before = forward_backward_of_layers_[first];
  return before + recurrence.micro_batch_count() * forward_backward <= limit &&
         before + recurrence.Rounds(stage, forward_backward, all - before, /*arc=*/0.0) <= limit;
}

PartitionGraph::Suffix PartitionGraph::SuffixAt(int stage, int first) const {
  const int index = first - begin_[stage];
  return {round_trips_[stage][index], last_backwards_[stage][index], ends_[stage][index],
          arcs_[stage][index]};
}

bool PartitionGraph::AddEdges(int stage, double cutoff, SearchMeter& meter) {
  const bool is_last = stage + 1 == setting_.depth();
  const double limit = cutoff * kCutoffRoom;
  const double rounds = setting_.recurrence().RoundCount(0);
  std::vector<Edge>& edges = edges_[stage];
  for (int first = begin_[stage]; first < end_[stage]; ++first) {
    // A range takes some tens of operations.
    if (!meter.Work(int64_t{10} * (end_[stage + 1] - begin_[stage + 1]))) return false;
    const int index = first - begin_[stage];
    Suffix best = {kInfinity, kInfinity, kInfinity, kInfinity};
    int end = std::max(first + 1, begin_[stage + 1]);
    RangeBounds::Sums sums = ranges_.SumsOf(stage, first, end);
    const double before = forward_backward_of_layers_[first];
    for (; end < end_[stage + 1]; ++end) {
      if (ranges_.TooMuch(sums)) break;
      const RangeTimes times = ranges_.Times(stage, sums);
      if (before + setting_.recurrence().micro_batch_count() * times.forward_backward > limit) {
        cut_anything_ = true;
        break;
      }
      Suffix later;
      if (!is_last) later = SuffixAt(stage + 1, end);
      if (is_last || later.end < kInfinity) {
        const Suffix joined = Join(setting_, stage, times, is_last ? nullptr : &later);
        if (before + joined.last_backward > limit || joined.end > limit ||
            rounds * (before + joined.round_trip) > limit) {
          cut_anything_ = true;
        } else {
          edges.push_back({first, end, times});
          best.round_trip = std::min(best.round_trip, joined.round_trip);
          best.last_backward = std::min(best.last_backward, joined.last_backward);
          best.arc = std::min(best.arc, joined.arc);
          if (joined.end < best.end) {
            best.end = joined.end;
            best_ends_[stage][index] = end;
          }
        }
      }
      if (end < setting_.layer_count()) ranges_.Add(stage, setting_.definition_of(end), 1, sums);
    }
    round_trips_[stage][index] = best.round_trip;
    last_backwards_[stage][index] = best.last_backward;
    ends_[stage][index] = best.end;
    arcs_[stage][index] = best.arc;
  }
  return meter.Expand(static_cast<int64_t>(edges.size()));
}

// Computes the least times of the stages in front, and removes edges by them.
void PartitionGraph::GoForward(double cutoff) {
  const double limit = cutoff * kCutoffRoom;
  forward_backward_before_[0][0] = forward_before_[0][0] = 0.0;
  const int depth = setting_.depth();
  const double rounds = setting_.recurrence().RoundCount(0);
  for (int i = 0; i < depth; ++i) {
    const double send = setting_.stage(i).least_send;
    std::erase_if(edges_[i], [&](const Edge& edge) {
      const double forward_backward = ForwardBackwardBefore(i, edge.first);
      const double forward = ForwardBefore(i, edge.first);
      Suffix later;
      if (i + 1 < depth) later = SuffixAt(i + 1, edge.end);
      const Suffix joined = Join(setting_, i, edge.times, i + 1 < depth ? &later : nullptr);
      // Also if nothing leads to the edge: times are infinite then.
      if (!(forward_backward + joined.last_backward <= limit && forward + joined.end <= limit &&
            rounds * (forward_backward + joined.round_trip) <= limit)) {
        cut_anything_ = true;
        return true;
      }
      if (i + 1 == depth) return false;
      const int index = edge.end - begin_[i + 1];
      forward_backward_before_[i + 1][index] =
          std::min(forward_backward_before_[i + 1][index],
                   forward_backward + edge.times.forward_backward + 2.0 * send);
      forward_before_[i + 1][index] =
          std::min(forward_before_[i + 1][index], forward + edge.times.forward + send);
      return false;
    });
  }
}

PartitionGraph::Outcome PartitionGraph::Build(double cutoff, SearchMeter& meter) {
  if (!setting_.has_partition() || !(forward_backward_of_layers_.back() < kInfinity)) {
    return Outcome::kImpossible;
  }
  const bool has_windows = FindWindows(cutoff, meter);
  if (meter.stopped()) return Outcome::kTooLarge;
  if (!has_windows) return cut_anything_ ? Outcome::kNothing : Outcome::kImpossible;
  const int depth = setting_.depth();
  edges_.assign(depth, {});
  for (auto* values : {&round_trips_, &last_backwards_, &ends_, &arcs_, &forward_backward_before_,
                       &forward_before_}) {
    values->resize(depth);
    for (int i = 0; i < depth; ++i) (*values)[i].assign(end_[i] - begin_[i], kInfinity);
  }
  best_ends_.resize(depth);
  for (int i = 0; i < depth; ++i) best_ends_[i].assign(end_[i] - begin_[i], -1);
  int64_t edge_count = 0;
  for (int i = depth - 1; i >= 0; --i) {
    if (!AddEdges(i, cutoff, meter)) return Outcome::kTooLarge;
    edge_count += static_cast<int64_t>(edges_[i].size());
    if (edge_count > kMaxEdges * meter.effort()) return Outcome::kTooLarge;
    if (edges_[i].empty()) return cut_anything_ ? Outcome::kNothing : Outcome::kImpossible;
  }
  GoForward(cutoff);
  return Outcome::kBuilt;
}

std::vector<int> PartitionGraph::BestPartition() const {
  std::vector<int> boundaries = {0};
  for (int i = 0; i < setting_.depth(); ++i) {
    boundaries.push_back(best_ends_[i][boundaries.back() - begin_[i]]);
  }
  return boundaries;
}

void PartitionGraph::KeepOnly(absl::Span<const int> boundaries) {
  for (int i = 0; i < setting_.depth(); ++i) {
    std::erase_if(edges_[i], [&](const Edge& edge) {
      return edge.first != boundaries[i] || edge.end != boundaries[i + 1];
    });
  }
}

int64_t PartitionGraph::edge_count() const {
  int64_t count = 0;
  for (const std::vector<Edge>& edges : edges_) count += static_cast<int64_t>(edges.size());
  return count;
}

}  // namespace parplan
