// What ties a call to the logs of those before and behind us.

#ifndef PARPLAN_SERVER_RPC_TRACE_H_
#define PARPLAN_SERVER_RPC_TRACE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace parplan {

// The metadata in which a caller names its call and the server answers with the
// name it logs.
inline constexpr char kRequestIdMetadata[] = "x-request-id";

// Whether a caller's request id may stand in logs as it is: 1 to 64 characters of
// A-Z a-z 0-9 . _ -
bool IsRequestId(absl::string_view text);

// 32 random hexadecimal digits.
std::string MakeRequestId();

// The trace id in a W3C `traceparent`, 32 hexadecimal digits; empty where the
// text has not the documented form.
std::string TraceIdOf(absl::string_view traceparent);

}  // namespace parplan

#endif  // PARPLAN_SERVER_RPC_TRACE_H_
