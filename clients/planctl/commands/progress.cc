#include "clients/planctl/commands/progress.h"

#include <unistd.h>

#include <cstdio>
#include <string>

#include "absl/strings/str_format.h"

namespace parplan::planctl {

using std::chrono::steady_clock;

ProgressLine::ProgressLine(bool quiet)
    : quiet_(quiet),
      is_terminal_(isatty(STDERR_FILENO) == 1),
      next_(steady_clock::now() + std::chrono::seconds(1)) {}

ProgressLine::~ProgressLine() {
  if (shown_ && is_terminal_) std::fputs("\r\033[K", stderr);
}

void ProgressLine::Show(const v1::SearchProgress& progress) {
  const steady_clock::time_point now = steady_clock::now();
  if (quiet_ || now < next_) return;
  next_ = now + std::chrono::milliseconds(is_terminal_ ? 200 : 5000);
  shown_ = true;
  std::string text =
      absl::StrFormat("searching: %d of %d candidates", progress.done_candidate_count(),
                      progress.total_candidate_count());
  if (progress.has_incumbent_step_duration()) {
    const double step = static_cast<double>(progress.incumbent_step_duration().seconds()) +
                        1e-9 * progress.incumbent_step_duration().nanos();
    const double bound = static_cast<double>(progress.step_duration_bound().seconds()) +
                         1e-9 * progress.step_duration_bound().nanos();
    absl::StrAppendFormat(&text, ", best step %.4g s, bound %.4g s, gap %.2f %%", step, bound,
                          100.0 * progress.gap_ratio());
  }
  std::fprintf(stderr, is_terminal_ ? "\r\033[K%s" : "%s\n", text.c_str());
  std::fflush(stderr);
}

}  // namespace parplan::planctl
