// A rank's side of the rendezvous (rendezvous_server.h). `JobFabric` has one.

#ifndef PARPLAN_EXECUTOR_DEVICE_COMM_RENDEZVOUS_H_
#define PARPLAN_EXECUTOR_DEVICE_COMM_RENDEZVOUS_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "executor/device/comm/frame.h"
#include "executor/device/comm/socket.h"

namespace parplan {

// The job to join, and how long to wait for it.
struct RendezvousJoin {
  // `HOST:PORT` of the server.
  std::string address;
  // The secret that the ranks of the job and the server share.
  std::string token;
  // This rank's number in the job, from 0, and the number of ranks. The server refuses a rank that
  // it does not expect, one that it has already, and another number of ranks than its own.
  int rank = 0;
  int world_size = 1;
  // Limit of the wait for the server to listen and to answer.
  absl::Duration patience = absl::Minutes(2);
  // Called with a line that says for whom this rank waits, once every `notice_interval` while
  // `Join` has no connection or `Get` has no answer, on the thread that waits. May be null.
  std::function<void(const std::string&)> on_notice;
  absl::Duration notice_interval = absl::Seconds(10);
  // Limit of the wait for the server's verdict on an operation that took too long; longer than
  // RendezvousServerOptions::answer_patience.
  absl::Duration verdict_patience = absl::Seconds(8);
};

// One rank's connection to the rendezvous. All methods may be called from any thread.
class Rendezvous {
 public:
  // Joins a job, whose token both sides prove to know and neither says (handshake.h); all that
  // follows is encrypted by TLS. Connects again if the connection ends before the server's
  // answer, since many strangers make a server drop it. PERMISSION_DENIED if the server does not
  // prove it, or refuses the rank, with its reason; UNAVAILABLE naming the address if there is no
  // connection, or if it ends before the answer, DEADLINE_EXCEEDED if there is no answer,
  // INVALID_ARGUMENT for a malformed address or a server of another kind, DATA_LOSS if what either
  // says is altered on its way.
  static absl::StatusOr<std::unique_ptr<Rendezvous>> Join(RendezvousJoin join);
  // Leaves, so that the server does not count the rank as lost. REQUIRES, unchecked: no call is
  // under way.
  ~Rendezvous();

  // Sends a fact that never changes to the server, for all ranks. A second, different value of the
  // same key ends the job, which shows in Health later. Returns the error of Health if the job has
  // failed; INVALID_ARGUMENT for a text above kMaxFrameText; UNAVAILABLE, DEADLINE_EXCEEDED or
  // DATA_LOSS if it cannot be sent within 5 s. OK does not say that the server has read it.
  absl::Status Set(const std::string& key, const std::string& value);
  // Returns the fact; waits up to `patience` for it, and then up to 10 s to ask who is missing.
  // DEADLINE_EXCEEDED naming the key and the ranks that have not come, if any, or the errors of
  // `Set`.
  absl::StatusOr<std::string> Get(const std::string& key, absl::Duration patience);
  // Ends the job for all ranks: Health of this one fails too once the server says so. Does nothing
  // if the job has failed already. Blocks for up to 5 s if the server does not read.
  void Abort(const std::string& why);

  // Has the server ask all ranks why an operation took too long, which ends the job, and returns
  // the failure, never OK: DEADLINE_EXCEEDED with the rank that is to blame, which is the one that
  // serves the rendezvous if the server says nothing within `verdict_patience`, or an earlier
  // failure. `what` says which operation;
  // `awaited_rank` is the rank it waits for, -1 if that is not known.
  absl::Status ReportStall(const std::string& what, int awaited_rank);
  // Sets what answers the server's question whom this rank waits for: a rank, or -1 for none.
  // `awaited` is called on the thread of this object and must not call SetAwaited. Null answers
  // none. Blocks while the previous function runs, which is not called again.
  void SetAwaited(std::function<int()> awaited);
  // Waits for the job to fail, at most `patience`. Returns Health.
  absl::Status AwaitFailure(absl::Duration patience);
  // Waits for the job to fail because of what broke a connection to another rank: a second, and if
  // the server does not answer a question in the 5 s after that, 12 s more, after which it counts
  // as lost. Returns Health: OK if the server answers and knows of no failure.
  absl::Status AwaitCause();

  // Returns OK until the server reports that the job failed; then UNAVAILABLE naming the rank that
  // was lost, perhaps with the rendezvous that it served, or the rendezvous of a launcher,
  // DATA_LOSS naming it if something was altered on the way between it and the rendezvous,
  // DEADLINE_EXCEEDED naming the rank that an operation waited for too long, or ABORTED with the
  // reason some rank gave. The first failure stays. Costs one atomic load while it is OK.
  absl::Status Health() const;
  // Returns whether `Health` is OK.
  bool IsHealthy() const { return is_healthy_.load(std::memory_order_acquire); }

 private:
  Rendezvous(Socket socket, RendezvousJoin join, int serving_rank, std::string serving_host);
  void Listen();
  void AnswerProbe();
  void Fail(const absl::Status& status);
  void FailLocked(const absl::Status& status);
  // Sends a frame to the server. Where the connection is broken, returns why the job has failed.
  absl::Status Send(std::unique_lock<std::mutex>& lock, const Frame& frame);
  // Asks for a fact, and returns the number of the question.
  absl::StatusOr<uint32_t> Ask(std::unique_lock<std::mutex>& lock, const std::string& key);
  // Waits for the answer, the failure of the job or `deadline`. Returns the answer, nothing for the
  // other two.
  std::optional<std::string> AwaitAnswer(std::unique_lock<std::mutex>& lock, uint32_t number,
                                         absl::Duration deadline);
  absl::Status AwaitFailureLocked(std::unique_lock<std::mutex>& lock, absl::Duration patience);
  // Returns the failure that the server is lost: DATA_LOSS if `why` is, else UNAVAILABLE.
  absl::Status ServerLoss(const absl::Status& why) const;
  // Returns why a wait for a fact takes long, for people.
  std::string ReasonToWait(std::unique_lock<std::mutex>& lock, const std::string& key);

  const Socket socket_;
  const RendezvousJoin join_;
  // The rank that serves the rendezvous, -1 if none does, and its host.
  const int serving_rank_;
  const std::string serving_host_;
  std::atomic<bool> is_healthy_ = true;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_, as is writing to the socket.
  std::map<uint32_t, std::string> answers_;
  uint32_t question_count_ = 0;
  absl::Status failure_;
  bool is_leaving_ = false;
  // Held while `awaited_` runs.
  std::mutex awaited_mutex_;
  std::function<int()> awaited_;  // Guarded by awaited_mutex_.
  std::thread thread_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_COMM_RENDEZVOUS_H_
