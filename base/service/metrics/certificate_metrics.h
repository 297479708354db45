// Metrics of when certificates expire. The server, the agent and the sidecar expose them.

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

// Returns the earliest time at which one of the certificates in a text in PEM expires; absent if
// none can be read. Blocks of other kinds than CERTIFICATE and TRUSTED CERTIFICATE are passed over,
// and nothing is read behind the first certificate that is damaged, as gRPC does. Empties OpenSSL's
// queue of errors of this thread.
std::optional<absl::Time> EarliestExpiry(const std::string& pem);

// Makes `parplan_tls_certificate_expiry_timestamp_seconds{file}` for files in PEM, by the label
// that each gets: the `EarliestExpiry` in seconds since 1970. Empty paths are left out. A file is
// read again on collection if its time of change is another, and on each collection until it has a
// certificate; while it cannot be read, is no regular file or has no certificate, its last value
// stays, and before the first it has no series. Returns null if all paths are empty. Safe to
// collect from any thread; a collection waits for another one and for the disk. The caller keeps
// the pointer as long as the metrics shall be exposed, since prometheus-cpp's exposer does not.
std::shared_ptr<prometheus::Collectable> MakeCertificateMetrics(
    const std::map<std::string, std::string>& path_by_label);

}  // namespace parplan

#endif  // PARPLAN_BASE_SERVICE_METRICS_CERTIFICATE_METRICS_H_
