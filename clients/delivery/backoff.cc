#include "clients/delivery/backoff.h"

#include <algorithm>

namespace parplan {

absl::Duration BackoffPause(const BackoffOptions& options, int failure_count, double random) {
  absl::Duration pause = options.first_pause;
  for (int i = 1; i < failure_count && pause < options.longest_pause; ++i) pause *= 2;
  return std::min(pause, options.longest_pause) * (0.5 + 0.5 * random);
}

}  // namespace parplan
