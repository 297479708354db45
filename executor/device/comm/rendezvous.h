// A rank's side of the rendezvous (rendezvous_server.h). `JobFabric` has one.

#ifndef PARPLAN_EXECUTOR_DEVICE_COMM_RENDEZVOUS_H_
#define PARPLAN_EXECUTOR_DEVICE_COMM_RENDEZVOUS_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "executor/device/comm/frame.h"
#include "executor/device/comm/socket.h"

namespace parplan {

// One rank's connection to the rendezvous. All methods may be called from any thread.
class Rendezvous {
 public:
  // Joins as `rank` of `world_size` ranks. `address`: "HOST:PORT" of the server; waits up to
  // `patience` for it to listen and to answer. PERMISSION_DENIED with the server's reason if it
  // refuses the rank; UNAVAILABLE naming the address if there is no connection, or if it ends
  // before the answer, DEADLINE_EXCEEDED if there is no answer, INVALID_ARGUMENT for a malformed
  // address, a token above kMaxFrameText or a server of another kind.
  static absl::StatusOr<std::unique_ptr<Rendezvous>> Join(const std::string& address,
                                                          const std::string& token, int rank,
                                                          int world_size, absl::Duration patience);
  // Leaves, so that the server does not count the rank as lost.
  ~Rendezvous();

  // Publishes a fact that never changes to all ranks. A second, different value of the same key
  // ends the job. The error of Health; INVALID_ARGUMENT for a text above kMaxFrameText, UNAVAILABLE
  // or DEADLINE_EXCEEDED if the server does not take it within 5 s.
  absl::Status Set(const std::string& key, const std::string& value);
  // Returns the fact; waits up to `patience` for it. DEADLINE_EXCEEDED naming the key, or the
  // errors of `Set`.
  absl::StatusOr<std::string> Get(const std::string& key, absl::Duration patience);
  // Ends the job for all ranks.
  void Abort(const std::string& why);

  // Returns OK until the server reports that the job failed; then UNAVAILABLE naming the rank that
  // was lost or saying that the rendezvous is, or ABORTED with the reason some rank gave. The first
  // failure stays. Costs one atomic load while it is OK.
  absl::Status Health() const;
  bool IsHealthy() const { return is_healthy_.load(std::memory_order_acquire); }

 private:
  Rendezvous(Socket socket, int rank);
  void Listen();
  void Fail(const absl::Status& status);

  const Socket socket_;
  const int rank_;
  std::atomic<bool> is_healthy_ = true;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_, as is writing to the socket.
  std::map<uint32_t, std::string> answers_;
  uint32_t question_count_ = 0;
  absl::Status failure_;
  bool is_leaving_ = false;
  std::thread thread_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_COMM_RENDEZVOUS_H_
