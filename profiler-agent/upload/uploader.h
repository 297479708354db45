// Brings queued profiles to the server, however long that is away.

#ifndef PARPLAN_PROFILER_AGENT_UPLOAD_UPLOADER_H_
#define PARPLAN_PROFILER_AGENT_UPLOAD_UPLOADER_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "clients/delivery/backoff.h"
#include "profiler-agent/upload/upload_queue.h"

namespace parplan {

// Whether another attempt can succeed: the server was away, busy, or wrong itself. A wrong
// certificate may be put right, too.
bool MayRetryUpload(const absl::Status& status);

struct UploadCounts {
  int64_t done = 0;
  // Attempts that will be repeated.
  int64_t failed = 0;
  // Those the server will never take.
  int64_t refused = 0;
  // Of the last attempt.
  absl::Status last_status;
};

// One thread, which sleeps while there is nothing to do.
class Uploader {
 public:
  // Brings one to the server; may block as long as its own deadline.
  using UploadFunction = std::function<absl::Status(const PendingUpload&)>;
  // Told from the uploader's thread after each attempt.
  using Observer = std::function<void(const PendingUpload&, const absl::Status&)>;

  // `queue` outlives it.
  Uploader(UploadQueue& queue, UploadFunction upload, BackoffOptions backoff = {},
           Observer observer = nullptr);
  // Ends after the attempt under way; what was not brought stays in the queue.
  ~Uploader();

  // There may be something new, or the server is back: tries at once.
  void Wake();

  UploadCounts counts() const;

 private:
  void Run();
  // Waits until woken, at most so long; false at the end.
  bool Sleep(absl::Duration pause);
  void Count(const absl::Status& status);

  UploadQueue& queue_;
  const UploadFunction upload_;
  const BackoffOptions backoff_;
  const Observer observer_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  bool is_woken_ = false;
  bool is_ending_ = false;
  UploadCounts counts_;
  std::thread thread_;
};

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_UPLOAD_UPLOADER_H_
