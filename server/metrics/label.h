// Label values of enums in metrics. The enums are those of server/core/observer.h and base/error.h.
// Stable once released: dashboards and alerts are written against them. `PrometheusObserver`,
// `ClusterSeries` and the log of calls use them.

#ifndef PARPLAN_SERVER_METRICS_LABEL_H_
#define PARPLAN_SERVER_METRICS_LABEL_H_

#include <string>

#include "absl/status/status.h"
#include "base/error.h"
#include "server/core/observer.h"

namespace parplan {

// Number of values of `absl::StatusCode`; they start at 0.
inline constexpr int kStatusCodeCount = 17;

// Highest values of `Reason`, and of `Phase` and `MemoryItemKind` of the contract; all start at 1.
// server/rpc/status_to_grpc.cc asserts that they equal those of the generated enums, which this
// folder may not include.
inline constexpr int kReasonCount = 23;
inline constexpr int kPhaseCount = 12;
inline constexpr int kMemoryItemCount = 13;

// Return the contract's name in lower case without the prefix: `gradient_sync`, `parameters`. An
// unknown value gives `other`.
std::string PhaseLabel(int phase);
std::string MemoryItemLabel(int kind);

// Returns gRPC's name: `OK`, `NOT_FOUND`. An unknown value gives an empty text.
std::string StatusCodeLabel(absl::StatusCode code);

// Returns the name on the wire: `PROFILE_MISSING`. An unknown value gives `UNKNOWN`.
std::string ReasonLabel(Reason reason);

// Return the name in lower case, words joined by `_`: `bad_signature`. An unknown value gives
// `other`.
std::string CacheKindLabel(CacheKind cache);
std::string SearchOutcomeLabel(SearchOutcome outcome);
std::string VerifyOutcomeLabel(VerifyOutcome outcome);
std::string LeaseOutcomeLabel(LeaseOutcome outcome);
std::string LeaseRefusalLabel(LeaseRefusalKind kind);

// Returns `within_node` or `across_nodes`.
std::string LinkReachLabel(LinkReach reach);

// Returns the name in lower case, words joined by `_`: `all_reduce`. An unknown value gives
// `other`.
std::string CollectiveLabel(Collective collective);

}  // namespace parplan

#endif  // PARPLAN_SERVER_METRICS_LABEL_H_
