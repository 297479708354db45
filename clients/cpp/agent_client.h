// Connects an agent (profiler-agent) to its server: a stream that stays open. `LeaseAgent`
// (profiler-agent/lease) uses it.

#ifndef PARPLAN_CLIENTS_CPP_AGENT_CLIENT_H_
#define PARPLAN_CLIENTS_CPP_AGENT_CLIENT_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <memory>
#include <mutex>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "clients/cpp/channel.h"
#include "parplan/v1/agent_service.grpc.pb.h"

namespace parplan {

// One stream of `ConnectAgent`. The agent's first message is the hello, the server's the
// welcome.
class AgentStream {
 public:
  using Stream =
      grpc::ClientReaderWriterInterface<v1::ConnectAgentRequest, v1::ConnectAgentResponse>;

  // Makes a stream that begins with the first message that is sent, which must be a hello; does not
  // wait. `stub` is needed during this call alone.
  explicit AgentStream(v1::AgentService::StubInterface& stub);
  // Cancels the stream and waits for its end. REQUIRES, unchecked: neither `Receive` nor `Send` is
  // running.
  ~AgentStream();

  AgentStream(const AgentStream&) = delete;
  AgentStream& operator=(const AgentStream&) = delete;

  // Waits until the message was handed to the transport, without a deadline: as long as the server
  // reads nothing, or until `Cancel`. Returns UNAVAILABLE if the stream has ended; `Receive`
  // returns the reason. Safe to call from any thread; messages go one after the other.
  absl::Status Send(const v1::ConnectAgentRequest& message);

  // Waits for the next message, without a deadline. If the stream has ended, returns the error that
  // ended it (agent_service.proto), at every later call as well; UNAVAILABLE if the server ended it
  // without an error. REQUIRES, unchecked: called by one thread at a time.
  absl::StatusOr<v1::ConnectAgentResponse> Receive();

  // Ends the stream at once: a `Receive` that waits returns CANCELLED, a `Send` that waits
  // UNAVAILABLE, and later calls do so as well. Safe to call from any thread, repeatedly.
  void Cancel() { context_.TryCancel(); }

 private:
  // Delays the initial metadata, which would wait for the connection.
  static grpc::ClientContext* Corked(grpc::ClientContext& context);

  grpc::ClientContext context_;
  std::unique_ptr<Stream> stream_;
  std::mutex send_mutex_;  // One `Write` at a time.
  absl::Status end_;       // Status of the receiving side; not OK once it has ended.
};

// Methods and their errors are those of agent_service.proto. Nothing is retried. Safe to use from
// any thread. `channel` is one of `MakeChannel`. Streams may outlive this object: they keep the
// channel by themselves.
class AgentClient {
 public:
  explicit AgentClient(std::shared_ptr<grpc::Channel> channel);

  // Returns a stream, never null, that begins with the first message that the caller sends; does
  // not wait.
  std::unique_ptr<AgentStream> MakeStream();
  // Makes a stream and sends `hello` by it. Returns the stream whether or not a server answers,
  // which is known at the first `Receive`. Nothing but tests calls it: LeaseAgent sends its hello
  // from the thread that sends everything else.
  std::unique_ptr<AgentStream> Connect(const v1::AgentHello& hello);

  // Lists the agents that are connected. Waits at most `options.timeout` and then returns
  // DEADLINE_EXCEEDED; UNAVAILABLE if no server answers. Nothing but tests calls it.
  absl::StatusOr<v1::ListAgentsResponse> List(const v1::ListAgentsRequest& request,
                                              const CallOptions& options = {});

 private:
  const std::unique_ptr<v1::AgentService::StubInterface> stub_;
};

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_CPP_AGENT_CLIENT_H_
