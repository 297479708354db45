#include "planner/planners/exact/pipeline/suffix_search.h"

#include <algorithm>

#include "planner/search/base/search_numbers.h"

namespace parplan {
namespace {

// Returns whether some stage with these bounds may satisfy the limits.
bool Allows(const StageLimits& limits, const RangeTimes& times) {
  return times.forward_backward <= limits.forward_backward &&
         times.forward_backward_sync <= limits.forward_backward_sync && times.work <= limits.work;
}

}  // namespace

StageLimits SuffixSearch::LimitsOf(int stage, int first, const Place* later, double cutoff) const {
  const double count = setting_.recurrence().micro_batch_count();
  const double room_for_passes = cutoff * kCutoffRoom - graph_.ForwardBackwardBefore(stage, first);
  const double room_for_end = cutoff * kCutoffRoom - graph_.ForwardBefore(stage, first);
  if (later == nullptr) {
    return {std::min(room_for_passes, room_for_end) / count, kInfinity, room_for_end};
  }
  const double sends = 2.0 * setting_.stage(stage).least_send;
  // Under GPipe all other micro-batches wait for the longest stage.
  const double others = setting_.recurrence().is_gpipe() ? later->round_trip + sends : 0.0;
  StageLimits limits;
  limits.forward_backward =
      std::min(room_for_passes - later->last_backward - sends, (room_for_passes - others) / count);
  limits.forward_backward =
      std::min(limits.forward_backward,
               setting_.recurrence().MaxWork(stage, room_for_passes, later->round_trip + sends));
  limits.forward_backward_sync = room_for_end - later->last_backward - sends;
  limits.work = room_for_end - others;
  if (fronts_.keeps() == FrontKeeps::kForwardBackward && stage > 0) {
    limits.forward_backward = std::min(limits.forward_backward, limits.work / count);
  }
  return limits;
}

bool SuffixSearch::Join(int stage, const ChosenStage& chosen, double least_forward,
                        const Node* next, double cutoff, Node& node) const {
  const SuffixRecurrence& recurrence = setting_.recurrence();
  StageTimes times = {chosen.choice->forward, chosen.choice->backward, Seconds(),
                      chosen.choice->sync};
  if (fronts_.keeps() != FrontKeeps::kAll) {
    // All time is counted as forward, which makes no chain of passes longer.
    times.forward += times.backward;
    times.backward = Seconds();
  }
  if (fronts_.keeps() == FrontKeeps::kForwardBackward && stage > 0) {
    times.gradient_sync = Seconds();
  }
  if (next == nullptr) {
    node.times = recurrence.LastStage(times);
  } else {
    times.send =
        fronts_.Send(setting_.definition_of(chosen.end_layer - 1), chosen.choice->last_layout,
                     next->stage.choice->first_layout, setting_.stage(stage).leaves_node);
    if (!times.send.is_finite()) return false;
    node.times = fronts_.keeps() == FrontKeeps::kForwardBackwardSync
                     ? recurrence.BeforeJoined(stage, times, least_forward, next->times)
                     : recurrence.Before(stage, times, next->times);
  }
  const double limit = cutoff * kCutoffRoom;
  const double forward_backward = graph_.ForwardBackwardBefore(stage, chosen.first_layer);
  if (forward_backward + recurrence.LastBackward(node.times) > limit ||
      graph_.ForwardBefore(stage, chosen.first_layer) + recurrence.End(node.times) > limit ||
      recurrence.RoundCount(0) * (forward_backward + recurrence.RoundTrip(node.times)) > limit) {
    return false;
  }
  node.stage = chosen;
  return true;
}

void SuffixSearch::Insert(const Node& node) {
  const SuffixRecurrence& recurrence = setting_.recurrence();
  const int layout = node.stage.choice->first_layout;
  for (const Node& other : pending_) {
    if (other.stage.choice->first_layout == layout &&
        recurrence.Dominates(other.times, node.times)) {
      return;
    }
  }
  std::erase_if(pending_, [&](const Node& other) {
    return other.stage.choice->first_layout == layout &&
           recurrence.Dominates(node.times, other.times);
  });
  pending_.push_back(node);
}

bool SuffixSearch::AddPlace(int stage, int first, absl::Span<const PartitionGraph::Edge> edges,
                            double cutoff) {
  const bool is_last = stage + 1 == setting_.depth();
  pending_.clear();
  bool is_complete = true;
  for (const PartitionGraph::Edge& edge : edges) {
    const Place* later = is_last ? nullptr : &PlaceAt(stage + 1, edge.end);
    if (!is_last && later->begin == later->end) continue;
    const StageLimits limits = LimitsOf(stage, first, later, cutoff);
    if (!Allows(limits, edge.times)) continue;
    const StageFront& front = fronts_.Find(stage, first, edge.end, limits, meter_);
    is_complete = is_complete && front.is_complete;
    for (const StageChoice& choice : front.choices) {
      if ((choice.forward + choice.backward).value() > limits.forward_backward) continue;
      const ChosenStage chosen = {first, edge.end, &choice};
      Node node;
      if (is_last) {
        if (Join(stage, chosen, edge.times.forward, nullptr, cutoff, node)) Insert(node);
        continue;
      }
      for (int32_t k = later->begin; k < later->end; ++k) {
        if (!Join(stage, chosen, edge.times.forward, &nodes_[k], cutoff, node)) continue;
        node.next = k;
        Insert(node);
      }
    }
    const auto count = static_cast<int64_t>(front.choices.size());
    if (!meter_.Expand(count * (is_last ? 1 : later->end - later->begin))) is_complete = false;
    if (!is_complete && meter_.stopped()) break;
  }
  Place& place = places_[stage][first - graph_.begin(stage)];
  place = {static_cast<int32_t>(nodes_.size()), 0, kInfinity, kInfinity};
  for (const Node& node : pending_) {
    place.last_backward =
        std::min(place.last_backward, setting_.recurrence().LastBackward(node.times));
    place.round_trip = std::min(place.round_trip, setting_.recurrence().RoundTrip(node.times));
    nodes_.push_back(node);
  }
  place.end = static_cast<int32_t>(nodes_.size());
  return is_complete;
}

bool SuffixSearch::Run(double cutoff) {
  nodes_.clear();
  results_.clear();
  places_.assign(setting_.depth(), {});
  bool is_complete = true;
  for (int stage = setting_.depth() - 1; stage >= 0; --stage) {
    places_[stage].resize(graph_.end(stage) - graph_.begin(stage));
    const std::vector<PartitionGraph::Edge>& edges = graph_.edges(stage);
    for (size_t begin = 0; begin < edges.size();) {
      size_t end = begin;
      while (end < edges.size() && edges[end].first == edges[begin].first) ++end;
      const absl::Span<const PartitionGraph::Edge> from_here(&edges[begin], end - begin);
      is_complete = AddPlace(stage, edges[begin].first, from_here, cutoff) && is_complete;
      if (meter_.stopped()) return false;
      begin = end;
    }
  }
  const Place& start = places_.front().front();
  for (int32_t k = start.begin; k < start.end; ++k) results_.push_back(k);
  std::stable_sort(results_.begin(), results_.end(), [this](int32_t a, int32_t b) {
    return setting_.recurrence().End(nodes_[a].times) < setting_.recurrence().End(nodes_[b].times);
  });
  return is_complete;
}

double SuffixSearch::bound(int result) const {
  return setting_.recurrence().End(nodes_[results_[result]].times);
}

std::vector<ChosenStage> SuffixSearch::Stages(int result) const {
  std::vector<ChosenStage> stages;
  for (int32_t k = results_[result]; k >= 0; k = nodes_[k].next) stages.push_back(nodes_[k].stage);
  return stages;
}

struct SuffixSearch::Enumeration {
  double cutoff = 0.0;
  int64_t nodes_left = 0;
  const std::function<double(absl::Span<const ChosenStage>)>& visit;
  // [stage]
  std::vector<ChosenStage> stages;
};

bool SuffixSearch::GoBack(int stage, const Node& later, Enumeration& state) {
  if (stage < 0) {
    state.cutoff = std::min(state.cutoff, state.visit(state.stages));
    return true;
  }
  const bool is_last = stage + 1 == setting_.depth();
  const int end = is_last ? setting_.layer_count() : later.stage.first_layer;
  bool is_complete = true;
  for (const PartitionGraph::Edge& edge : graph_.edges(stage)) {
    if (edge.end != end) continue;
    const Place* place = is_last ? nullptr : &PlaceAt(stage + 1, end);
    const StageLimits limits = LimitsOf(stage, edge.first, place, state.cutoff);
    if (!Allows(limits, edge.times)) continue;
    const StageFront& front = fronts_.Find(stage, edge.first, end, limits, meter_);
    is_complete = is_complete && front.is_complete;
    for (const StageChoice& choice : front.choices) {
      if (--state.nodes_left < 0 || !meter_.Expand(1)) return false;
      Node node;
      const ChosenStage chosen = {edge.first, end, &choice};
      const Node* const next = is_last ? nullptr : &later;
      if (!Join(stage, chosen, edge.times.forward, next, state.cutoff, node)) continue;
      state.stages[stage] = chosen;
      is_complete = GoBack(stage - 1, node, state) && is_complete;
      if (state.nodes_left < 0) return false;
    }
  }
  return is_complete;
}

bool SuffixSearch::Enumerate(double cutoff, int64_t max_nodes,
                             const std::function<double(absl::Span<const ChosenStage>)>& visit) {
  Enumeration state = {cutoff, max_nodes, visit, {}};
  state.stages.resize(setting_.depth());
  return GoBack(setting_.depth() - 1, Node(), state);
}

}  // namespace parplan
