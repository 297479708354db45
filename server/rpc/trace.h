// Ids that connect a call with the logs of its caller. `Call` reads and makes them.

#ifndef PARPLAN_SERVER_RPC_TRACE_H_
#define PARPLAN_SERVER_RPC_TRACE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace parplan {

// The metadata in which a caller sends an id for its call, and the server returns the id it logs.
// It has nothing to do with the field `request_id` of requests.
inline constexpr char kRequestIdMetadata[] = "x-request-id";

// Returns whether a caller's request id may be logged as it is: 1 to 64 characters of
// A-Z a-z 0-9 . _ -
bool IsRequestId(absl::string_view text);

// Returns 32 random hexadecimal digits in lower case, which can be guessed: an id and no secret.
// Safe to call from any thread.
std::string MakeRequestId();

// Returns the trace id in a W3C `traceparent`, 32 hexadecimal digits in lower case; empty if the
// text does not have the documented form, which excludes upper case, a trace or parent id of zeros
// and version `ff`. Later versions than `00` may have more parts.
std::string TraceIdOf(absl::string_view traceparent);

}  // namespace parplan

#endif  // PARPLAN_SERVER_RPC_TRACE_H_
