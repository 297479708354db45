// `UploadSession` of profile_keeper.h.

#include <google/protobuf/arena.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "proto/wire/digest.h"
#include "proto/wire/duration_wire.h"
#include "proto/wire/profile_coverage.h"
#include "proto/wire/profile_wire.h"
#include "proto/wire/resource_name.h"
#include "server/core/id_length.h"
#include "server/core/profile_keeper.h"
#include "server/core/request_rules.h"
#include "server/core/snapshot_report.h"
#include "server/core/stored_message.h"

namespace parplan {
namespace {

template <typename Element>
void MoveAll(google::protobuf::RepeatedPtrField<Element> from,
             google::protobuf::RepeatedPtrField<Element>* to) {
  to->Reserve(to->size() + from.size());
  for (Element& element : from) *to->Add() = std::move(element);
}

// A header has names and facts of a node, some hundred bytes.
constexpr size_t kMaxHeaderBytes = size_t{64} << 10;

// An upload beyond this is decoded while no other such one is.
constexpr int64_t kLargeUploadBytes = int64_t{4} << 20;

// Memory of a decoded profile for each byte of `Limits::max_upload_bytes`. Measurements take 10;
// messages that hold nothing would take 40.
constexpr int64_t kMaxDecodedBytesPerByte = 12;

// Whether a message is one of measurements, by its first field.
bool HoldsMeasurements(absl::string_view message) {
  constexpr int kLengthDelimited = 2;
  constexpr int kTag = v1::UploadProfileRequest::kMeasurementsFieldNumber << 3 | kLengthDelimited;
  static_assert(kTag < 128, "a tag of one byte");
  return !message.empty() && message.front() == static_cast<char>(kTag);
}

absl::Status NoMessage() {
  return FieldError(Reason::kProfileInvalid, "piece", "is no message of parplan.v1.UploadProfile");
}

}  // namespace

UploadSession::UploadSession(ProfileKeeper* keeper, std::shared_ptr<CallContext> context)
    : keeper_(keeper),
      context_(std::move(context)),
      memory_(keeper->upload_memory_, context_->holder()) {}

UploadSession::~UploadSession() {
  if (!reported_) Report(absl::CancelledError("the client went away"));
}

void UploadSession::Report(const absl::Status& status) {
  if (reported_) return;
  reported_ = true;
  std::optional<Reason> reason;
  if (const std::optional<ErrorDetail> detail = GetErrorDetail(status)) reason = detail->reason;
  keeper_->observer_.UploadFinished(reason, status.ok(), byte_count_);
}

absl::Status UploadSession::Add(const v1::UploadProfileRequest& request) {
  return Add(request.SerializeAsString());
}

absl::Status UploadSession::Add(std::string message) {
  if (!failure_.ok()) return failure_;
  failure_ = AddImpl(std::move(message));
  if (!failure_.ok()) Report(failure_);
  return failure_;
}

absl::Status UploadSession::AddImpl(std::string message) {
  const auto size = static_cast<int64_t>(message.size());
  byte_count_ += size;
  const int64_t limit = keeper_->limits_.max_upload_bytes;
  if (byte_count_ > limit) {
    return MakeError(absl::StatusCode::kResourceExhausted, Reason::kUploadTooLarge,
                     absl::StrCat("the upload has more than ", limit,
                                  " bytes; upload the measurements as several profiles, which "
                                  "are merged when a plan is made"),
                     {{"limit", absl::StrCat(limit)}, {"value", absl::StrCat(byte_count_)}});
  }
  if (HoldsMeasurements(message)) {
    if (!has_header_) {
      return FieldError(Reason::kProfileInvalid, "header", "must be in the first message");
    }
    PARPLAN_RETURN_IF_ERROR(memory_.Grow(size));
    pieces_.push_back(std::move(message));
    return absl::OkStatus();
  }
  if (message.size() > kMaxHeaderBytes) {
    return FieldError(Reason::kProfileInvalid, "header",
                      absl::StrCat("must have at most ", kMaxHeaderBytes, " bytes"));
  }
  // Generated code says which piece there is before it allocates it. Where memory ends then, a
  // message outside an arena would free a piece that it never had.
  google::protobuf::Arena arena;
  auto& request = *google::protobuf::Arena::CreateMessage<v1::UploadProfileRequest>(&arena);
  return request.ParseFromString(message) ? AddHeader(request) : NoMessage();
}

absl::Status UploadSession::AddHeader(const v1::UploadProfileRequest& request) {
  if (request.has_header()) {
    const v1::UploadHeader& header = request.header();
    if (has_header_) {
      return FieldError(Reason::kProfileInvalid, "header", "must be in the first message only");
    }
    PARPLAN_ASSIGN_OR_RETURN(NodeName parent, NodeName::Parse(header.parent(), "header.parent"));
    PARPLAN_RETURN_IF_ERROR(
        CheckRequestId(header.request_id(), true, "header.request_id", Reason::kProfileInvalid));
    PARPLAN_RETURN_IF_ERROR(keeper_->guard_.Check(*context_, "UploadProfile", header));
    has_header_ = true;
    cluster_ = std::move(parent.cluster);
    node_ = std::move(parent.node);
    request_id_ = header.request_id();
    *profile_.mutable_provenance() = header.provenance();
    profile_.set_device_kind(header.device_kind());
    profile_.set_devices_per_node(header.devices_per_node());
    profile_.set_precision(header.precision());
    profile_.set_runtime_id(header.runtime_id());
    if (header.has_overlap_slowdown()) profile_.set_overlap_slowdown(header.overlap_slowdown());
    if (header.has_context_memory_bytes()) {
      profile_.set_context_memory_bytes(header.context_memory_bytes());
    }
    if (header.has_communicator_memory_bytes()) {
      profile_.set_communicator_memory_bytes(header.communicator_memory_bytes());
    }
    return absl::OkStatus();
  }
  if (!has_header_) {
    return FieldError(Reason::kProfileInvalid, "header", "must be in the first message");
  }
  return FieldError(Reason::kProfileInvalid, "piece", "is required; give a header or measurements");
}

absl::Status UploadSession::DecodePieces() {
  const int64_t limit = kMaxDecodedBytesPerByte * keeper_->limits_.max_upload_bytes;
  int64_t decoded_bytes = 0;
  for (std::string& message : pieces_) {
    v1::UploadProfileRequest request;
    // Allocated before the message says that it has it: see `Add`.
    request.set_allocated_measurements(new v1::ProfilePiece);
    const bool is_whole = request.MergeFromString(message);
    std::string().swap(message);
    if (!is_whole) return NoMessage();
    if (request.has_header()) {
      return FieldError(Reason::kProfileInvalid, "header", "must be in the first message only");
    }
    v1::ProfilePiece& piece = *request.mutable_measurements();
    decoded_bytes += static_cast<int64_t>(piece.SpaceUsedLong());
    if (decoded_bytes > limit) {
      return MakeError(absl::StatusCode::kResourceExhausted, Reason::kUploadTooLarge,
                       absl::StrCat("the measurements take more than ", limit,
                                    " bytes of memory; upload them as several profiles, which are "
                                    "merged when a plan is made"),
                       {{"limit", absl::StrCat(limit)}, {"value", absl::StrCat(decoded_bytes)}});
    }
    MoveAll(std::move(*piece.mutable_layer_definitions()), profile_.mutable_layer_definitions());
    MoveAll(std::move(*piece.mutable_layer_timings()), profile_.mutable_layer_timings());
    MoveAll(std::move(*piece.mutable_layer_memories()), profile_.mutable_layer_memories());
    MoveAll(std::move(*piece.mutable_collective_timings()), profile_.mutable_collective_timings());
    MoveAll(std::move(*piece.mutable_optimizer_timings()), profile_.mutable_optimizer_timings());
  }
  pieces_.clear();
  return absl::OkStatus();
}

absl::StatusOr<v1::Profile> UploadSession::Finish() {
  if (!failure_.ok()) return failure_;
  absl::StatusOr<v1::Profile> stored = FinishImpl();
  failure_ = stored.ok() ? absl::FailedPreconditionError("the upload has ended") : stored.status();
  Report(stored.status());
  return stored;
}

absl::StatusOr<v1::Profile> UploadSession::FinishImpl() {
  if (!has_header_) {
    return FieldError(Reason::kProfileInvalid, "header", "must be in the first message");
  }
  std::unique_lock<std::mutex> decoding(keeper_->decode_mutex_, std::defer_lock);
  if (byte_count_ > kLargeUploadBytes) decoding.lock();
  PARPLAN_RETURN_IF_ERROR(DecodePieces());
  // Unknown fields, which no rule checks, are not stored.
  profile_.DiscardUnknownFields();
  PARPLAN_RETURN_IF_ERROR(ValidateProfile(profile_));
  ProfileRecord record;
  record.cluster = cluster_;
  record.node = node_;
  record.owner = context_->caller()->owner();
  record.device_kind = profile_.device_kind();
  record.kind = absl::StrCat(profile_.devices_per_node(), " ",
                             v1::Precision_Name(profile_.precision()), " ", profile_.runtime_id());
  record.request_id = request_id_;
  record.content_digest = ProfileContentDigest(profile_);
  record.create_time = keeper_->clock_.Now();
  const NodeName parent{cluster_, node_};
  record.profile_id = Sha256Hex(absl::StrCat("parplan profile id 1\n", parent.ToString(), "\n",
                                             record.request_id, "\n", record.content_digest))
                          .substr(0, kIdLength);
  record.name = ProfileName{cluster_, node_, record.profile_id}.ToString();
  profile_.set_name(record.name);
  profile_.set_digest(record.content_digest);
  *profile_.mutable_create_time() = TimestampToProto(record.create_time);
  record.bytes = profile_.SerializeAsString();
  PARPLAN_RETURN_IF_ERROR(
      keeper_->quotas_.Check({.owner = record.owner,
                              .cluster = record.cluster,
                              .byte_count = static_cast<int64_t>(record.bytes.size()),
                              .profile = &record}));
  // The stored profile is decoded again, for it may be that of an earlier upload.
  record.coverage = ProfileCoverage(std::move(profile_));
  profile_ = v1::Profile();
  PARPLAN_ASSIGN_OR_RETURN(
      const ProfileRecord stored,
      keeper_->store_.PutProfile(std::move(record), keeper_->limits_.profiles_per_node));
  PARPLAN_ASSIGN_OR_RETURN(v1::Profile profile,
                           ParseStored<v1::Profile>(stored.bytes, stored.name));
  keeper_->observer_.ProfileStored(
      {cluster_, profile.device_kind(), profile.devices_per_node(), MeasureTime(profile), {}});
  return profile;
}

}  // namespace parplan
