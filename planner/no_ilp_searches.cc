// Takes the place of ilp_searches.cc in builds with PARPLAN_WITH_ILP=OFF.

#include "planner/ilp_searches.h"

namespace parplan {

IlpSearches IlpSearchesOfBuild() { return {}; }

}  // namespace parplan
