// Reports a job's measurements to a server while it runs, without ever delaying it. Rank 0 of
// `parplan-exec` has one, and so has each `parplan_report` of the C interface.

#ifndef PARPLAN_EXECUTOR_REPORT_EXECUTION_REPORTER_H_
#define PARPLAN_EXECUTOR_REPORT_EXECUTION_REPORTER_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "clients/cpp/execution_sink.h"
#include "parplan/v1/execution.pb.h"

namespace parplan {

// The plan whose execution is reported, and the patience with the server. The defaults were chosen;
// none was measured.
struct ReporterOptions {
  // `clusters/{cluster}/plans/{plan}`.
  std::string plan;
  // When the job began to run the plan, by which the server judges whether it had expired.
  absl::Time start_time = absl::Now();
  // Limit on the windows that wait for the server; beyond it the oldest are lost.
  size_t max_window_count = 4096;
  // Pause between two attempts: doubles from the first to the last, times a random factor from 0.5
  // to 1.5, so that jobs do not return at the same time.
  absl::Duration first_pause = absl::Milliseconds(200);
  absl::Duration last_pause = absl::Seconds(30);
  // Limit on one call to the server.
  absl::Duration call_timeout = absl::Seconds(5);
  // Limit for delivering everything that is left when the job has ended.
  absl::Duration close_timeout = absl::Seconds(20);
  // Called with the execution's name once the server has opened it, on the reporter's thread. May
  // be empty.
  std::function<void(const std::string& execution)> on_opened;
};

// Result of a report.
struct ReportSummary {
  // Name; empty if the server never opened an execution.
  std::string execution;
  int64_t delivered_count = 0;
  // Windows lost because the queue was full, or the server refused them or could not be reached.
  // After `Finish` every window counts as delivered or lost.
  int64_t lost_count = 0;
  // The last error of a call, also if later calls went well; OK if there was none, even if windows
  // were lost because the queue was full.
  absl::Status trouble;
  // Whether the server has taken how the job ended.
  bool is_closed = false;
};

// Works on a thread of its own, of low priority and on any core. Opens the execution as soon as it
// is made, before there are windows. It retries a server that cannot be reached, has no room or
// quota left, or does not accept the token or certificate, until `close_timeout` after `Finish` has
// passed (UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED, INTERNAL, UNKNOWN, UNAUTHENTICATED, and
// RESOURCE_EXHAUSTED but for UPLOAD_TOO_LARGE), and gives up at any other error, for example if the
// server does not know the plan or the execution; if a call with windows, of at most 256, is
// INVALID_ARGUMENT, they are lost, and it goes on. Any error of `connect` is retried as
// UNAVAILABLE, since a file may be being renewed; a caller that wants wrong options refused tries
// `connect` itself before. After it has given up, all windows are lost.
//
//   ExecutionReporter reporter({.plan = plan.name()}, connect);
//   reporter.Add(windows);                                    // whenever some are measured
//   const ReportSummary summary = reporter.Finish(outcome);   // once
class ExecutionReporter {
 public:
  using Connect = std::function<absl::StatusOr<std::unique_ptr<ExecutionSink>>()>;

  // `connect` is called on the reporter's thread, until it succeeds once.
  ExecutionReporter(ReporterOptions options, Connect connect);
  // Drops what was not delivered if `Finish` was not called, and does not close the execution;
  // waits for the call under way, at most `call_timeout`, or for `connect`, without limit.
  ~ExecutionReporter();

  // Hands over windows and returns at once. Any thread may call it.
  void Add(std::vector<v1::MeasuredWindow> windows);

  // Delivers the windows that wait, then how the job ended. Returns within `close_timeout`. If a
  // call was under way already, it waits for that one, at most `call_timeout`; for `connect` it
  // waits without limit. An error as `outcome` says that the job failed, with its message. Called
  // once, with no `Add` after it.
  ReportSummary Finish(const absl::Status& outcome);

 private:
  void Work();
  // Does one thing; false if nothing is left to do.
  bool WorkOnce();
  absl::Status Open();
  absl::Status Send();
  absl::Status Close();
  // Returns whether another attempt makes sense.
  static bool IsPassing(const absl::Status& status);
  absl::Duration NextPause();
  absl::Duration Timeout() const;

  const ReporterOptions options_;
  const Connect connect_;
  const std::string request_id_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::deque<v1::MeasuredWindow> queue_;
  bool is_finishing_ = false;
  bool is_leaving_ = false;
  absl::Status outcome_;
  absl::Duration deadline_ = absl::InfiniteDuration();
  ReportSummary summary_;
  // The members below belong to the thread.
  std::unique_ptr<ExecutionSink> sink_;
  std::string execution_;
  bool has_given_up_ = false;
  absl::Duration pause_;
  std::thread thread_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_REPORT_EXECUTION_REPORTER_H_
