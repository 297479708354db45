// Links through TCP, with TLS or without it, for groups whose ranks cannot share memory.
// `JobFabric` makes them.

#ifndef PARPLAN_EXECUTOR_DEVICE_COMM_TCP_LINKS_H_
#define PARPLAN_EXECUTOR_DEVICE_COMM_TCP_LINKS_H_

#include <poll.h>

#include <memory>
#include <vector>

#include "executor/device/comm/link.h"
#include "executor/device/comm/socket.h"

namespace parplan {

// The links of one rank through TCP connections.
class TcpLinks : public LinkSet {
 public:
  // `connections`: [rank of the group] the connection to it; closed for this rank.
  explicit TcpLinks(std::vector<Socket> connections);
  ~TcpLinks() override;

  Link& link(int rank) override;
  // Returns 0: poll needs no ticket, since sockets keep their state.
  uint32_t Ticket() override { return 0; }
  void Prepare() override;
  void AwaitChange(uint32_t ticket, absl::Duration longest) override;
  void Absorb() override;

 private:
  class Connection;

  // [rank] events of the wait under way.
  std::vector<pollfd> interests_;
  // Whether `Prepare` found bytes, so that there is nothing to wait for.
  bool is_ready_ = false;
  std::vector<std::unique_ptr<Connection>> connections_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_COMM_TCP_LINKS_H_
