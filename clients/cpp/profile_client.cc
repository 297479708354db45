#include "clients/cpp/profile_client.h"

#include <google/protobuf/empty.pb.h>

#include <cstddef>
#include <utility>

#include "clients/cpp/retry.h"
#include "clients/cpp/status_from_grpc.h"
#include "clients/cpp/unary.h"

namespace parplan {
namespace {

using ProfileStub = v1::ProfileService::StubInterface;

// Well below the largest request a server takes by default, 4 MiB.
constexpr size_t kPieceBytes = size_t{1} << 20;

// Collects measurements into messages of about `kPieceBytes`.
class PieceWriter {
 public:
  explicit PieceWriter(std::vector<v1::UploadProfileRequest>& messages) : messages_(messages) {}

  // Copies `items` to what `list` gives of a piece.
  template <typename Items, typename List>
  void Write(const Items& items, const List& list) {
    for (const auto& item : items) {
      const size_t bytes = item.ByteSizeLong();
      if (messages_.size() == 1 || used_bytes_ + bytes > kPieceBytes) {
        messages_.emplace_back();
        used_bytes_ = 0;
      }
      used_bytes_ += bytes;
      *list(*messages_.back().mutable_measurements()) = item;
    }
  }

 private:
  std::vector<v1::UploadProfileRequest>& messages_;  // The first is the header.
  size_t used_bytes_ = 0;
};

}  // namespace

std::vector<v1::UploadProfileRequest> UploadMessages(absl::string_view parent,
                                                     absl::string_view request_id,
                                                     const v1::Profile& profile) {
  std::vector<v1::UploadProfileRequest> messages(1);
  v1::UploadHeader& header = *messages[0].mutable_header();
  header.set_parent(std::string(parent));
  header.set_request_id(std::string(request_id));
  *header.mutable_provenance() = profile.provenance();
  header.set_device_kind(profile.device_kind());
  header.set_devices_per_node(profile.devices_per_node());
  header.set_precision(profile.precision());
  header.set_runtime_id(profile.runtime_id());
  if (profile.has_overlap_slowdown()) header.set_overlap_slowdown(profile.overlap_slowdown());
  if (profile.has_context_memory_bytes()) {
    header.set_context_memory_bytes(profile.context_memory_bytes());
  }
  if (profile.has_communicator_memory_bytes()) {
    header.set_communicator_memory_bytes(profile.communicator_memory_bytes());
  }
  PieceWriter writer(messages);
  writer.Write(profile.layer_definitions(),
               [](v1::ProfilePiece& piece) { return piece.add_layer_definitions(); });
  writer.Write(profile.layer_timings(),
               [](v1::ProfilePiece& piece) { return piece.add_layer_timings(); });
  writer.Write(profile.layer_memories(),
               [](v1::ProfilePiece& piece) { return piece.add_layer_memories(); });
  writer.Write(profile.collective_timings(),
               [](v1::ProfilePiece& piece) { return piece.add_collective_timings(); });
  writer.Write(profile.optimizer_timings(),
               [](v1::ProfilePiece& piece) { return piece.add_optimizer_timings(); });
  return messages;
}

ProfileClient::ProfileClient(std::shared_ptr<grpc::Channel> channel)
    : stub_(v1::ProfileService::NewStub(std::move(channel))) {}

ProfileClient::ProfileClient(std::unique_ptr<v1::ProfileService::StubInterface> stub)
    : stub_(std::move(stub)) {}

absl::StatusOr<v1::Profile> ProfileClient::Upload(absl::string_view parent,
                                                  const v1::Profile& profile,
                                                  std::string request_id,
                                                  const CallOptions& options) {
  if (request_id.empty()) request_id = MakeUuid();
  const std::vector<v1::UploadProfileRequest> messages =
      UploadMessages(parent, request_id, profile);
  return WithRetries(options, [&](const CallOptions& rest) -> absl::StatusOr<v1::Profile> {
    grpc::ClientContext context;
    ApplyCallOptions(rest, context);
    v1::Profile stored;
    const auto writer = stub_->UploadProfile(&context, &stored);
    for (const v1::UploadProfileRequest& message : messages) {
      if (!writer->Write(message)) break;  // `Finish` says why.
    }
    writer->WritesDone();
    const absl::Status status = FromGrpcStatus(writer->Finish());
    if (!status.ok()) return status;
    return stored;
  });
}

absl::StatusOr<v1::Profile> ProfileClient::Get(const v1::GetProfileRequest& request,
                                               const CallOptions& options) {
  return CallUnary(*stub_, &ProfileStub::GetProfile, request, options);
}

absl::StatusOr<v1::ListProfilesResponse> ProfileClient::List(const v1::ListProfilesRequest& request,
                                                             const CallOptions& options) {
  return CallUnary(*stub_, &ProfileStub::ListProfiles, request, options);
}

absl::Status ProfileClient::Delete(const v1::DeleteProfileRequest& request,
                                   const CallOptions& options) {
  return CallUnaryOnce(*stub_, &ProfileStub::DeleteProfile, request, options).status();
}

}  // namespace parplan
