// A rank's connections to the other ranks of its job: the rendezvous, and communicators for any
// groups of ranks. Groups of processes of one user, PID namespace and network namespace on one
// machine use shared memory, others TCP, between nodes with TLS.
//
//   PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<JobFabric> fabric, JobFabric::Join(options));
//   PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> group,
//                            fabric->MakeGroup("tensor", {0, 1}));
//   PARPLAN_RETURN_IF_ERROR(group->AllReduce(ElementType::kFloat32, data, count));
//
// `parplan-exec` and `parplan-agent-probe` make one on each rank.

#ifndef PARPLAN_EXECUTOR_DEVICE_COMM_JOB_FABRIC_H_
#define PARPLAN_EXECUTOR_DEVICE_COMM_JOB_FABRIC_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "executor/device/comm/communicator.h"
#include "executor/device/comm/cpu_communicator.h"
#include "executor/device/comm/hello_reader.h"
#include "executor/device/comm/local_socket.h"
#include "executor/device/comm/progress_thread.h"
#include "executor/device/comm/rank_context.h"
#include "executor/device/comm/rendezvous.h"
#include "executor/device/comm/shaped_link.h"
#include "executor/device/comm/socket.h"

namespace parplan {

// The way in which ranks of one machine exchange messages.
enum class TransportKind {
  // Shared memory within a machine, TCP between machines.
  kAutomatic,
  kTcp,
};

// The TCP connections between ranks that have TLS. Those to the rendezvous always have it.
enum class TlsLinks {
  // None: what ranks exchange can be read and changed on its way.
  kNone,
  // Those between ranks that are not on one machine (of one boot, user, PID namespace and network
  // namespace): only these leave the kernel, or cross a bridge between containers.
  kBetweenNodes,
  kAll,
};

// This rank's place in the job, and how it reaches the others.
struct JobFabricOptions {
  // "HOST:PORT" of the rendezvous, and the job's token (RendezvousServerOptions).
  std::string rendezvous;
  std::string token;
  int rank = 0;
  int world_size = 1;
  // Name or address by which other machines reach this one. With exactly 127.0.0.1 the rank listens
  // there only, else (also with `localhost`) on all addresses of the machine.
  std::string host = "127.0.0.1";
  TransportKind transport = TransportKind::kAutomatic;
  // The same for all ranks; a rank with another value ends the job.
  TlsLinks tls_links = TlsLinks::kBetweenNodes;
  // Limit for joining the job, and for making a group: ranks may start that far apart.
  absl::Duration join_timeout = absl::Minutes(2);
  // When this rank began to wait for others, on SteadyNow(): `join_timeout` for joining counts from
  // there on. From the call of `Join` on, if it is nothing.
  std::optional<absl::Duration> join_start;
  // Limit of one try to connect to another rank, after which this one looks whether the job goes on
  // and tries again; the default is enough for three addresses that swallow packets (socket.h).
  absl::Duration connect_patience = absl::Seconds(10);
  // Limit on an operation of a communicator, from its start.
  absl::Duration operation_timeout = absl::Minutes(5);
  // How often a waiting rank polls before it sleeps. Below 0: 2000 times if the rank may use one
  // processor alone, or as many as the job has ranks on its machine or more, else 50 times.
  int spin_count = -1;
  // Takes a line that says for whom this rank waits, every 10 s of a wait for other ranks to join
  // the job or a group. Called on the thread that waits. May be null.
  std::function<void(const std::string&)> on_notice;
  // Whether a thread moves operations that were started while this rank computes.
  bool has_progress_thread = true;
  // Returns the shape of the link from one rank of the job to another. Null: none is slowed down.
  // Called by `MakeGroup` alone, with this rank as `from`.
  std::function<LinkShape(int from, int to)> shape;
};

// One rank's fabric; used by one thread, as its communicators are, except for what RankContext
// allows.
class JobFabric : public RankContext {
 public:
  // Waits until all ranks have joined. Collective: all ranks of the job call it. Returns the errors
  // of Rendezvous::Join, Set and Get (rendezvous.h); UNAVAILABLE if this rank cannot listen. If a
  // rank does not come in time, `join_timeout` for all of them, this ends the job for all that
  // came.
  static absl::StatusOr<std::unique_ptr<JobFabric>> Join(JobFabricOptions options);
  // REQUIRES, unchecked: its communicators are gone.
  ~JobFabric() override;

  int rank() const override { return options_.rank; }
  int world_size() const override { return options_.world_size; }
  absl::Duration operation_timeout() const override { return options_.operation_timeout; }

