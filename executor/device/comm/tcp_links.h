// Links through TCP, for groups with ranks on several machines.

#ifndef PARPLAN_EXECUTOR_DEVICE_COMM_TCP_LINKS_H_
#define PARPLAN_EXECUTOR_DEVICE_COMM_TCP_LINKS_H_

#include <poll.h>

#include <memory>
#include <vector>

#include "executor/device/comm/link.h"
#include "executor/device/comm/socket.h"

namespace parplan {

class TcpLinks : public LinkSet {
 public:
  // A connection to each other rank of the group; none for this one.
  explicit TcpLinks(std::vector<Socket> connections);
  ~TcpLinks() override;

  Link& link(int rank) override;
  // Changes are not counted: sockets remember what has happened to them.
  uint32_t Ticket() override { return 0; }
  void Prepare() override;
  void AwaitChange(uint32_t ticket, absl::Duration longest) override;
  void Absorb() override;

 private:
  class Connection;

  // Of the wait that is going on, by rank.
  std::vector<pollfd> interests_;
  std::vector<std::unique_ptr<Connection>> connections_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_COMM_TCP_LINKS_H_
