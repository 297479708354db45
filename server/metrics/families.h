// Makes families of metrics and their buckets, in seconds where these are times. Families and
// metrics belong to the registry and live as long as it; the lists of buckets that are returned by
// reference live as long as the process. `PrometheusObserver` and `ClusterSeries` make their
// metrics by it.

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

// Make the family `name` in `registry`, which owns it; `help` says to people what it counts.
prometheus::Family<prometheus::Counter>& Counters(prometheus::Registry& registry, const char* name,
                                                  const char* help);
prometheus::Family<prometheus::Gauge>& Gauges(prometheus::Registry& registry, const char* name,
                                              const char* help);
prometheus::Family<prometheus::Histogram>& Histograms(prometheus::Registry& registry,
                                                      const char* name, const char* help);

// Make a family with one metric, which has no labels.
prometheus::Counter& OneCounter(prometheus::Registry& registry, const char* name, const char* help);
prometheus::Gauge& OneGauge(prometheus::Registry& registry, const char* name, const char* help);

// Returns buckets from 100 microseconds to 10 minutes, for calls and searches. A list of buckets
// holds their upper bounds, ascending; what is above the last counts in a bucket without a bound
// that every histogram has.
const Buckets& DurationBuckets();

// Returns buckets from 10 microseconds to 10 seconds, for calls of a store.
const Buckets& StoreBuckets();

// Returns buckets from 10 milliseconds to 10 minutes, for one optimizer step.
const Buckets& StepBuckets();

// Returns buckets from 0.5 to 2, for measured over predicted values.
const Buckets& RatioBuckets();

// Returns the upper bounds of `count` buckets: `first`, `first * factor`, ...
Buckets Exponential(double first, double factor, int count);

}  // namespace parplan

#endif  // PARPLAN_SERVER_METRICS_FAMILIES_H_
