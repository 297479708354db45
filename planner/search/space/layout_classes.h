// Layouts that may stand for each other where little is lost by it.

#ifndef PARPLAN_PLANNER_SEARCH_SPACE_LAYOUT_CLASSES_H_
#define PARPLAN_PLANNER_SEARCH_SPACE_LAYOUT_CLASSES_H_

#include <vector>

#include "base/units.h"
#include "planner/model/model_spec.h"
#include "planner/search/space/option_table.h"

namespace parplan {

// Nothing is computed before it is asked for. Keeps references to its arguments; not to be used
// by two threads at once.
class LayoutClasses {
 public:
  LayoutClasses(const ModelSpec& model, const OptionTable& table) : model_(model), table_(table) {}

  // [layout] the layout that stands for its class. Of one class are layouts between which, over
  // others of the class, layers move in at most `most` each, and which may follow the same.
  std::vector<int> Within(Seconds most);

 private:
  void Compare();
  bool FollowAlike(int a, int b) const;

  const ModelSpec& model_;
  const OptionTable& table_;
  int definition_ = -1;
  // [a * layout count + b] how long a layer takes between the two at most.
  std::vector<Seconds> moves_;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_SEARCH_SPACE_LAYOUT_CLASSES_H_
