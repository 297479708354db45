// Parses messages that the store keeps as bytes. The parts of the core parse with it what they read
// from the store.

#ifndef PARPLAN_SERVER_CORE_STORED_MESSAGE_H_
#define PARPLAN_SERVER_CORE_STORED_MESSAGE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace parplan {

// Parses what was stored under `name`. DATA_LOSS (STORE_UNAVAILABLE) if the bytes are damaged.
template <typename Message>
absl::StatusOr<Message> ParseStored(const std::string& bytes, const std::string& name) {
  Message message;
  if (!message.ParseFromString(bytes)) {
    return MakeError(
        absl::StatusCode::kDataLoss, Reason::kStoreUnavailable,
        absl::StrCat("what is stored as ", name, " is damaged; restore the store from a backup"));
  }
  return message;
}

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_STORED_MESSAGE_H_
