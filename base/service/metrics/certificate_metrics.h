// When certificates end, for Prometheus.

#ifndef PARPLAN_BASE_SERVICE_METRICS_CERTIFICATE_METRICS_H_
#define PARPLAN_BASE_SERVICE_METRICS_CERTIFICATE_METRICS_H_

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace prometheus {
class Collectable;
}

namespace parplan {

// The end of the certificate that ends first among those of a text in PEM; absent where none
// can be read.
std::optional<absl::Time> EarliestExpiry(const std::string& pem);

// `parplan_tls_certificate_expiry_timestamp_seconds{file}` of files in PEM, by the label each
// gets; empty paths are left out. A file is read when it is collected and has changed; while it
// cannot be read, what it said last holds. Null where no path is given. Safe to collect from
// any thread.
std::shared_ptr<prometheus::Collectable> MakeCertificateMetrics(
    const std::map<std::string, std::string>& path_by_label);

}  // namespace parplan

#endif  // PARPLAN_BASE_SERVICE_METRICS_CERTIFICATE_METRICS_H_
