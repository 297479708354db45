// The metric of which release of which program runs. The server and the agent add it once, when
// they start.

#ifndef PARPLAN_BASE_SERVICE_METRICS_BUILD_METRICS_H_
#define PARPLAN_BASE_SERVICE_METRICS_BUILD_METRICS_H_

#include <string>

namespace prometheus {
class Registry;
}

namespace parplan {

// Adds the gauge `parplan_build_info{program,version}`, which is always 1. `program` is a name such
// as `parplan-server`, `version` its release. `registry` owns the gauge; a second call with the
// same texts changes nothing.
void AddBuildInfo(prometheus::Registry& registry, const std::string& program,
                  const std::string& version);

}  // namespace parplan

#endif  // PARPLAN_BASE_SERVICE_METRICS_BUILD_METRICS_H_
