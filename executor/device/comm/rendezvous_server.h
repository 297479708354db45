// Where the ranks of a job meet: facts they tell one another before there is any link
// between them, and the news that one of them is gone.

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
  // Where to listen. Port 0: any that is free.
  std::string host = "127.0.0.1";
  int port = 0;
  // Whoever does not say it is refused: others may reach the port too. Not empty.
  std::string token;
  int world_size = 1;
};

// Serves one job, from a thread of its own: in its launcher, or in its rank 0. A rank that
// connects is alive as long as its connection is; when that ends without a good-bye, all
// others are told at once, and every later one that joins.
class RendezvousServer {
 public:
  static absl::StatusOr<std::unique_ptr<RendezvousServer>> Start(
      const RendezvousServerOptions& options);
  // Ends all connections: ranks that have not said good-bye take it for lost.
  ~RendezvousServer();

  // "HOST:PORT" for ranks on this machine or on others that know it by `options.host`.
  std::string address() const;

 private:
  struct Guest {
    Socket socket;
    // Not a whole message yet.
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
  void TellFailure(uint32_t rank, const std::string& kind, const std::string& why);

  const RendezvousServerOptions options_;
  const Listener listener_;
  // Ends the thread.
  const Socket wake_in_;
  const Socket wake_out_;
  // The rest belongs to the thread.
  std::vector<std::unique_ptr<Guest>> guests_;
  std::map<std::string, std::string> facts_;
  std::multimap<std::string, Question> questions_;
  std::unique_ptr<Frame> failure_;
  std::thread thread_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_COMM_RENDEZVOUS_SERVER_H_
