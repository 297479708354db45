#include "planner/search/stage/front_search.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

namespace parplan {
namespace {

// Operations that extending a label by an option or comparing it with the cuts count as. Labels are
// counted as states when a whole list of them has been made, and those of layers with experts take
// 130 us a state.
constexpr int64_t kWorkOfLabel = 20;

}  // namespace

FrontSearch::FrontSearch(const FrontCase& front_case, std::vector<int64_t>& known_times,
                         SearchMeter& meter)
    : case_(front_case), known_times_(known_times), meter_(meter) {
  for (size_t kind = 0; kind < case_.options.size(); ++kind) {
    std::vector<int> layouts;
    for (const TickStage::Option& option : case_.options[kind]) layouts.push_back(option.layout);
    walks_.emplace_back(case_.stage->half_resharding[kind], case_.stage->layout_count,
                        std::move(layouts), TickStage::kNever, meter);
  }
}

const std::vector<FrontSearch::Label>& FrontSearch::Run() {
  Label start;
  start.transient = case_.least_transient;
  start.budget = case_.max_budget;
  labels_ = {start};
  const int run_count = static_cast<int>(case_.stage->runs.size());
  for (int run = 0; run < run_count && !meter_.stopped(); ++run) AddRun(run);
  if (meter_.stopped()) labels_.clear();
  return labels_;
}

void FrontSearch::AddRun(int run) {
  std::vector<Label> finished;
  const auto option_count = static_cast<int>(case_.options[case_.stage->runs[run].kind].size());
  CompareNextResharding(run);
  FindLeastCosts(run);
  for (int reference = 0; reference < option_count; ++reference) {
    AddReference(run, reference, finished);
    if (meter_.stopped()) return;
  }
  KeepBest(run, /*reference=*/-1, option_count, finished);
  labels_ = std::move(finished);
}

std::vector<FrontSearch::Label> FrontSearch::Begin(int run, int reference, int first_change) {
  const TickStage& stage = *case_.stage;
  const FrontRun& layers = stage.runs[run];
  const TickStage::Option& option = Option(run, reference);
  const std::vector<int> any = {-1};
  // The run begins and ends with the layout of the reference, or of a layer that may change.
  std::vector<int> reachable;
  for (const int layout : walks_[layers.kind].layouts()) {
    const bool may_change = layers.layer_count > 1 && end_of_layout_[layout] > first_change;
    if (layout == option.layout || may_change) reachable.push_back(layout);
  }
  const bool is_last = run + 1 == static_cast<int>(stage.runs.size());
  const std::vector<int>& begins_with = run > 0 || stage.first_layout_matters ? reachable : any;
  const std::vector<int>& ends_with =
      !is_last || stage.last_layout_matters || case_.has_output ? reachable : any;
  std::vector<Label> labels;
  for (Label label : labels_) {
    label.sum.Add(option.cost, layers.layer_count);
    label.transient = std::max(label.transient, option.transient);
    label.budget = std::min(label.budget, option.budget);
    label.set = LayoutWalks::kEmpty;
    label.free_count = layers.layer_count - 1;
    label.choice = reference;
    label.count = layers.layer_count;
    const int before = label.last_layout;
    label.last_layout = -1;
    // Most pairs of a first and a last layout exceed the cuts by one of the two.
    std::vector<int> ends;
    for (const int end : ends_with) {
      label.end_layout = end;
      if (begins_with.size() == 1 || !ExceedsCuts(run, reference, label, first_change)) {
        ends.push_back(end);
      }
    }
    if (!meter_.Work(kWorkOfLabel * static_cast<int64_t>(ends_with.size()))) return labels;
    label.end_layout = -1;
    if (ends.empty()) continue;
    for (int begin : begins_with) {
      const int64_t half_resharding =
          run == 0 ? 0 : stage.half_resharding[layers.kind][before * stage.layout_count + begin];
      if (half_resharding >= TickStage::kNever) continue;
      Label begun = label;
      begun.begin_layout = begin;
      begun.sum.forward += half_resharding;
      (stage.joins_passes ? begun.sum.forward : begun.sum.backward) += half_resharding;
      if (ends.size() > 1 && ExceedsCuts(run, reference, begun, first_change)) continue;
      for (const int end : ends) {
        begun.end_layout = end;
        if (!ExceedsCuts(run, reference, begun, first_change)) labels.push_back(begun);
      }
      if (!meter_.Work(kWorkOfLabel * static_cast<int64_t>(ends.size()))) return labels;
    }
  }
  return labels;
}

void FrontSearch::AddReference(int run, int reference, std::vector<Label>& finished) {
  if (!AnyWithin(run, reference)) return;
  const FrontRun& layers = case_.stage->runs[run];
  const auto option_count = static_cast<int>(case_.options[layers.kind].size());
  MakeTails(run, reference);
  const int first_change = layers.layer_count > 1 ? reference + 1 : option_count;
  std::vector<Label> working = Begin(run, reference, first_change);
  if (!meter_.Expand(static_cast<int64_t>(working.size()))) return;
  GiveNodes(working);
  for (int next = reference + 1; next < option_count && layers.layer_count > 1; ++next) {
    std::vector<Label> changed;
    bool has_new = false;
    for (const Label& label : working) {
      if (!meter_.Work(kWorkOfLabel)) return;
      const size_t before = changed.size();
      AddChanges(run, reference, next, label, changed);
      has_new |= changed.size() > before;
      if (!ExceedsCuts(run, reference, label, next + 1)) changed.push_back(label);
    }
    std::erase_if(changed,
                  [&](const Label& label) { return !CanEnd(run, reference, next + 1, label); });
    if (!meter_.Expand(static_cast<int64_t>(changed.size()))) return;
    working = std::move(changed);
    if (has_new) KeepBest(run, reference, next + 1, working);
    if (working.empty()) return;
  }
  Finish(run, reference, working, finished);
}

void FrontSearch::AddChanges(int run, int reference, int next, const Label& label,
                             std::vector<Label>& changed) {
  if (label.free_count == 0) return;
  LayoutWalks& walks = walks_[case_.stage->runs[run].kind];
  const TickStage::Option& from = Option(run, reference);
  const TickStage::Option& to = Option(run, next);
  const FrontSum change = to.cost - from.cost;
  Label start = label;
  start.set = walks.With(label.set, to.layout, 1);
  start.transient = std::max(label.transient, to.transient);
  start.budget = std::min(label.budget, to.budget);
  const Range range =
      CountsWithin(run, start, change, next + 1, LeastHalfResharding(run, reference, start));
  for (int64_t count = range.least; count <= range.largest; ++count) {
    Label added = start;
    added.sum.Add(change, count);
    added.set = walks.With(label.set, to.layout, static_cast<int>(count));
    added.free_count -= static_cast<int>(count);
    added.choice = next;
    added.count = static_cast<int>(count);
    const bool lacks_end = Lacks(run, reference, added, added.begin_layout) ||
                           Lacks(run, reference, added, added.end_layout);
    if (lacks_end && ExceedsCuts(run, reference, added, next + 1)) continue;
    changed.push_back(added);
  }
}

void FrontSearch::Finish(int run, int reference, const std::vector<Label>& labels,
                         std::vector<Label>& finished) {
  const TickStage& stage = *case_.stage;
  const FrontRun& layers = stage.runs[run];
  const auto option_count = static_cast<int>(case_.options[layers.kind].size());
  const int reference_layout = Option(run, reference).layout;
  const bool is_last = run + 1 == static_cast<int>(stage.runs.size());
  const bool has_output = is_last && case_.has_output;
  const int64_t least_output =
      has_output ? *std::min_element(stage.output_bytes.begin(), stage.output_bytes.end()) : 0;
  LayoutWalks& walks = walks_[layers.kind];
  for (const Label& label : labels) {
    if (!meter_.Work(kWorkOfLabel)) return;
    const int set = walks.With(label.set, reference_layout, label.free_count + 1);
    const std::vector<LayoutWalk>& all_walks = walks.Walks(set);
    for (size_t index = 0; index < all_walks.size(); ++index) {
      const LayoutWalk& walk = all_walks[index];
      if (label.begin_layout >= 0 && label.begin_layout != walk.first()) continue;
      if (label.end_layout >= 0 && label.end_layout != walk.last()) continue;
      const int64_t half_resharding = walk.half_resharding;
      Label added = label;
      added.sum.forward += half_resharding;
      (stage.joins_passes ? added.sum.forward : added.sum.backward) += half_resharding;
      if (run == 0) added.first_layout = walk.first();
      added.last_layout = walk.last();
      added.begin_layout = added.end_layout = -1;
      added.set = LayoutWalks::kEmpty;
      added.free_count = 0;
      if (has_output) added.sum.bytes += stage.output_bytes[walk.last()] - least_output;
      if (ExceedsCuts(run, /*reference=*/-1, added, option_count)) continue;
      if (is_last && case_.has_step) {
        const int64_t step_bytes = std::min(added.sum.step_bytes_with_bucket,
                                            added.sum.step_bytes + stage.gradient_bucket);
        if (step_bytes > label.budget) continue;
      }
      if (is_last && !known_times_.empty()) {
        int64_t& known = known_times_[stage.EndsOf(added.first_layout, added.last_layout)];
        known = std::min(known, added.sum.forward);
      }
      added.choice = kEndOfRun;
      added.count = static_cast<int>(walk_uses_.size());
      walk_uses_.push_back({layers.kind, set, static_cast<int>(index)});
      finished.push_back(added);
    }
  }
}

void FrontSearch::SetBindingBytes(int run, int reference, int option, Label& label) {
  const int64_t bytes = label.sum.bytes + case_.max_bytes_after[run] + case_.max_overhead;
  label.binds = bytes + tails_.more_bytes[option] * label.free_count > case_.room;
  label.binding_bytes = label.binds ? label.sum.bytes : 0;
  if (!label.binds || reference < 0 || case_.has_step) return;
  if (bytes + tails_.more_useful_bytes[option] * label.free_count > case_.room) return;
  // The reference need not be followed by changes to options that are slower in everything, except
  // for their layouts.
  LayoutWalks& walks = walks_[case_.stage->runs[run].kind];
  if (!walks.HasNoDetours()) return;
  // If the run ends as it begins, other layouts in between require a second visit.
  const int needed = label.begin_layout == label.end_layout ? 2 : 1;
  for (const int layout : {label.begin_layout, label.end_layout}) {
    if (layout < 0 || layout == Option(run, reference).layout) continue;
    if (walks.Count(label.set, layout) < needed) return;
  }
  label.binds = false;
  label.binding_bytes = 0;
}

void FrontSearch::CompareNextResharding(int run) {
  const TickStage& stage = *case_.stage;
  const int count = stage.layout_count;
  extra_resharding_after_.assign(static_cast<size_t>(count) * count, 0);
  if (run + 1 == static_cast<int>(stage.runs.size())) return;
  const int kind = stage.runs[run + 1].kind;
  const std::vector<int64_t>& half_resharding = stage.half_resharding[kind];
  const std::vector<int>& ends = walks_[stage.runs[run].kind].layouts();
  for (const int a : ends) {
    for (const int b : ends) {
      int64_t& largest = extra_resharding_after_[a * count + b];
      for (const int to : walks_[kind].layouts()) {
        const int64_t of_b = half_resharding[b * count + to];
        if (of_b < TickStage::kNever)
          largest = std::max(largest, half_resharding[a * count + to] - of_b);
      }
    }
  }
}

int64_t FrontSearch::MaxExtraResharding(int run, int reference, const Label& a, const Label& b) {
  const int last_a = reference < 0 ? a.last_layout : a.end_layout;
  const int last_b = reference < 0 ? b.last_layout : b.end_layout;
  int64_t farther = 0;
  if (last_a != last_b)
    farther = extra_resharding_after_[last_a * case_.stage->layout_count + last_b];
  if (reference < 0) return farther;
  return farther + walks_[case_.stage->runs[run].kind].MaxExtraResharding(
                       {a.set, a.begin_layout, a.end_layout}, {b.set, b.begin_layout, b.end_layout},
                       Option(run, reference).layout);
}

bool FrontSearch::Dominates(int run, int reference, const Label& a, const Label& b) {
  if (!a.sum.IsNowhereSlower(b.sum) || a.free_count < b.free_count) return false;
  if (a.binds && (a.sum.bytes > b.sum.bytes || a.transient > b.transient || a.budget < b.budget)) {
    return false;
  }
  if (case_.has_step && (a.budget < b.budget || a.sum.step_bytes > b.sum.step_bytes ||
                         a.sum.step_bytes_with_bucket > b.sum.step_bytes_with_bucket)) {
    return false;
  }
  const int64_t farther = MaxExtraResharding(run, reference, a, b);
  if (farther >= TickStage::kNever) return false;
  if (case_.stage->joins_passes) return a.sum.forward + 2 * farther <= b.sum.forward;
  return a.sum.forward + farther <= b.sum.forward && a.sum.backward + farther <= b.sum.backward;
}

void FrontSearch::KeepBest(int run, int reference, int option, std::vector<Label>& labels) {
  struct Place {
    // The values that neighbours of the stage depend on.
    int first_layout;
    int last_layout;
    int64_t time;
    int64_t bytes;
    int less_free;
    int index;
  };
  const auto key = [](const Place& place) {
    return std::tie(place.first_layout, place.last_layout);
  };
  const bool is_last = run + 1 == static_cast<int>(case_.stage->runs.size());
  const bool is_whole = reference < 0 && is_last;
  const bool compares_first = case_.stage->first_layout_matters;
  const bool compares_last =
      is_last && (case_.stage->last_layout_matters || (case_.has_output && !is_whole));
  std::vector<Place> places;
  places.reserve(labels.size());
  for (size_t index = 0; index < labels.size(); ++index) {
    Label& label = labels[index];
    SetBindingBytes(run, reference, option, label);
    const int first_layout = run == 0 && reference >= 0 ? label.begin_layout : label.first_layout;
    const int last_layout = reference < 0 ? label.last_layout : label.end_layout;
    places.push_back({compares_first ? first_layout : 0, compares_last ? last_layout : 0,
                      label.sum.forward + label.sum.backward + label.sum.sync, label.binding_bytes,
                      -label.free_count, static_cast<int>(index)});
  }
  std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
    return std::tie(a.first_layout, a.last_layout, a.time, a.bytes, a.less_free, a.index) <
           std::tie(b.first_layout, b.last_layout, b.time, b.bytes, b.less_free, b.index);
  });
  std::vector<Label> kept;
  size_t first_of_key = 0;
  // The label that dominated the last one often dominates the next.
  size_t last_dominator = 0;
  for (size_t rank = 0; rank < places.size(); ++rank) {
    if (rank > 0 && key(places[rank]) != key(places[rank - 1])) {
      first_of_key = kept.size();
      last_dominator = kept.size();
    }
    if (!meter_.Work(static_cast<int64_t>(kept.size() - first_of_key) + 1)) break;
    const Label& label = labels[places[rank].index];
    if (last_dominator < kept.size() && Dominates(run, reference, kept[last_dominator], label))
      continue;
    const auto beater =
        std::find_if(kept.begin() + static_cast<std::ptrdiff_t>(first_of_key), kept.end(),
                     [&](const Label& other) { return Dominates(run, reference, other, label); });
    if (beater != kept.end()) {
      last_dominator = beater - kept.begin();
      continue;
    }
    kept.push_back(label);
  }
  meter_.Prune(static_cast<int64_t>(labels.size() - kept.size()));
  labels = std::move(kept);
  GiveNodes(labels);
}

