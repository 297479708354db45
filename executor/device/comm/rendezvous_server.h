// The server through which the ranks of a job find each other: it passes on the facts they publish
// before there is any link between them, and reports a lost rank to all others. `RankProcesses`
// starts one in a launcher, rank 0 of `parplan-exec` under other launchers, and the agent to
// measure links.

#ifndef PARPLAN_EXECUTOR_DEVICE_COMM_RENDEZVOUS_SERVER_H_
#define PARPLAN_EXECUTOR_DEVICE_COMM_RENDEZVOUS_SERVER_H_

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/device/comm/frame.h"
#include "executor/device/comm/socket.h"

namespace parplan {

struct RendezvousServerOptions {
  // Address to listen on; empty: all addresses of this machine. Port 0: one that is free.
  std::string host = "127.0.0.1";
  int port = 0;
  // Secret of the job, not empty. Connections without it are refused, since others may reach
  // the port too.
  std::string token;
  int world_size = 1;
};

// Serves one job from a thread of its own, in the job's launcher or in its rank 0. A rank is alive
// as long as its connection is. If that ends without kGoodbye, if a rank breaks the protocol or
// contradicts a fact, or if it ends the job (kAbort), the server reports it to all ranks at once,
// and to every rank that joins later. It reports the first such failure only, which explains those
// that follow from it.
class RendezvousServer {
 public:
  // Starts the server. INVALID_ARGUMENT for an empty token or no ranks, UNAVAILABLE naming the
  // address if the server cannot listen there.
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
    // Bytes of a frame that is still incomplete.
    std::string arrived;
    int rank = -1;
    bool said_goodbye = false;
    bool is_gone = false;
  };
  struct Question {
    Guest* guest;
    uint32_t number;
  };

  RendezvousServer(RendezvousServerOptions options, Listener listener, Socket wake_in,
                   Socket wake_out);
  void Serve();
  void Welcome();
  void Hear(Guest& guest);
  void Obey(Guest& guest, const Frame& frame);
  void Answer(Guest& guest, uint32_t number, const std::string& key, const std::string& value);
  void Refuse(Guest& guest, const std::string& why);
  void Lose(Guest& guest, const std::string& why);
  void ReportFailure(uint32_t rank, const std::string& kind, const std::string& why);

  const RendezvousServerOptions options_;
  const Listener listener_;
  // A pipe: closing one end wakes and ends the thread.
  const Socket wake_in_;
  const Socket wake_out_;
  // The members below belong to the thread.
  std::vector<std::unique_ptr<Guest>> guests_;
  std::map<std::string, std::string> facts_;
  std::multimap<std::string, Question> questions_;
  std::unique_ptr<Frame> failure_;
  std::thread thread_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_COMM_RENDEZVOUS_SERVER_H_
