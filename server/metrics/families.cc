#include "server/metrics/families.h"

namespace parplan {

prometheus::Family<prometheus::Counter>& Counters(prometheus::Registry& registry, const char* name,
                                                  const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

prometheus::Family<prometheus::Gauge>& Gauges(prometheus::Registry& registry, const char* name,
                                              const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
}

prometheus::Family<prometheus::Histogram>& Histograms(prometheus::Registry& registry,
                                                      const char* name, const char* help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
}

prometheus::Counter& OneCounter(prometheus::Registry& registry, const char* name,
                                const char* help) {
  return Counters(registry, name, help).Add({});
}

prometheus::Gauge& OneGauge(prometheus::Registry& registry, const char* name, const char* help) {
  return Gauges(registry, name, help).Add({});
}

const Buckets& DurationBuckets() {
  static const Buckets* const buckets =
      new Buckets{0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,  0.1,   0.25,
                  0.5,    1.0,    2.5,   5.0,    10.0,  30.0, 60.0,  120.0, 300.0, 600.0};
  return *buckets;
}

const Buckets& StoreBuckets() {
  static const Buckets* const buckets =
      new Buckets{0.00001, 0.0001, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0};
  return *buckets;
}

const Buckets& StepBuckets() {
  static const Buckets* const buckets =
      new Buckets{0.01, 0.03, 0.1, 0.3, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 300.0, 600.0};
  return *buckets;
}

const Buckets& RatioBuckets() {
  static const Buckets* const buckets =
      new Buckets{0.5, 0.7, 0.8, 0.9, 0.95, 0.97, 1.0, 1.03, 1.05, 1.1, 1.2, 1.5, 2.0};
  return *buckets;
}

Buckets Exponential(double first, double factor, int count) {
  Buckets buckets;
  for (int i = 0; i < count; ++i) {
    buckets.push_back(first);
    first *= factor;
  }
  return buckets;
}

}  // namespace parplan
