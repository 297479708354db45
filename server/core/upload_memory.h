// Bounds the memory of uploads in progress, so that many of them at once, or some that are held
// open, do not take that of the server. `ProfileKeeper` owns one.

#ifndef PARPLAN_SERVER_CORE_UPLOAD_MEMORY_H_
#define PARPLAN_SERVER_CORE_UPLOAD_MEMORY_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "absl/status/status.h"

namespace parplan {

// Counts bytes that uploads hold before they are stored. Safe to use from any thread.
class UploadMemory {
 public:
  // The part of one upload, which it gives back when it ends. Used by one thread at a time; the
  // memory outlives it.
  class Share {
   public:
    // `holder` is whoever shares the bound of one host or identity (`CallContext::holder`). All
    // uploads with an empty holder share one.
    Share(UploadMemory& memory, std::string holder);
    ~Share();

    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    // Takes more bytes. RESOURCE_EXHAUSTED (QUEUE_FULL) with the time to retry, and takes none, if
    // uploads would have more than the limit together, or those of the holder more than half of it.
    absl::Status Grow(int64_t byte_count);

   private:
    UploadMemory& memory_;
    const std::string holder_;
    int64_t byte_count_ = 0;
  };

  // Bytes of all uploads together.
  explicit UploadMemory(int64_t limit) : limit_(limit) {}

 private:
  const int64_t limit_;
  std::mutex mutex_;
  int64_t taken_ = 0;                         // Guarded by mutex_, as the next.
  std::map<std::string, int64_t> by_holder_;  // Those that hold some.
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_UPLOAD_MEMORY_H_
