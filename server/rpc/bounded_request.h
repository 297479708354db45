// Requests that are decoded only if they have no more parts than a valid one can have, and only
// while the server has memory for them. An empty message takes two bytes on the wire and some 170
// in memory, so that 24 requests of 4 MB, the largest that the server receives, took 1.8 GB.

#ifndef PARPLAN_SERVER_RPC_BOUNDED_REQUEST_H_
#define PARPLAN_SERVER_RPC_BOUNDED_REQUEST_H_

#include <google/protobuf/descriptor.h>
#include <grpcpp/impl/codegen/server_callback_handlers.h>
#include <grpcpp/impl/rpc_service_method.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "server/rpc/request_memory.h"

namespace parplan {

// Parts of the largest valid request: 16,384 definitions of layers with four parts each, as many
// runs and names of nodes with two, and as much again.
inline constexpr int64_t kMaxRequestParts = int64_t{1} << 18;

// Bytes that a call takes beside its decoded request, until gRPC is done with it: the state of
// gRPC and that of this server. 10,000 calls of `GetCapabilities` whose answers of 1 KB were not
// read took 22 KB each, and 40,000 took 17 KB. Every request counts with them, so that calls with
// small requests are bounded too.
inline constexpr int64_t kCallBytes = 20 << 10;

// Returns a bound of the bytes that a message on the wire takes once it is decoded; nothing if it
// has more than `max_count` parts that take memory of their own: messages, texts, groups, and
// fields that `type` does not have or has with another wire type. The numbers of a packed field are
// no parts. Looks at no byte behind the first that the decoder refuses, so the result says nothing
// about whether the message can be decoded. Takes time linear in the size, and no memory.
std::optional<int64_t> DecodedBytes(const google::protobuf::Descriptor& type,
                                    absl::string_view message, int64_t max_count);

// Returns whether a message has at most `max_count` such parts.
bool HasFewParts(const google::protobuf::Descriptor& type, absl::string_view message,
                 int64_t max_count);

// Returns the position of a method in the service that is declared in the file of `request`. Aborts
// if that declares no such method.
int IndexOfMethod(const google::protobuf::Descriptor& request, const std::string& name);

// Calls `inner`, a handler of gRPC for methods whose requests are of `type`, with requests that
// have few parts. Others reach it as one that cannot be decoded, which ends the call with
// UNIMPLEMENTED. One for which `memory` has no room, with `kCallBytes` for its call, reaches it as
// an empty request, and its `Call` refuses it (`Call::admission`).
class BoundedHandler final : public grpc::internal::MethodHandler {
 public:
  // `memory` outlives the handler.
  BoundedHandler(const google::protobuf::Descriptor& type, RequestMemory& memory,
                 std::unique_ptr<grpc::internal::MethodHandler> inner)
      : type_(type), memory_(memory), inner_(std::move(inner)) {}

  void RunHandler(const HandlerParameter& parameter) override { inner_->RunHandler(parameter); }
  void* Deserialize(grpc_call* call, grpc_byte_buffer* request, grpc::Status* status,
                    void** handler_data) override;

 private:
  const google::protobuf::Descriptor& type_;
  RequestMemory& memory_;
  const std::unique_ptr<grpc::internal::MethodHandler> inner_;
};

// A service of generated code, `Base`, whose unary methods and those that answer with a stream
// take bounded requests. The constructor of the class that derives from it calls `Bound` for each.
template <typename Base>
class BoundedService : public Base {
 protected:
  // `memory` outlives the service.
  explicit BoundedService(RequestMemory& memory) : memory_(memory) {}

  template <typename Service, typename Request, typename Response>
  void Bound(const std::string& name, Service* service,
             grpc::ServerUnaryReactor* (Service::*method)(grpc::CallbackServerContext*,
                                                          const Request*, Response*)) {
    Bound<Request>(name, std::make_unique<grpc::internal::CallbackUnaryHandler<Request, Response>>(
                             [service, method](grpc::CallbackServerContext* context,
                                               const Request* request, Response* response) {
                               return (service->*method)(context, request, response);
                             }));
  }
  template <typename Service, typename Request, typename Response>
  void Bound(const std::string& name, Service* service,
             grpc::ServerWriteReactor<Response>* (Service::*method)(grpc::CallbackServerContext*,
                                                                    const Request*)) {
    Bound<Request>(
        name, std::make_unique<grpc::internal::CallbackServerStreamingHandler<Request, Response>>(
                  [service, method](grpc::CallbackServerContext* context, const Request* request) {
                    return (service->*method)(context, request);
                  }));
  }

 private:
  template <typename Request>
  void Bound(const std::string& name, std::unique_ptr<grpc::internal::MethodHandler> handler) {
    this->MarkMethodCallback(
        IndexOfMethod(*Request::descriptor(), name),
        new BoundedHandler(*Request::descriptor(), memory_, std::move(handler)));
  }

  RequestMemory& memory_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_RPC_BOUNDED_REQUEST_H_
