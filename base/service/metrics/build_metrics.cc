#include "base/service/metrics/build_metrics.h"

#include <prometheus/gauge.h>
#include <prometheus/registry.h>

namespace parplan {

void AddBuildInfo(prometheus::Registry& registry, const std::string& program,
                  const std::string& version) {
  prometheus::BuildGauge()
      .Name("parplan_build_info")
      .Help("Always 1; the labels say which release runs.")
      .Register(registry)
      .Add({{"program", program}, {"version", version}})
      .Set(1.0);
}

}  // namespace parplan
