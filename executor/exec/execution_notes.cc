#include "executor/exec/execution_notes.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "base/system/steady_clock.h"

namespace parplan {
namespace {

constexpr char kOpened[] = "opened ";
constexpr char kClosed[] = "closed ";
// Pause after the first failed call, which doubles, and the longest time of one call. Not measured.
constexpr absl::Duration kFirstPause = absl::Milliseconds(200);
constexpr absl::Duration kLongestCall = absl::Seconds(5);

}  // namespace

void NoteExecution(int descriptor, ExecutionEvent event, const std::string& execution) {
  if (descriptor < 0) return;
  const std::string line =
      absl::StrCat(event == ExecutionEvent::kOpened ? kOpened : kClosed, execution, "\n");
  // Shorter than PIPE_BUF, so a pipe takes it in one piece. Errors mean that the launcher is gone.
  (void)!::write(descriptor, line.data(), line.size());
}

std::vector<std::string> LeftOpen(absl::string_view notes) {
  std::vector<std::string> open;
  for (size_t end = notes.find('\n'); end != absl::string_view::npos; end = notes.find('\n')) {
    absl::string_view line = notes.substr(0, end);
    notes.remove_prefix(end + 1);
    if (absl::ConsumePrefix(&line, kOpened)) {
      open.emplace_back(line);
    } else if (absl::ConsumePrefix(&line, kClosed)) {
      open.erase(std::remove(open.begin(), open.end(), line), open.end());
    }
  }
  return open;
}

absl::Status FailExecution(
    const std::function<absl::StatusOr<std::unique_ptr<ExecutionSink>>()>& connect,
    const std::string& execution, const std::string& reason, absl::Duration timeout) {
  PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<ExecutionSink> sink, connect());
  const absl::Duration end = SteadyNow() + timeout;
  for (absl::Duration pause = kFirstPause;; pause *= 2) {
    const absl::Duration left = end - SteadyNow();
    const absl::Status status =
        sink->Fail(execution, reason, std::clamp(left, absl::Milliseconds(1), kLongestCall));
    // FAILED_PRECONDITION: the execution has ended already.
    if (status.ok() || absl::IsFailedPrecondition(status)) return absl::OkStatus();
    if (absl::IsNotFound(status) || absl::IsInvalidArgument(status)) return status;
    if (SteadyNow() + pause >= end) {
      return absl::DeadlineExceededError(
          absl::StrCat("cannot report to the server that ", execution,
                       " failed; the server will close it as abandoned: ", status.message()));
    }
    absl::SleepFor(pause);
  }
}

}  // namespace parplan
