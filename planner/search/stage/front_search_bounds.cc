// The bounds of `FrontSearch` that show which labels are not worth completing.

#include <algorithm>
#include <cmath>
#include <limits>

#include "planner/search/stage/front_search.h"

namespace parplan {

void FrontSearch::FindLeastCosts(int run) {
  const auto& options = case_.options[case_.stage->runs[run].kind];
  const size_t cut_count = case_.cuts.size();
  least_costs_.resize(options.size() * cut_count);
  for (size_t index = 0; index < cut_count; ++index) {
    double least = std::numeric_limits<double>::infinity();
    for (size_t option = options.size(); option-- > 0;) {
      least = std::min(least, case_.cuts[index].Cost(options[option].cost));
      least_costs_[option * cut_count + index] = least;
    }
  }
}

bool FrontSearch::AnyWithin(int run, int reference) const {
  const auto& options = case_.options[case_.stage->runs[run].kind];
  const double count = case_.stage->runs[run].layer_count;
  const SuffixCosts* const suffix = case_.SuffixAfter(run);
  for (const Label& label : labels_) {
    bool is_within = true;
    for (size_t index = 0; index < case_.cuts.size() && is_within; ++index) {
      const PricedCut& cut = case_.cuts[index];
      const double own = cut.Cost(options[reference].cost);
      const double least = least_costs_[reference * case_.cuts.size() + index];
      is_within =
          cut.Cost(label.sum) + own + least * (count - 1.0) + suffix[index].cost <= cut.cut.limit;
    }
    if (is_within) return true;
  }
  return false;
}

void FrontSearch::MakeTails(int run, int reference) {
  const auto& options = case_.options[case_.stage->runs[run].kind];
  const auto option_count = static_cast<int>(options.size());
  const size_t cut_count = case_.cuts.size();
  const SuffixCosts* const suffix = case_.SuffixAfter(run);
  const TickStage::Option& from = options[reference];
  tails_.tails.assign((option_count + 1) * cut_count, {});
  tails_.bytes.assign(option_count + 1, 0);
  tails_.more_bytes.assign(option_count + 1, 0);
  tails_.more_useful_bytes.assign(option_count + 1, 0);
  forced_.assign(case_.stage->layout_count * cut_count, {});
  end_of_layout_.assign(case_.stage->layout_count, 0);
  for (int next = 0; next < option_count; ++next) end_of_layout_[options[next].layout] = next + 1;
  for (int next = option_count - 1; next > reference; --next) {
    const int64_t change = options[next].cost.bytes - from.cost.bytes;
    tails_.bytes[next] = std::min(tails_.bytes[next + 1], change);
    tails_.more_bytes[next] = std::max(tails_.more_bytes[next + 1], change);
    tails_.more_useful_bytes[next] = tails_.more_useful_bytes[next + 1];
    if (!from.cost.IsNowhereSlower(options[next].cost)) {
      tails_.more_useful_bytes[next] = std::max(tails_.more_useful_bytes[next], change);
    }
  }
  for (size_t index = 0; index < cut_count; ++index) {
    const PricedCut& cut = case_.cuts[index];
    for (int next = reference + 1; next < option_count; ++next) {
      Forced& forced = forced_[options[next].layout * cut_count + index];
      const auto bytes = static_cast<double>(options[next].cost.bytes - from.cost.bytes);
      const bool is_first = forced.reduced == std::numeric_limits<double>::infinity();
      forced.reduced = std::min(forced.reduced, cut.Cost(options[next].cost) - cut.Cost(from.cost));
      forced.least_bytes = is_first ? bytes : std::min(forced.least_bytes, bytes);
      forced.max_bytes = is_first ? bytes : std::max(forced.max_bytes, bytes);
    }
    Tail tail = {0.0, suffix[index].rates};
    const auto include = [&](int next) {
      const double reduced = cut.Cost(options[next].cost) - cut.Cost(from.cost) - tail.win;
      tail.rates.Include(std::max(0.0, reduced),
                         static_cast<double>(options[next].cost.bytes - from.cost.bytes));
    };
    tails_.tails[option_count * cut_count + index] = tail;
    for (int next = option_count - 1; next > reference; --next) {
      const double reduced = cut.Cost(options[next].cost) - cut.Cost(from.cost);
      if (reduced < tail.win) {
        tail = {reduced, suffix[index].rates};
        for (int again = next; again < option_count; ++again) include(again);
      } else {
        include(next);
      }
      tails_.tails[next * cut_count + index] = tail;
    }
  }
}

bool FrontSearch::Lacks(int run, int reference, const Label& label, int layout) const {
  return layout >= 0 && reference >= 0 && layout != Option(run, reference).layout &&
         walks_[case_.stage->runs[run].kind].Count(label.set, layout) == 0;
}

int64_t FrontSearch::LeastHalfResharding(int run, int reference, const Label& label) {
  LayoutWalks& walks = walks_[case_.stage->runs[run].kind];
  int set = label.set;
  for (const int layout : {label.begin_layout, label.end_layout}) {
    if (Lacks(run, reference, label, layout)) set = walks.With(set, layout, 1);
  }
  return walks.LeastHalfResharding(set, Option(run, reference).layout);
}

bool FrontSearch::CanEnd(int run, int reference, int option, const Label& label) const {
  const auto can_have = [&](int layout) {
    return layout < 0 || layout == Option(run, reference).layout ||
           (label.free_count > 0 && end_of_layout_[layout] > option) ||
           walks_[case_.stage->runs[run].kind].Count(label.set, layout) > 0;
  };
  return can_have(label.begin_layout) && can_have(label.end_layout);
}

bool FrontSearch::ExceedsCuts(int run, int reference, const Label& label, int option) {
  const int64_t needed = label.sum.bytes + Overhead(label);
  const int64_t least_bytes =
      needed + tails_.bytes[option] * label.free_count + case_.least_bytes_after[run];
  if (least_bytes > case_.room) return true;
  const size_t cut_count = case_.cuts.size();
  const SuffixCosts* const suffix = case_.SuffixAfter(run);
  const Tail* const tails = &tails_.tails[option * cut_count];
  const auto moved =
      reference < 0 ? 0.0 : static_cast<double>(LeastHalfResharding(run, reference, label));
  const auto overhead = static_cast<double>(Overhead(label));
  const auto bytes = static_cast<double>(needed);
  const double free_count = label.free_count;
  const int last_layout = reference < 0 ? label.last_layout : label.end_layout;
  const bool lacks_begin = Lacks(run, reference, label, label.begin_layout);
  const bool lacks_end =
      label.end_layout != label.begin_layout && Lacks(run, reference, label, label.end_layout);
  for (size_t index = 0; index < cut_count; ++index) {
    const PricedCut& cut = case_.cuts[index];
    const Tail& tail = tails[index];
    double least = cut.Cost(label.sum) + cut.price * overhead +
                   (cut.cut.forward + cut.cut.backward) * moved + tail.win * free_count;
    double with_resharding = least + case_.SuffixCost(run, index, last_layout);
    least += suffix[index].cost;
    // Bytes beyond the room, with the later layers at their cheapest options, and with the layers
    // that must still come.
    double max_missing = bytes + suffix[index].bytes;
    double least_missing = max_missing;
    const auto force = [&](int layout) {
      const Forced& forced = forced_[layout * cut_count + index];
      const double loss = std::max(0.0, forced.reduced - tail.win);
      least += loss;
      with_resharding += loss;
      least_missing += forced.least_bytes;
      max_missing += forced.max_bytes;
    };
    if (lacks_begin) force(label.begin_layout);
    if (lacks_end) force(label.end_layout);
    if (least_missing > 0.0) least += least_missing * tail.rates.save;
    if (max_missing < 0.0) least -= max_missing * tail.rates.add;
    least = std::max(least, with_resharding);
    if (least > cut.cut.limit) return true;
    if (index == 0 && !known_times_.empty() && IsKnown(run, reference, label, least)) return true;
  }
  return false;
}

bool FrontSearch::IsKnown(int run, int reference, const Label& label, double least) const {
  const TickStage& stage = *case_.stage;
  const bool is_last = run + 1 == static_cast<int>(stage.runs.size());
  if (!is_last && stage.last_layout_matters) return false;
  const int first = label.first_layout >= 0 ? label.first_layout : label.begin_layout;
  const int last = reference < 0 ? label.last_layout : label.end_layout;
  if (stage.first_layout_matters && first < 0) return false;
  if (stage.last_layout_matters && last < 0) return false;
  const int64_t known = known_times_[stage.EndsOf(first, last)];
  return known < TickStage::kNever &&
         least >= case_.cuts.front().cut.forward * static_cast<double>(known);
}

FrontSearch::Range FrontSearch::CountsWithin(int run, const Label& label, const FrontSum& change,
                                             int option, int64_t half_resharding) const {
  double least = 1.0;
  double largest = label.free_count;
  // Keeps the counts with start + slope * count <= limit, up to rounding.
  const auto require = [&least, &largest](double start, double slope, double limit) {
    if (slope > 0.0) {
      largest = std::min(largest, (limit - start) / slope + 1e-6);
    } else if (slope < 0.0) {
      least = std::max(least, (start - limit) / -slope - 1e-6);
    } else if (start > limit) {
      largest = 0.0;
    }
  };
  const double free_count = label.free_count;
  const auto bytes = static_cast<double>(label.sum.bytes + Overhead(label));
  const auto overhead = static_cast<double>(Overhead(label));
  const auto bytes_change = static_cast<double>(change.bytes);
  const auto least_change = static_cast<double>(tails_.bytes[option]);
  require(bytes + least_change * free_count + static_cast<double>(case_.least_bytes_after[run]),
          bytes_change - least_change, static_cast<double>(case_.room) + 0.5);
  const size_t cut_count = case_.cuts.size();
  const SuffixCosts* const suffix = case_.SuffixAfter(run);
  const Tail* const tails = &tails_.tails[option * cut_count];
  for (size_t index = 0; index < cut_count && largest >= least; ++index) {
    const PricedCut& cut = case_.cuts[index];
    const Tail& tail = tails[index];
    const double own = cut.Cost(label.sum) + cut.price * overhead +
                       (cut.cut.forward + cut.cut.backward) * static_cast<double>(half_resharding) +
                       tail.win * free_count;
    const double start = own + suffix[index].cost;
    const double slope = cut.Cost(change) - tail.win;
    require(own + case_.SuffixCost(run, index, label.end_layout), slope, cut.cut.limit);
    // Bytes beyond the room, with the later layers at their cheapest options.
    const double missing = bytes + suffix[index].bytes;
    // The loss is the larger of two linear functions: one for too much memory, one for too little.
    if (std::isinf(tail.rates.save)) {
      require(missing, bytes_change, 0.5);
    } else {
      require(start + missing * tail.rates.save, slope + bytes_change * tail.rates.save,
              cut.cut.limit);
    }
    require(start - missing * tail.rates.add, slope - bytes_change * tail.rates.add, cut.cut.limit);
  }
  // Slopes that consist of rounding only would ask for more layers than an integer holds.
  least = std::min(least, free_count + 1.0);
  return {static_cast<int64_t>(std::ceil(least)),
          static_cast<int64_t>(std::floor(std::max(largest, 0.0)))};
}

}  // namespace parplan
