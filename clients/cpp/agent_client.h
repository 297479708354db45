// An agent's way to its server: a stream that stays open.

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

  // Nothing travels before the first message, which has to be a hello.
  explicit AgentStream(v1::AgentService::StubInterface& stub);
  // As `Cancel`. No `Receive` may be under way.
  ~AgentStream();

  AgentStream(const AgentStream&) = delete;
  AgentStream& operator=(const AgentStream&) = delete;

  // Waits until the message is on its way. UNAVAILABLE when the stream is over; `Receive`
  // says why. Safe to use from any thread.
  absl::Status Send(const v1::ConnectAgentRequest& message);

  // Waits for the next message; there is no deadline. The error says why the stream ended,
  // as agent_service.proto lists it, and comes again at every later call; a stream that the
  // server ended without one is UNAVAILABLE. From one thread at a time.
  absl::StatusOr<v1::ConnectAgentResponse> Receive();

  // Ends the stream at once: `Receive` gives CANCELLED. Safe to use from any thread.
  void Cancel() { context_.TryCancel(); }

 private:
  // Without the initial metadata, which would wait for the connection.
  static grpc::ClientContext* Corked(grpc::ClientContext& context);

  grpc::ClientContext context_;
  std::unique_ptr<Stream> stream_;
  std::mutex send_mutex_;  // One `Write` at a time.
  absl::Status end_;       // Of the receiving side; not OK once it has ended.
};

// Methods and their errors are those of agent_service.proto. Safe to use from any thread.
class AgentClient {
 public:
  explicit AgentClient(std::shared_ptr<grpc::Channel> channel);

  // A stream that has not begun.
  std::unique_ptr<AgentStream> MakeStream();
  // A stream that has begun; whether there is a server shows when something is received.
  std::unique_ptr<AgentStream> Connect(const v1::AgentHello& hello);

  absl::StatusOr<v1::ListAgentsResponse> List(const v1::ListAgentsRequest& request,
                                              const CallOptions& options = {});

 private:
  const std::unique_ptr<v1::AgentService::StubInterface> stub_;
};

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_CPP_AGENT_CLIENT_H_
