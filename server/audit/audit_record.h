// The lines of an audit log: who changed what, who was refused, and which plans were signed.
// `CallGuard` and `PlanCore` write them, and `AuditFile` keeps them.

#ifndef PARPLAN_SERVER_AUDIT_AUDIT_RECORD_H_
#define PARPLAN_SERVER_AUDIT_AUDIT_RECORD_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace parplan {

// One line of an audit log.
struct AuditRecord {
  enum class Event {
    // A call that changes something is about to do so. Calls that make plans have `kSignature`
    // instead.
    kCall,
    // A plan was signed and is about to be stored and handed out.
    kSignature,
    // A call was refused: no role of the caller allows the call, the caller's token is not
    // accepted, or the job has a plan of another caller. The call changes nothing, so the caller
    // does not wait until the line is written.
    kRefusal,
  };

  Event event = Event::kCall;
  // `Identity::text` of the caller.
  std::string identity;
  // Name of the role that allows the call; in a refusal, all roles that the caller holds in the
  // cluster, separated by blanks. Empty if the caller holds none, and if the server does not
  // restrict callers.
  std::string role;
  // Name in the contract: `CreatePlan`.
  std::string method;
  // Name in the request.
  std::string resource;
  // Job and resource name of the plan, and ids of the keys that signed it; each empty if the event
  // has none or the guard did not look it up.
  std::string job_id;
  std::string plan;
  std::vector<std::string> key_ids;
  // Id of the call in the log of the server (`CallContext::request_id`).
  std::string request_id;
};

// Receives records. Safe to use from any thread.
class AuditSink {
 public:
  virtual ~AuditSink() = default;

  // Writes the record. After an error, UNAVAILABLE (AUDIT_UNAVAILABLE), the caller must not do what
  // the record says. May wait for the disk, except for refusals.
  virtual absl::Status Write(const AuditRecord& record) = 0;

  // Returns a sink that drops all records and always returns OK. It lives as long as the process.
  static AuditSink& Null();
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_AUDIT_AUDIT_RECORD_H_