  // Makes the communicator of `ranks` of the job, in that order. Collective: exactly these ranks
  // call it. `name` says what the group is for, for example `tensor`; ranks that make several
  // groups of one name make them in the same order. INVALID_ARGUMENT if `ranks` are not distinct
  // ranks of the job with this one among them; DEADLINE_EXCEEDED if the others do not come within
  // `join_timeout`, UNAVAILABLE if no connection or shared memory can be made, PERMISSION_DENIED or
  // INVALID_ARGUMENT if the process that is found in place of another rank does not prove to be of
  // the job, is of another user, or hands over something else than the memory of the group;
  // DATA_LOSS if what ranks say is altered on its way; or the error of Health. An error does
  // not end the job: the other ranks wait until `join_timeout`, or until this one calls `Abort`.
  // The fabric outlives the communicator.
  absl::StatusOr<std::unique_ptr<Communicator>> MakeGroup(const std::string& name,
                                                          const std::vector<int>& ranks) override;

  absl::Status Publish(const std::string& key, const std::string& value) override {
    return rendezvous_->Set(key, value);
  }
  absl::StatusOr<std::string> Await(const std::string& key) override {
    return rendezvous_->Get(key, options_.join_timeout);
  }
  absl::Status Health() override { return rendezvous_->Health(); }
  void Abort(const std::string& why) override { rendezvous_->Abort(why); }
  absl::Status ReportStall(const std::string& what, int awaited_rank) override {
    return rendezvous_->ReportStall(what, awaited_rank);
  }
  absl::Status AwaitCause() override { return rendezvous_->AwaitCause(); }
  // Returns the connection to the rendezvous, valid as long as the fabric.
  Rendezvous& rendezvous() { return *rendezvous_; }

 private:
  class Member;

  JobFabric(JobFabricOptions options, std::unique_ptr<Rendezvous> rendezvous, Listener listener,
            LocalListener local_listener);
  absl::Status Introduce(absl::Duration deadline);
  // Returns whether the connection between this rank and `rank` for `name` has TLS. `rank` may be
  // none of the job.
  bool WantsTls(int rank, const std::string& name) const;
  absl::StatusOr<std::unique_ptr<LinkSet>> Connect(const std::string& id,
                                                   const std::vector<int>& ranks, int own);
  absl::StatusOr<std::unique_ptr<LinkSet>> ShareMemory(const std::string& id,
                                                       const std::vector<int>& ranks, int own);
  absl::StatusOr<std::unique_ptr<LinkSet>> ConnectSockets(const std::string& id,
                                                          const std::vector<int>& ranks, int own);
  // Connects by `connect`, and proves to `rank` that this is a rank of the job that connects for
  // `name`; again while strangers make that rank drop the connection.
  absl::StatusOr<Socket> Visit(
      const std::string& name, int rank, absl::Duration deadline,
      const std::function<absl::StatusOr<Socket>(absl::Duration deadline)>& connect);
  // Returns the connection of the rank that visits this one for `name`.
  absl::StatusOr<Socket> AwaitVisitor(const std::string& name, int rank, absl::Duration deadline);
  // Waits until bytes, or the end of the connection, of `rank` are there.
  absl::Status AwaitBytes(const Socket& socket, const std::string& name, int rank,
                          absl::Duration deadline);
  // Takes the handshakes of others until `is_done`, while this rank waits for `rank` to join
  // `name`; looks again when a byte comes at `socket`, if that is not null.
  absl::Status ReceiveUntil(const std::function<bool()>& is_done, const Socket* socket,
                            const std::string& name, int rank, absl::Duration deadline);
  int SpinCount() const;
  // Returns the rank of the job that this one waits for the longest; -1 for none. Any thread may
  // call it.
  int AwaitedRank();

  const JobFabricOptions options_;
  const std::unique_ptr<Rendezvous> rendezvous_;
  const Listener listener_;
  const LocalListener local_listener_;
  // Connections that have not proved who they are.
  HelloReader hellos_;
  // [rank of the job] id of its machine, and the address it listens on.
  std::vector<std::string> machines_;
  std::vector<std::string> addresses_;
  std::mutex members_mutex_;
  std::set<const CpuCommunicator*> members_;  // Guarded by members_mutex_.
  // Number of groups made so far, by name and ranks.
  std::map<std::string, int> group_counts_;
  // Connections for groups that this rank has not made yet, by name and rank of the job.
  std::map<std::pair<std::string, int>, Socket> visitors_;
  std::unique_ptr<ProgressThread> progress_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_COMM_JOB_FABRIC_H_
