#include "server/core/random_secret.h"

#include <sys/random.h>

#include <cerrno>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "base/check.h"

namespace parplan {

std::string RandomSecret() {
  char bytes[16];
  ssize_t count = 0;
  // Up to 256 bytes are returned whole; only a signal soon after boot interrupts the call.
  do {
    count = getrandom(bytes, sizeof(bytes), 0);
  } while (count < 0 && errno == EINTR);
  PARPLAN_CHECK(count == sizeof(bytes));
  return absl::BytesToHexString(absl::string_view(bytes, sizeof(bytes)));
}

}  // namespace parplan
