// Short ways to make families of metrics.

#ifndef PARPLAN_SERVER_METRICS_FAMILIES_H_
#define PARPLAN_SERVER_METRICS_FAMILIES_H_

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <map>
#include <string>

namespace parplan {

using MetricLabels = std::map<std::string, std::string>;
using Buckets = prometheus::Histogram::BucketBoundaries;

prometheus::Family<prometheus::Counter>& Counters(prometheus::Registry& registry, const char* name,
                                                  const char* help);
prometheus::Family<prometheus::Gauge>& Gauges(prometheus::Registry& registry, const char* name,
                                              const char* help);
prometheus::Family<prometheus::Histogram>& Histograms(prometheus::Registry& registry,
                                                      const char* name, const char* help);

// Without labels.
prometheus::Counter& OneCounter(prometheus::Registry& registry, const char* name, const char* help);
prometheus::Gauge& OneGauge(prometheus::Registry& registry, const char* name, const char* help);

// 100 microseconds to 10 minutes: calls and searches.
const Buckets& DurationBuckets();

// 10 microseconds to 10 seconds: a store.
const Buckets& StoreBuckets();

// 10 milliseconds to 10 minutes: one optimizer step.
const Buckets& StepBuckets();

// Measured over predicted: 0.5 to 2.
const Buckets& RatioBuckets();

// `first`, `first * factor`, ..., `count` of them.
Buckets Exponential(double first, double factor, int count);

}  // namespace parplan

#endif  // PARPLAN_SERVER_METRICS_FAMILIES_H_
