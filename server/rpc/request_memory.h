// Bounds the memory of decoded requests, so that many of them at once, whose calls wait for a
// thread, a search or a client that does not read its answer, do not take that of the server.
// `RpcServer` has one.

#ifndef PARPLAN_SERVER_RPC_REQUEST_MEMORY_H_
#define PARPLAN_SERVER_RPC_REQUEST_MEMORY_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "absl/status/status.h"

namespace parplan {

// Counts bytes of decoded requests, and those of their calls themselves (`kCallBytes`), from before
// they are decoded until gRPC is done with the calls. Safe to use from any thread.
//
//   BoundedHandler::Deserialize: if (!memory.Reserve(call, bytes)) decode an empty request instead
//   Call::Call:                  memory.Take(call, context_->holder())
class RequestMemory {
 public:
  // The part of one call, which it gives back when it ends. The memory outlives it.
  class Share {
   public:
    ~Share();

    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    // OK if the request of the call was decoded and its caller has room for it. RESOURCE_EXHAUSTED
    // (QUEUE_FULL) with the time to retry if requests would have more than the limit together, or
    // those of the caller more than half of it.
    const absl::Status& status() const { return status_; }

   private:
    friend class RequestMemory;
    Share(RequestMemory& memory, std::string holder, int64_t byte_count, absl::Status status);

    RequestMemory& memory_;
    const std::string holder_;
    const int64_t byte_count_;
    const absl::Status status_;
  };

  // Bytes of all requests together.
  explicit RequestMemory(int64_t limit) : limit_(limit) {}

  // Takes bytes for the request of `call`, which stays a unique name until the call ends. Returns
  // false if all requests would have more than the limit: then it takes none and remembers that.
  bool Reserve(const void* call, int64_t byte_count);

  // Gives the bytes of `call` back, whose request cannot be decoded.
  void Release(const void* call);

  // Returns the part of `call`, never null, OK and empty if nothing was reserved for it. To be
  // called once. `holder` is whoever shares the bound of one host or identity
  // (`CallContext::holder`).
  std::unique_ptr<const Share> Take(const void* call, std::string holder);

  // Returns the bytes that are taken.
  int64_t taken() const;

 private:
  // Stands for a request for which there was no room.
  static constexpr int64_t kRefused = -1;

  const int64_t limit_;
  mutable std::mutex mutex_;
  int64_t taken_ = 0;                                 // Guarded by mutex_, as the rest.
  std::unordered_map<const void*, int64_t> waiting_;  // Those that no call has taken yet.
  std::map<std::string, int64_t> by_holder_;          // Those that hold some.
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_RPC_REQUEST_MEMORY_H_
