// Reports a job's measurements while it runs, and never holds it up.

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
#include "absl/time/time.h"
#include "clients/cpp/execution_sink.h"
#include "parplan/v1/execution.pb.h"

namespace parplan {

struct ReporterOptions {
  // `clusters/{cluster}/plans/{plan}`.
  std::string plan;
  // Windows that wait for the server; when more come the oldest go.
  size_t max_window_count = 4096;
  // Between two tries: doubles from the first to the last, each time times a random factor
  // from 0.5 to 1.5, so that jobs do not come back all at once.
  absl::Duration first_pause = absl::Milliseconds(200);
  absl::Duration last_pause = absl::Seconds(30);
  absl::Duration call_timeout = absl::Seconds(5);
  // For all that is left when the job has ended.
  absl::Duration close_timeout = absl::Seconds(20);
  // Told the execution's name once the server has opened it, on the reporter's thread. May be
  // empty.
  std::function<void(const std::string& execution)> on_opened;
};

// What became of the windows.
struct ReportSummary {
  // Empty where the server never opened one.
  std::string execution;
  int64_t delivered_count = 0;
  // For want of room, or because the server refused them or could not be reached.
  int64_t lost_count = 0;
  // OK, or the last thing that went wrong.
  absl::Status trouble;
  // The server knows how the job ended.
  bool is_closed = false;
};

// Works on a thread of its own, of low priority and on any core. A server that cannot be
// reached is tried again and again until the job ends; one that knows no such plan or execution
// is given up.
class ExecutionReporter {
 public:
  using Connect = std::function<absl::StatusOr<std::unique_ptr<ExecutionSink>>()>;

  // `connect` is called on the reporter's thread.
  ExecutionReporter(ReporterOptions options, Connect connect);
  // Leaves what is left.
  ~ExecutionReporter();

  // Returns at once. From any thread.
  void Add(std::vector<v1::MeasuredWindow> windows);

  // Tells the server how the job ended, after what it has not had yet. Returns within
  // `close_timeout` and one `call_timeout`. To be called once.
  ReportSummary Finish(const absl::Status& outcome);

 private:
  void Work();
  // One thing that is to be done; false when there is none left.
  bool WorkOnce();
  absl::Status Open();
  absl::Status Send();
  absl::Status Close();
  // Whether another try makes sense.
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
  // Of the thread.
  std::unique_ptr<ExecutionSink> sink_;
  std::string execution_;
  bool has_given_up_ = false;
  absl::Duration pause_;
  std::thread thread_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_REPORT_EXECUTION_REPORTER_H_
