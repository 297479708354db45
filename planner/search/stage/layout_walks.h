// In which order equal layers under given layouts are best put.
//
// Which layers of a run have which layout does not matter, only how activations get from
// layout to layout: a shortest walk that visits all of them, and no layout more often than
// it has layers.

#ifndef PARPLAN_PLANNER_SEARCH_STAGE_LAYOUT_WALKS_H_
#define PARPLAN_PLANNER_SEARCH_STAGE_LAYOUT_WALKS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace parplan {

// Visits layouts one after the other.
struct LayoutWalk {
  std::vector<int> layouts;
  // Half of all transitions on the way, in ticks.
  int64_t half_move = 0;

  int first() const { return layouts.front(); }
  int last() const { return layouts.back(); }
};

// Multisets of layouts of one run, by number, and their walks. Nothing is computed before
// it is asked for.
class LayoutWalks {
 public:
  // `half_moves`: [from * layout_count + to], not negative; at least `never` where there
  // is no way. `layouts`: those of the run's options.
  LayoutWalks(absl::Span<const int64_t> half_moves, int layout_count, std::vector<int> layouts,
              int64_t never);

  // Ascending.
  const std::vector<int>& layouts() const { return layouts_; }

  // The multiset with nothing in it.
  static constexpr int kEmpty = 0;
  // `set` with `count` more layers under `layout`.
  int With(int set, int layout, int count);

  // Layers under `layout`, as far as they matter.
  int Count(int set, int layout) const;

  // Whether no way over a third layout is shorter; then a walk visits a layout twice only
  // to end where it began.
  bool HasNoDetours();

  // A walk to come: through all of a set from a layout to another (-1: from or to any).
  struct Plan {
    int set = kEmpty;
    int first = -1;
    int last = -1;
  };
  // How many half moves more `a` takes than `b` at most, whatever layers are added to both;
  // at least `never` where that is not known. Both also have a layer under `always`.
  int64_t MostFarther(const Plan& a, const Plan& b, int always);

  // No walk through all of `set` and `layout` moves less.
  int64_t LeastHalfMove(int set, int layout);

  // Every best walk through all of a set: for each first and last layout the shortest one,
  // and longer ones where they visit some layout less often.
  const std::vector<LayoutWalk>& Walks(int set);

 private:
  // Ascending by layout; counts as far as they matter.
  using Set = std::vector<std::pair<int, int>>;
  struct Entry {
    Set set;
    std::optional<std::vector<LayoutWalk>> walks;
  };

  int64_t Move(int from, int to) const { return half_moves_[from * layout_count_ + to]; }
  int64_t LeastInto(int layout) const;
  void CompareMoves();
  int MostVisits();
  std::vector<LayoutWalk> FindWalks(const Set& set);
  std::vector<LayoutWalk> FindStraightWalks(const Set& set) const;
  void AddWalksFrom(const Set& set, int start, std::vector<LayoutWalk>& walks);

  absl::Span<const int64_t> half_moves_;
  int layout_count_;
  std::vector<int> layouts_;
  int64_t never_;
  std::optional<bool> has_no_detours_;
  // [layout], once moves were compared: what it takes at most to visit it on a way that goes on.
  std::vector<int64_t> most_detours_;
  // What going straight to each layout once takes more at most than the shortest ways there.
  int64_t most_shortcut_ = 0;
  std::map<Set, int> numbers_;
  std::vector<Entry> sets_;
  // By set, layout and count.
  std::map<std::pair<std::pair<int, int>, int>, int> extended_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_STAGE_LAYOUT_WALKS_H_
