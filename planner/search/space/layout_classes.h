// Classes of layouts that a relaxation may treat as one layout at little loss. Used by
// `MaskSearch`.

#ifndef PARPLAN_PLANNER_SEARCH_SPACE_LAYOUT_CLASSES_H_
#define PARPLAN_PLANNER_SEARCH_SPACE_LAYOUT_CLASSES_H_

#include <vector>

#include "base/units.h"
#include "planner/model/model_spec.h"
#include "planner/search/space/option_table.h"

namespace parplan {

// Computes classes of layouts on demand. Keeps references to its arguments. Not thread-safe.
class LayoutClasses {
 public:
  LayoutClasses(const ModelSpec& model, const OptionTable& table) : model_(model), table_(table) {}

  // Returns, for each layout, the layout that represents its class. Two layouts share a class if a
  // layer gets from one to the other, through other members of the class, in moves of at most
  // `limit` each, and if the same layers may follow both.
  std::vector<int> Within(Seconds limit);

 private:
  void Compare();
  bool FollowAlike(int a, int b) const;

  const ModelSpec& model_;
  const OptionTable& table_;
  int definition_ = -1;
  // [a * layout count + b] the longest time any layer takes to move from layout a to b.
  std::vector<Seconds> resharding_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_SPACE_LAYOUT_CLASSES_H_
