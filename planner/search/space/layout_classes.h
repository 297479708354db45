// Classes of layouts that a relaxation may treat as one layout at little loss. `MaskSearch` asks
// for them; its callers make one object for all masks of a candidate.
//
// Words (docs/glossary.md): a mask is the set of options that a plan may use; a candidate is all
// plans of one batch size, pipeline degree, number of micro-batches and schedule; a definition is
// the sizes of a layer, the same for equal layers.

#ifndef PARPLAN_PLANNER_SEARCH_SPACE_LAYOUT_CLASSES_H_
#define PARPLAN_PLANNER_SEARCH_SPACE_LAYOUT_CLASSES_H_

#include <vector>

#include "base/units.h"
#include "planner/model/model_spec.h"
#include "planner/search/space/option_table.h"

namespace parplan {

// Computes classes of layouts on demand. Keeps references to its arguments, which must outlive it.
// Not thread-safe. REQUIRES, unchecked: `table` is usable and was made for `model`.
class LayoutClasses {
 public:
  LayoutClasses(const ModelSpec& model, const OptionTable& table) : model_(model), table_(table) {}

  // Returns [layout] the member that represents its class, which stands for itself. O(layouts^3).
  // Two layouts share a class if one is reached from the other, through other members of the class,
  // in moves that take at most `limit` each in either direction, and if the same layouts may
  // precede and follow both. Moves count with their longest time over the first 16 definitions of
  // the model.
  std::vector<int> Within(Seconds limit);

 private:
  void Compare();
  bool FollowAlike(int a, int b) const;

  const ModelSpec& model_;
  const OptionTable& table_;
  int definition_ = -1;
  // [a * layout count + b] the longest time of a move between layouts a and b, in either direction,
  // over the definitions that are compared.
  std::vector<Seconds> resharding_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_SPACE_LAYOUT_CLASSES_H_
