// Uploads queued profiles to the server, retrying for as long as the server is away. The daemon has
// one.

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

// Returns whether another attempt may succeed after this error: the server was unreachable, busy or
// at fault, or a certificate was wrong, which a person may correct. False for INVALID_ARGUMENT,
// ALREADY_EXISTS, FAILED_PRECONDITION, OUT_OF_RANGE, UNIMPLEMENTED, and RESOURCE_EXHAUSTED (too
// large) unless its reason is QUOTA_EXCEEDED.
bool MayRetryUpload(const absl::Status& status);

// Numbers since the uploader was made.
struct UploadCounts {
  // Uploads that the server has.
  int64_t done = 0;
  // Failed attempts to upload, or to read the queue, that will be repeated.
  int64_t failed = 0;
  // Uploads that the server will never accept.
  int64_t refused = 0;
  // Result of the last attempt; OK before the first.
  absl::Status last_status;
};

// A thread that empties the queue and sleeps while it is empty. An upload that may succeed later is
// attempted without end, with a pause that doubles from 1 s to 5 minutes (BackoffPause); one that
// the server refuses is set aside. Safe to use from any thread.
class Uploader {
 public:
  // Uploads one profile, on the uploader's thread; may block until its own deadline.
  using UploadFunction = std::function<absl::Status(const PendingUpload&)>;
  // Called from the uploader's thread after each call of the upload function, once the queue has
  // been changed by its result; not if the queue cannot be read. May be null.
  using Observer = std::function<void(const PendingUpload&, const absl::Status&)>;

  // Starts the thread. `queue` must outlive this object.
  Uploader(UploadQueue& queue, UploadFunction upload, BackoffOptions backoff = {},
           Observer observer = nullptr);
  // Ends the thread after the attempt under way, which this waits for. Uploads that remain stay in
  // the queue.
  ~Uploader();

  // Makes the thread try again at once: the queue may have grown, or the server may be back.
  void Wake();

  // Returns the numbers of this moment.
  UploadCounts counts() const;

 private:
  void Run();
  // Waits until woken, but no longer than `pause`; returns false if the uploader is ending.
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
