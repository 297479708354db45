#include "tests/support/raw_call.h"

#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>

#include <future>
#include <utility>

#include "absl/strings/str_cat.h"

namespace parplan {

grpc::Status CallRaw(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                     const std::string& bytes, std::string* answer) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  const grpc::Slice slice(bytes);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer response;
  std::promise<grpc::Status> done;
  stub.UnaryCall(&context, method, grpc::StubOptions(), &request, &response,
                 [&done](grpc::Status status) { done.set_value(std::move(status)); });
  grpc::Status status = done.get_future().get();
  grpc::Slice received;
  if (answer != nullptr && response.DumpToSingleSlice(&received).ok()) {
    answer->assign(received.begin(), received.end());
  }
  return status;
}

std::string CheckHealth(const std::shared_ptr<grpc::Channel>& channel, const std::string& service) {
  const std::string request =
      service.empty() ? "" : absl::StrCat("\x0a", std::string(1, service.size()), service);
  std::string answer;
  const grpc::Status status = CallRaw(channel, "/grpc.health.v1.Health/Check", request, &answer);
  return status.ok() ? answer : absl::StrCat("code ", status.error_code());
}

}  // namespace parplan
