// The texts that enums have as label values. Stable once released: dashboards
// and alerts are written against them.

#ifndef PARPLAN_SERVER_METRICS_LABEL_H_
#define PARPLAN_SERVER_METRICS_LABEL_H_

#include <string>

#include "absl/status/status.h"
#include "base/error.h"
#include "server/core/observer.h"

namespace parplan {

// Values of `Reason` are 1 to this.
inline constexpr int kReasonCount = 19;

// Values of `absl::StatusCode` are 0 to one below this.
inline constexpr int kStatusCodeCount = 17;

// Values of `Phase` and `MemoryItemKind` of the contract are 1 to these.
inline constexpr int kPhaseCount = 12;
inline constexpr int kMemoryItemCount = 13;

// Return the contract's name in lower case without the prefix: `gradient_sync`, `parameters`.
std::string PhaseLabel(int phase);
std::string MemoryItemLabel(int kind);

// Returns gRPC's name: `OK`, `NOT_FOUND`.
std::string StatusCodeLabel(absl::StatusCode code);

// Returns the name on the wire: `PROFILE_MISSING`.
std::string ReasonLabel(Reason reason);

// Return the name in lower case, words joined by `_`.
std::string CacheKindLabel(CacheKind cache);
std::string SearchOutcomeLabel(SearchOutcome outcome);
std::string VerifyOutcomeLabel(VerifyOutcome outcome);
std::string LeaseOutcomeLabel(LeaseOutcome outcome);
std::string LeaseRefusalLabel(LeaseRefusalKind kind);

// Returns `within_node` or `across_nodes`.
std::string LinkReachLabel(LinkReach reach);

// Returns the name in lower case, words joined by `_`: `all_reduce`.
std::string CollectiveLabel(Collective collective);

}  // namespace parplan

#endif  // PARPLAN_SERVER_METRICS_LABEL_H_
