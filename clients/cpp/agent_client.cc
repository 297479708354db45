#include "clients/cpp/agent_client.h"

#include <utility>

#include "clients/cpp/status_from_grpc.h"
#include "clients/cpp/unary.h"

namespace parplan {

AgentStream::AgentStream(v1::AgentService::StubInterface& stub)
    : stream_(stub.ConnectAgent(Corked(context_))) {}

grpc::ClientContext* AgentStream::Corked(grpc::ClientContext& context) {
  context.set_initial_metadata_corked(true);
  return &context;
}

AgentStream::~AgentStream() {
  Cancel();
  // gRPC wants a stream read to its end.
  while (end_.ok()) static_cast<void>(Receive());
}

absl::Status AgentStream::Send(const v1::ConnectAgentRequest& message) {
  const std::lock_guard<std::mutex> lock(send_mutex_);
  if (stream_->Write(message)) return absl::OkStatus();
  return absl::UnavailableError("the stream to the server is over");
}

absl::StatusOr<v1::ConnectAgentResponse> AgentStream::Receive() {
  if (!end_.ok()) return end_;
  v1::ConnectAgentResponse message;
  if (stream_->Read(&message)) return message;
  end_ = FromGrpcStatus(stream_->Finish());
  if (end_.ok()) end_ = absl::UnavailableError("the server has ended the stream");
  return end_;
}

AgentClient::AgentClient(std::shared_ptr<grpc::Channel> channel)
    : stub_(v1::AgentService::NewStub(std::move(channel))) {}

std::unique_ptr<AgentStream> AgentClient::MakeStream() {
  return std::make_unique<AgentStream>(*stub_);
}

std::unique_ptr<AgentStream> AgentClient::Connect(const v1::AgentHello& hello) {
  std::unique_ptr<AgentStream> stream = MakeStream();
  v1::ConnectAgentRequest first;
  *first.mutable_hello() = hello;
  // A stream that is broken already says so when it is read.
  static_cast<void>(stream->Send(first));
  return stream;
}

absl::StatusOr<v1::ListAgentsResponse> AgentClient::List(const v1::ListAgentsRequest& request,
                                                         const CallOptions& options) {
  return CallUnaryOnce(*stub_, &v1::AgentService::StubInterface::ListAgents, request, options);
}

}  // namespace parplan