void FrontSearch::GiveNodes(std::vector<Label>& labels) {
  for (Label& label : labels) {
    if (label.choice == kNothing) continue;
    nodes_.push_back({label.node, label.choice, label.count});
    label.node = static_cast<int>(nodes_.size()) - 1;
    label.choice = kNothing;
  }
}

std::vector<FrontBlock> FrontSearch::Blocks(const Label& label) {
  // Nodes from the first one on.
  std::vector<Node> steps;
  for (int node = label.node; node >= 0; node = nodes_[node].parent) {
    steps.push_back(nodes_[node]);
  }
  std::reverse(steps.begin(), steps.end());
  std::vector<FrontBlock> blocks;
  // [choice] layers of the run.
  std::vector<int> counts;
  int reference = -1;
  int run = 0;
  for (const Node& step : steps) {
    if (step.choice == kEndOfRun) {
      const WalkUse& use = walk_uses_[step.count];
      AddBlocks(run, counts, walks_[use.kind].Walks(use.set)[use.index], blocks);
      reference = -1;
      ++run;
      continue;
    }
    if (reference < 0) {
      reference = step.choice;
      counts.assign(case_.options[case_.stage->runs[run].kind].size(), 0);
      counts[reference] = step.count;
    } else {
      counts[step.choice] += step.count;
      counts[reference] -= step.count;
    }
  }
  return blocks;
}

void FrontSearch::AddBlocks(int run, const std::vector<int>& counts, const LayoutWalk& walk,
                            std::vector<FrontBlock>& blocks) const {
  const int kind = case_.stage->runs[run].kind;
  std::vector<int> left = counts;
  for (size_t place = 0; place < walk.layouts.size(); ++place) {
    const int layout = walk.layouts[place];
    const auto later_visits = static_cast<int>(std::count(
        walk.layouts.begin() + static_cast<std::ptrdiff_t>(place) + 1, walk.layouts.end(), layout));
    int all = 0;
    for (size_t choice = 0; choice < left.size(); ++choice) {
      if (Option(run, static_cast<int>(choice)).layout == layout) all += left[choice];
    }
    // The first visit takes all layers but one for each later visit, each of which takes one.
    int taken = all - later_visits;
    for (size_t choice = 0; choice < left.size() && taken > 0; ++choice) {
      if (left[choice] == 0 || Option(run, static_cast<int>(choice)).layout != layout) continue;
      const int count = std::min(taken, left[choice]);
      blocks.push_back({kind, static_cast<int>(choice), count});
      left[choice] -= count;
      taken -= count;
    }
  }
}

}  // namespace parplan
