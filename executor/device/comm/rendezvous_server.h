// The server through which the ranks of a job find each other: it passes on the facts they publish
// before there is any link between them, and reports a lost rank to all others. `RankProcesses`
// starts one in a launcher, rank 0 of `parplan-exec` under other launchers, and the agent to
// measure links.

#ifndef PARPLAN_EXECUTOR_DEVICE_COMM_RENDEZVOUS_SERVER_H_
#define PARPLAN_EXECUTOR_DEVICE_COMM_RENDEZVOUS_SERVER_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/system/steady_clock.h"
#include "executor/device/comm/frame.h"
#include "executor/device/comm/handshake.h"
#include "executor/device/comm/job_facts.h"
#include "executor/device/comm/socket.h"
#include "executor/device/comm/stall_inquiry.h"

namespace parplan {

// The job that is served, and where.
struct RendezvousServerOptions {
  // Host or address to listen on; empty: all addresses of this machine. Port 0: one that is free.
  std::string host = "127.0.0.1";
  int port = 0;
  // Secret of the job, not empty. Connections that do not prove to know it are refused, since
  // others may reach the port too; it is never said (handshake.h).
  std::string token;
  int world_size = 1;
  // Rank that serves the rendezvous, and its host: the ranks name it when the server is lost. -1 if
  // none does, but for example the launcher. REQUIRES, unchecked: it is below `world_size`.
  int serving_rank = -1;
  std::string serving_host;
  // Time for a connection to say and prove who it is.
  absl::Duration hello_patience = absl::Seconds(5);
  // Time for TLS after that. As long as a rank waits for its answer.
  absl::Duration tls_patience = absl::Minutes(2);
  // Time for all ranks to answer once an operation took too long or a connection timed out. Whoever
  // runs answers within milliseconds; the rest is for ranks of which several share a core.
  absl::Duration answer_patience = absl::Seconds(5);
  // The clock of all three.
  std::function<absl::Duration()> now = SteadyNow;
};

// Serves one job from a thread of its own, in the job's launcher or in its rank 0. A rank is alive
// as long as its connection is. If that ends without kGoodbye, if a rank breaks the protocol or
// contradicts a fact or publishes one that is about another rank, or if it ends the job (kAbort),
// the server reports it to all ranks at once, and to every rank that joins later. If an operation
// of a rank takes too long (kStalled), it asks all ranks whom they wait for, and reports the one
// that is to blame. If a connection times out, so that this host may be the one that is cut off, it
// asks all ranks too before it reports that rank; it reports `serving_rank` instead if there are
// two or more ranks on other hosts and none of them answers. It reports the first such failure
// only, which explains those that follow from it.
//
// Strangers may connect too: those that do not prove who they are in time are dropped, the oldest
// first where they are too many, so that they leave the process descriptors for its own files. A
// connection that has proved itself gives way only while it sets up TLS, and only to the next one
// of its rank. After that its rank is here, and another connection of the same rank is refused.
class RendezvousServer {
 public:
  // Starts the server. INVALID_ARGUMENT for an empty token or no ranks, UNAVAILABLE naming the
  // address if the server cannot listen there, or the cause if there are no descriptors.
  static absl::StatusOr<std::unique_ptr<RendezvousServer>> Start(
      const RendezvousServerOptions& options);
  // Ends all connections; ranks that have not left take the job for lost.
  ~RendezvousServer();

  // Returns "HOST:PORT" for ranks on this machine, or on others that know it as `options.host`;
  // ":PORT" if that is empty, to which the caller adds a host.
  std::string address() const;

 private:
  struct Guest {
    Socket socket;
    // When it came, or then proved who it is.
    absl::Duration since;
    // Bytes of a frame that is still incomplete.
    std::string arrived;
    // Set once it has said who it is, which it has then to prove. TLS follows the proof.
    std::optional<Handshake> handshake;
    int rank = -1;
    // Whether TLS has read more from the connection than was heard yet.
    bool has_more = false;
    bool said_goodbye = false;
    bool is_gone = false;

    // Whether it has not proved that it knows the token. TLS follows the proof.
    bool is_stranger() const { return rank < 0 && !is_gone && !socket.has_tls(); }
  };
  struct Question {
    Guest* guest;
    uint32_t number;
  };
  struct Inquiry {
    StallInquiry answers;
    // The operation that took too long; empty if the inquiry began because the connection to
    // `lost_rank` broke.
    std::string what;
    int lost_rank = -1;
    std::string why_lost;
    absl::Duration end;
  };

  RendezvousServer(RendezvousServerOptions options, Listener listener, Socket wake_in,
                   Socket wake_out);
  void Serve();
  // Returns when a connection of a stranger, or one that sets up TLS, must end.
  absl::Duration EndOf(const Guest& guest) const;
  // Returns when the thread has something to do although no message comes.
  absl::Duration NextDeadline() const;
  void Welcome();
  void DropOldestStranger();
  void DropLateStrangers();
  void Hear(Guest& guest);
  // Obeys the frames that have arrived, in plain until the proof, which TLS follows.
  void ObeyArrived(Guest& guest);
  void Greet(Guest& guest, const Frame& frame);
  // Takes the rank in, or refuses it, once TLS is set up.
  void Admit(Guest& guest);
  // Ends a connection that says it is `rank`; -1 if it did not say.
  void Refuse(Guest& guest, int rank, const std::string& why);
  void Obey(Guest& guest, const Frame& frame);
  void Answer(Guest& guest, uint32_t number, const std::string& key, const std::string& value);
  // Ends a connection, and reports the loss of its rank: as altered if `why` is DATA_LOSS.
  void Lose(Guest& guest, const absl::Status& why, bool may_be_cut_off = false);
  // Asks all ranks that are here whom they wait for.
  void BeginInquiry(Inquiry inquiry);
  void EndInquiry();
  void ReportLoss(int rank, const std::string& why, const std::string& kind = "lost");
  void ReportFailure(uint32_t rank, const std::string& kind, const std::string& why);

  const RendezvousServerOptions options_;
  const Listener listener_;
  // A pair of sockets: a byte written to the first wakes and ends the thread.
  const Socket wake_in_;
  const Socket wake_out_;
  const size_t max_stranger_count_;
  // The members below belong to the thread.
  JobFacts facts_;
  std::vector<std::unique_ptr<Guest>> guests_;
  // A descriptor in reserve, closed to accept and drop a connection where there is no other left.
  Socket spare_;
  // The listener is not asked before this time, since it could accept nothing.
  absl::Duration next_welcome_;
  std::multimap<std::string, Question> questions_;
  std::optional<Inquiry> inquiry_;
  std::unique_ptr<Frame> failure_;
  std::thread thread_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_COMM_RENDEZVOUS_SERVER_H_
