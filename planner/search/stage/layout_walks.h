// The order in which equal layers under given layouts are best arranged.
//
// In a run of equal layers it does not matter which layer has which layout, only how many layers
// have each, and how activations get from layout to layout: along a shortest walk that visits every
// layout of these layers, and each at most as many times as there are layers under it. Used by
// `FrontSearch`.
//
//   LayoutWalks walks(half_resharding, layout_count, layouts, TickStage::kNever, meter);
//   const int set = walks.With(walks.With(LayoutWalks::kEmpty, 0, 3), 2, 1);
//   // Three layers under layout 0, one under layout 2.
//   for (const LayoutWalk& walk : walks.Walks(set)) ...
//
// Resharding between two layouts costs the same in the forward and in the backward pass, and all
// costs here are those of one of the two passes: half of the resharding, in ticks.
//
// Words (docs/glossary.md): a meter counts states and says when a search must end (search_meter.h);
// options have one layout if activations move between them at no cost; a tick is a power of two of
// a second, to which times are rounded (tick_scale.h).

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
  // In the order of the layers; at least one, neighbours distinct.
  std::vector<int> layouts;
  // Sum of the half resharding between neighbours, in ticks.
  int64_t half_resharding = 0;

  // Return the layouts of the first and of the last layer.
  int first() const { return layouts.front(); }
  int last() const { return layouts.back(); }
};

// Multisets of layouts of one run, each with a number, and their walks. Computes them on demand, in
// methods that look like queries too: not thread-safe.
class LayoutWalks {
 public:
  //   half_resharding   [from * layout_count + to] ticks, not negative, and at least `never` for
  //                     layouts that may not be neighbours; must outlive this object
  //   layouts           those that layers of the run may have, in any order, repeated or not
  //   never             at most a quarter of the largest int64, as `TickStage::kNever` is, so that
  //                     sums of some moves do not overflow
  //   meter             charged for the search of walks; must outlive this object. Once it has
  //                     stopped, `Walks` lacks some; the other methods do not ask it
  LayoutWalks(absl::Span<const int64_t> half_resharding, int layout_count, std::vector<int> layouts,
              int64_t never, SearchMeter& meter);

  // Returns the layouts of the constructor, ascending and distinct.
  const std::vector<int>& layouts() const { return layouts_; }

  // The number of the empty multiset.
  static constexpr int kEmpty = 0;
  // Returns the number of the multiset `set` with `count` more layers under `layout`, for a number
  // that this object gave, one of `layouts()`, and at least one layer. Ends the validity of
  // references that `Walks` returned.
  int With(int set, int layout, int count);

  // Returns the number of layers under `layout` in `set`, up to a cap beyond which more layers
  // allow no other walks.
  int Count(int set, int layout) const;

  // Returns whether no move through a third layout is shorter than the direct one, up to rounding.
  // If so, no walk visits a layout twice, except that its last layout may be its first.
  bool HasNoDetours();

  // A walk that is not chosen yet: through all layouts of a set and of layers that will be added,
  // from its first layout to its last.
  struct OpenWalk {
    int set = kEmpty;
    // The layouts that it begins and ends with; -1 for any.
    int first = -1;
    int last = -1;
  };
  // Returns the largest half resharding, in ticks, that the shortest walk of `a` can need beyond
  // that of `b`, whatever layers are added to both, the same ones to each. The caller promises that
  // one layer under `always` will be among them; the sets do not count it. 0 to `never`; `never` if
  // no such bound is known, for example if `a` may lack layers for its ends.
  int64_t MaxExtraResharding(const OpenWalk& a, const OpenWalk& b, int always);

  // Returns a lower bound of the half resharding, in ticks, of every walk through all layouts of
  // `set` and `layout`, whatever layers are added. `set` may be empty.
  int64_t LeastHalfResharding(int set, int layout);

  // Returns the best walks through all layouts of `set`: for each first and last layout the
  // shortest one, and longer ones if they visit some layout less often. None if no order of these
  // layouts is possible. Valid until the next call of `With`. REQUIRES, unchecked: `set` is not
  // `kEmpty`.
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
  // [layout] ticks, computed by `CompareResharding`: the most that visiting the layout on the way
  // can cost.
  std::vector<int64_t> max_detours_;
  // The most, in ticks, that going straight to each layout once can cost beyond the shortest moves.
  int64_t max_shortcut_ = 0;
  std::map<Set, int> numbers_;
  std::vector<Entry> sets_;
  // Numbers of extended sets, by set, layout and count.
  std::map<std::pair<std::pair<int, int>, int>, int> extended_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_STAGE_LAYOUT_WALKS_H_
