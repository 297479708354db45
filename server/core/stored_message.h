// Parses messages that the store keeps as bytes. The parts of the core parse with it what they read
// from the store.

#ifndef PARPLAN_SERVER_CORE_STORED_MESSAGE_H_
#define PARPLAN_SERVER_CORE_STORED_MESSAGE_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "parplan/v1/plan.pb.h"
#include "server/store/records.h"

namespace parplan {

// Returns the error of a record that is not what was stored under `name`: DATA_LOSS
// (STORE_UNAVAILABLE).
inline absl::Status DamagedError(const std::string& name) {
  return MakeError(
      absl::StatusCode::kDataLoss, Reason::kStoreUnavailable,
      absl::StrCat("what is stored as ", name, " is damaged; restore the store from a backup"));
}

// Parses what was stored under `name`, which only the error names, into a message that may have
// been used before; its contents are replaced. DATA_LOSS (STORE_UNAVAILABLE) if the bytes are
// damaged.
template <typename Message>
absl::Status ParseStoredInto(const std::string& bytes, const std::string& name, Message& message) {
  if (message.ParseFromString(bytes)) return absl::OkStatus();
  return DamagedError(name);
}

// Returns what was stored under `name`. The same error.
template <typename Message>
absl::StatusOr<Message> ParseStored(const std::string& bytes, const std::string& name) {
  Message message;
  absl::Status status = ParseStoredInto(bytes, name, message);
  if (!status.ok()) return status;
  return message;
}

// Returns a stored plan with its spec, if the record has that (`PlanRecord::spec`). The same error,
// also for the plan of another record: its signature holds, and it answers another question.
inline absl::StatusOr<v1::Plan> ParseStoredPlan(const PlanRecord& record) {
  absl::StatusOr<v1::Plan> plan = ParseStored<v1::Plan>(record.bytes, record.name);
  if (!plan.ok()) return plan;
  if (plan->name() != record.name) return DamagedError(record.name);
  if (record.spec.empty()) return plan;
  absl::StatusOr<v1::PlanSpec> spec = ParseStored<v1::PlanSpec>(record.spec, record.name);
  if (!spec.ok()) return spec.status();
  *plan->mutable_spec() = *std::move(spec);
  return plan;
}

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_STORED_MESSAGE_H_
