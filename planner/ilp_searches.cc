#include "planner/ilp_searches.h"

#include "planner/planners/ilp/ilp_planners.h"

namespace parplan {

IlpSearches IlpSearchesOfBuild() {
  return {.min_memory_ilp = SearchMinMemoryIlp, .alpa_like = SearchAlpaLike};
}

}  // namespace parplan
