#include "planner/search/stage/layout_walks.h"

#include <algorithm>
#include <numeric>

namespace parplan {
namespace {

// Operations that a place of a walk counts as: some insertions into a map.
constexpr int64_t kWorkOfPlace = 200;

}  // namespace

LayoutWalks::LayoutWalks(absl::Span<const int64_t> half_resharding, int layout_count,
                         std::vector<int> layouts, int64_t never, SearchMeter& meter)
    : half_resharding_(half_resharding),
      layout_count_(layout_count),
      layouts_(std::move(layouts)),
      never_(never),
      meter_(&meter) {
  std::sort(layouts_.begin(), layouts_.end());
  layouts_.erase(std::unique(layouts_.begin(), layouts_.end()), layouts_.end());
  sets_.emplace_back();
  numbers_[Set()] = kEmpty;
}

bool LayoutWalks::HasNoDetours() {
  if (has_no_detours_) return *has_no_detours_;
  // Differences of up to two ticks are rounding.
  constexpr int64_t kSlack = 2;
  has_no_detours_ = true;
  for (int over : layouts_) {
    for (int from : layouts_) {
      for (int to : layouts_) {
        if (from == to) continue;
        if (HalfResharding(from, over) + HalfResharding(over, to) + kSlack <
            HalfResharding(from, to))
          has_no_detours_ = false;
      }
    }
  }
  return *has_no_detours_;
}

// Returns the most visits of a layout that can be useful. A walk goes straight through new layouts,
// or over old ones, each at most once between two new ones and at the end.
int LayoutWalks::MaxVisits() { return HasNoDetours() ? 2 : static_cast<int>(layouts_.size()) + 1; }

int LayoutWalks::With(int set, int layout, int count) {
  const int capped = layouts_.size() == 1 ? 1 : std::min(count, MaxVisits());
  const auto [found, is_new] = extended_.try_emplace({{set, layout}, capped}, 0);
  if (!is_new) return found->second;
  Set larger = sets_[set].set;
  const auto place = std::lower_bound(larger.begin(), larger.end(), std::pair(layout, 0));
  if (place != larger.end() && place->first == layout) {
    place->second = std::min(place->second + capped, MaxVisits());
  } else {
    larger.insert(place, {layout, capped});
  }
  const auto [number, is_unknown] = numbers_.try_emplace(larger, static_cast<int>(sets_.size()));
  if (is_unknown) sets_.push_back({std::move(larger), std::nullopt});
  found->second = number->second;
  return number->second;
}

int LayoutWalks::Count(int set, int layout) const {
  for (const auto& [member, count] : sets_[set].set) {
    if (member == layout) return count;
  }
  return 0;
}

void LayoutWalks::CompareResharding() {
  if (!max_detours_.empty()) return;
  max_detours_.assign(layout_count_, 0);
  // [from * layout_count_ + to] the shortest moves through any layouts.
  std::vector<int64_t> shortest(half_resharding_.begin(), half_resharding_.end());
  for (int by : layouts_) {
    for (int from : layouts_) {
      for (int to : layouts_) {
        int64_t& through = shortest[from * layout_count_ + to];
        through = std::min(through,
                           shortest[from * layout_count_ + by] + shortest[by * layout_count_ + to]);
      }
    }
  }
  max_shortcut_ = 0;
  for (int to : layouts_) {
    int64_t largest = 0;
    for (int from : layouts_) {
      if (from == to) continue;
      largest = std::max(largest, std::min(never_, HalfResharding(from, to)) -
                                      shortest[from * layout_count_ + to]);
    }
    max_shortcut_ = std::min(never_, max_shortcut_ + largest);
  }
  for (int by : layouts_) {
    int64_t& largest = max_detours_[by];
    for (int from : layouts_) {
      for (int to : layouts_) {
        if (from == by || to == by) continue;
        const int64_t there_and_on =
            std::min(never_, HalfResharding(from, by) + HalfResharding(by, to));
        largest = std::max(largest, there_and_on - (from == to ? 0 : HalfResharding(from, to)));
      }
    }
  }
}

// From a walk for `b`, with added layers, a walk for `a` is constructed: it begins and ends with
// the layouts `a` requires, visits the other layouts of `a` in the order in which `b` first does,
// and visits those only `a` has on the way. If moves through a third layout are shorter than direct
// ones, going straight to each layout costs at most `max_shortcut_` more.
int64_t LayoutWalks::MaxExtraResharding(const OpenWalk& a, const OpenWalk& b, int always) {
  const bool same_ends = a.first == b.first && a.last == b.last;
  if (a.set == b.set && same_ends) return 0;
  CompareResharding();
  int64_t farther = max_shortcut_;
  if (!same_ends) {
    if ((a.first < 0) != (b.first < 0) || (a.last < 0) != (b.last < 0)) return never_;
    // The walk for `b` has layers for its own ends; `a` must have them for its ends.
    const auto has = [&](int layout, int count) {
      return layout < 0 || Count(a.set, layout) + (layout == always ? 1 : 0) >= count;
    };
    if (!has(a.first, a.first == a.last ? 2 : 1) || !has(a.last, 1)) return never_;
    if (a.first != b.first) farther += HalfResharding(a.first, b.first);
    if (a.last != b.last) farther += HalfResharding(b.last, a.last);
  }
  const auto is_end = [&](int layout) { return layout == a.first || layout == a.last; };
  if (same_ends) {
    // Ends are visited in any case, so the number of their layers matters.
    for (const auto& [layout, count] : sets_[b.set].set) {
      if (is_end(layout) && Count(a.set, layout) < count) return never_;
    }
  }
  for (const auto& [layout, count] : sets_[a.set].set) {
    if (is_end(layout) || layout == always || Count(b.set, layout) > 0) continue;
    // If the whole walk is one layout, beginning and ending in it takes two layers of it.
    if (a.first >= 0 && a.first == a.last &&
        Count(a.set, a.first) + (a.first == always ? 1 : 0) < 2) {
      return never_;
    }
    farther += max_detours_[layout];
    if (farther >= never_) break;
  }
  return std::min(never_, farther);
}

int64_t LayoutWalks::LeastInto(int layout) const {
  int64_t least = never_;
  for (int from : layouts_) {
    if (from != layout) least = std::min(least, HalfResharding(from, layout));
  }
  return least;
}

int64_t LayoutWalks::LeastHalfResharding(int set, int layout) {
  const Set& members = sets_[set].set;
  if (members.empty() || (members.size() == 1 && members[0].first == layout)) return 0;
  // Every layout but the first is entered.
  int64_t sum = LeastInto(layout);
  int64_t largest = sum;
  for (const auto& [member, count] : members) {
    if (member == layout) continue;
    const int64_t into = LeastInto(member);
    sum += into;
    largest = std::max(largest, into);
  }
  return sum - largest;
}

const std::vector<LayoutWalk>& LayoutWalks::Walks(int set) {
  if (!sets_[set].walks) {
    std::vector<LayoutWalk> walks = FindWalks(sets_[set].set);
    sets_[set].walks = std::move(walks);
  }
  return *sets_[set].walks;
}

std::vector<LayoutWalk> LayoutWalks::FindWalks(const Set& set) {
  std::vector<LayoutWalk> walks;
  if (set.size() == 1) {
    walks.push_back({{set[0].first}, 0});
    return walks;
  }
  // Up to this many layouts all orders are tried: at most 4! = 24. With more, the dynamic programme
  // of `AddWalksFrom` is faster.
  constexpr size_t kFew = 4;
  if (set.size() <= kFew && HasNoDetours()) return FindStraightWalks(set);
  for (size_t start = 0; start < set.size(); ++start) {
    AddWalksFrom(set, static_cast<int>(start), walks);
  }
  return walks;
}

// Tries every order, each also with a return to its first layout.
std::vector<LayoutWalk> LayoutWalks::FindStraightWalks(const Set& set) const {
  const auto size = static_cast<int>(set.size());
  // [first * size + last]
  std::vector<LayoutWalk> best(static_cast<size_t>(size) * size, {{}, never_});
  std::vector<int> order(size);
  std::iota(order.begin(), order.end(), 0);
  const auto offer = [&](int last, int64_t half_resharding, bool returns) {
    LayoutWalk& walk = best[order.front() * size + last];
    if (half_resharding >= walk.half_resharding) return;
    walk.half_resharding = half_resharding;
    walk.layouts.clear();
    for (int place : order) walk.layouts.push_back(set[place].first);
    if (returns) walk.layouts.push_back(set[last].first);
  };
  do {
    int64_t half_resharding = 0;
    for (int place = 1; place < size; ++place) {
      half_resharding += HalfResharding(set[order[place - 1]].first, set[order[place]].first);
    }
    offer(order.back(), half_resharding, /*returns=*/false);
    if (set[order.front()].second < 2) continue;
    offer(order.front(),
          half_resharding + HalfResharding(set[order.back()].first, set[order.front()].first),
          /*returns=*/true);
  } while (std::next_permutation(order.begin(), order.end()));
  std::erase_if(best, [](const LayoutWalk& walk) { return walk.layouts.empty(); });
  return best;
}

// Finds the shortest walk for each pair of visits made and current layout.
void LayoutWalks::AddWalksFrom(const Set& set, int start, std::vector<LayoutWalk>& walks) {
  struct Place {
    int64_t half_resharding = 0;
    // The previous place; -1 at the start.
    int before = -1;
  };
  using Key = std::pair<std::vector<uint8_t>, int>;
  const int size = static_cast<int>(set.size());
  const bool straight = HasNoDetours();
  std::map<Key, Place> reached;
  std::vector<uint8_t> visits(size, 0);
  visits[start] = 1;
  reached[{visits, start}] = {};
  // Keys whose walk has one more visit, round by round.
  std::vector<Key> round = {{visits, start}};
  std::vector<Key> complete;
  while (!round.empty()) {
    std::vector<Key> next_round;
    for (const Key& key : round) {
      if (!meter_->Work(kWorkOfPlace)) return;
      const bool visits_all = std::count(key.first.begin(), key.first.end(), 0) == 0;
      if (visits_all) complete.push_back(key);
      if (straight && key.first[start] == 2) continue;
      const Place here = reached[key];
      for (int to = 0; to < size; ++to) {
        if (to == key.second || key.first[to] >= set[to].second) continue;
        if (straight && key.first[to] > 0 && !(visits_all && to == start)) continue;
        const int64_t half_resharding =
            here.half_resharding + HalfResharding(set[key.second].first, set[to].first);
        if (half_resharding >= never_) continue;
        Key next = {key.first, to};
        ++next.first[to];
        const auto [found, is_new] = reached.try_emplace(next, Place{half_resharding, key.second});
        if (is_new) {
          next_round.push_back(std::move(next));
        } else if (half_resharding < found->second.half_resharding) {
          found->second = {half_resharding, key.second};
        }
      }
    }
    round = std::move(next_round);
  }
  for (const Key& key : complete) {
    if (!meter_->Work(kWorkOfPlace + static_cast<int64_t>(complete.size()))) return;
    const int64_t half_resharding = reached[key].half_resharding;
    const bool is_dominated = std::any_of(complete.begin(), complete.end(), [&](const Key& other) {
      if (other.second != key.second || other == key) return false;
      const int64_t move = reached[other].half_resharding;
      for (int i = 0; i < size; ++i) {
        if (other.first[i] > key.first[i]) return false;
      }
      return move <= half_resharding;
    });
    if (is_dominated) continue;
    LayoutWalk walk = {{}, half_resharding};
    for (Key at = key; at.second >= 0;) {
      walk.layouts.push_back(set[at.second].first);
      const int before = reached[at].before;
      --at.first[at.second];
      at.second = before;
    }
    std::reverse(walk.layouts.begin(), walk.layouts.end());
    walks.push_back(std::move(walk));
  }
}

}  // namespace parplan
