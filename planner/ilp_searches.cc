#include "planner/ilp_searches.h"

#include "planner/planners/ilp/draw_graph.h"
#include "planner/planners/ilp/ilp_planners.h"

namespace parplan {

IlpSearches IlpSearchesOfBuild() {
  return {.min_memory_ilp = SearchMinMemoryIlp,
          .alpa_like = SearchAlpaLike,
          .colossal_auto_like = SearchColossalAutoLike,
          .draw_graph = DrawGraph};
}

}  // namespace parplan
