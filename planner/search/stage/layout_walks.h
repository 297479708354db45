// The order in which equal layers under given layouts are best arranged.
//
// It does not matter which layers of a run have which layout, only how activations get from layout
// to layout: along a shortest walk that visits every layout of the run, and no layout more often
// than it has layers. Used by `FrontSearch`.

#ifndef PARPLAN_PLANNER_SEARCH_STAGE_LAYOUT_WALKS_H_
#define PARPLAN_PLANNER_SEARCH_STAGE_LAYOUT_WALKS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "planner/search/base/search_meter.h"

namespace parplan {

// A walk over layouts.
struct LayoutWalk {
  std::vector<int> layouts;
  // Half of all transitions along the walk, in ticks.
  int64_t half_resharding = 0;

  int first() const { return layouts.front(); }
  int last() const { return layouts.back(); }
};

// Numbered multisets of layouts of one run, and their walks. Computes them on demand.
class LayoutWalks {
 public:
  // `half_resharding` is [from * layout_count + to], not negative, and at least `never` where no
  // move is possible. `layouts` are those of the run's options. The array of
  // `half_resharding` and the meter must outlive this object. Once the meter has stopped, walks are
  // missing.
  LayoutWalks(absl::Span<const int64_t> half_resharding, int layout_count, std::vector<int> layouts,
              int64_t never, SearchMeter& meter);

  // Returns the layouts, ascending.
  const std::vector<int>& layouts() const { return layouts_; }

  // The number of the empty multiset.
  static constexpr int kEmpty = 0;
  // Returns the number of `set` with `count` more layers under `layout`.
  int With(int set, int layout, int count);

  // Returns the number of layers under `layout`, up to the largest number that makes a difference.
  int Count(int set, int layout) const;

  // Returns whether no move through a third layout is shorter than the direct one. Then a walk
  // visits a layout twice only to end where it began.
  bool HasNoDetours();

  // A walk still to be chosen: through all of a set, from a layout to another (-1: any).
  struct Plan {
    int set = kEmpty;
    int first = -1;
    int last = -1;
  };
  // Returns the most half moves `a` can need beyond those of `b`, whatever layers are added to
  // both; at least `never` if that is unknown. Both also have a layer under `always`.
  int64_t MaxExtraResharding(const Plan& a, const Plan& b, int always);

  // Returns a lower bound of the half moves of any walk through all of `set` and `layout`.
  int64_t LeastHalfResharding(int set, int layout);

  // Returns every best walk through all of a set: for each first and last layout the shortest one,
  // and longer ones if they visit some layout less often.
  const std::vector<LayoutWalk>& Walks(int set);

 private:
  // Layouts and their counts, ascending by layout; counts are capped where more make no difference.
  using Set = std::vector<std::pair<int, int>>;
  struct Entry {
    Set set;
    std::optional<std::vector<LayoutWalk>> walks;
  };

  int64_t HalfResharding(int from, int to) const {
    return half_resharding_[from * layout_count_ + to];
  }
  int64_t LeastInto(int layout) const;
  void CompareResharding();
  int MaxVisits();
  std::vector<LayoutWalk> FindWalks(const Set& set);
  std::vector<LayoutWalk> FindStraightWalks(const Set& set) const;
  void AddWalksFrom(const Set& set, int start, std::vector<LayoutWalk>& walks);

  absl::Span<const int64_t> half_resharding_;
  int layout_count_;
  std::vector<int> layouts_;
  int64_t never_;
  SearchMeter* meter_;
  std::optional<bool> has_no_detours_;
  // [layout], computed by `CompareResharding`: the most that visiting the layout on the way can
  // cost.
  std::vector<int64_t> max_detours_;
  // The most that going straight to each layout once can cost beyond the shortest moves.
  int64_t max_shortcut_ = 0;
  std::map<Set, int> numbers_;
  std::vector<Entry> sets_;
  // Numbers of extended sets, by set, layout and count.
  std::map<std::pair<std::pair<int, int>, int>, int> extended_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_STAGE_LAYOUT_WALKS_H_
