#include "server/core/calibration_core.h"

#include <cstddef>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "proto/wire/calibration_wire.h"
#include "proto/wire/duration_wire.h"
#include "proto/wire/resource_name.h"
#include "server/core/id_length.h"
#include "server/core/request_rules.h"
#include "server/core/stored_message.h"

namespace parplan {
namespace {

// Memory of a calibration as a multiple of its bytes on the wire, estimated; only for the cache.
constexpr size_t kMemoryPerByte = 8;

v1::ActiveCalibration ToMessage(const ActiveCalibrationRecord& record) {
  v1::ActiveCalibration active;
  active.set_calibration(record.name);
  active.set_digest(record.content_digest);
  if (record.activate_time != absl::InfinitePast()) {
    *active.mutable_activate_time() = TimestampToProto(record.activate_time);
  }
  return active;
}

// Reports to the observer which calibration is active in a cluster.
void ReportActive(absl::string_view cluster, const ActiveCalibrationRecord& active,
                  Observer& observer) {
  observer.CalibrationSeen(cluster, active.name.empty()
                                        ? std::nullopt
                                        : std::optional<absl::Time>(active.activate_time));
}

}  // namespace

CalibrationCore::CalibrationCore(Store& store, const Clock& clock, Observer& observer,
                                 const Limits& limits)
    : store_(store),
      clock_(clock),
      observer_(observer),
      limits_(limits),
      calibrations_(limits.calibration_cache_bytes) {}

absl::StatusOr<v1::Calibration> CalibrationCore::Upload(
    const v1::UploadCalibrationRequest& request) {
  const auto request_bytes = static_cast<int64_t>(request.ByteSizeLong());
  if (request_bytes > limits_.max_request_bytes) {
    return MakeError(absl::StatusCode::kResourceExhausted, Reason::kUploadTooLarge,
                     absl::StrCat("the request has ", request_bytes, " bytes; at most ",
                                  limits_.max_request_bytes, " are taken"),
                     {{"limit", absl::StrCat(limits_.max_request_bytes)},
                      {"value", absl::StrCat(request_bytes)}});
  }
  PARPLAN_ASSIGN_OR_RETURN(const ClusterName parent, ClusterName::Parse(request.parent()));
  PARPLAN_RETURN_IF_ERROR(CheckRequestId(request.request_id(), true, "request_id"));
  if (!request.has_calibration()) {
    return FieldError(Reason::kSpecInvalid, "calibration", "is required");
  }
  PARPLAN_ASSIGN_OR_RETURN(const Calibration calibration,
                           CalibrationFromProto(request.calibration(), "calibration"));
  CalibrationRecord record;
  record.cluster = parent.cluster;
  record.content_digest = calibration.content().digest;
  record.calibration_id = record.content_digest.substr(0, kIdLength);
  record.name = CalibrationName{record.cluster, record.calibration_id}.ToString();
  record.request_id = request.request_id();
  record.create_time = clock_.Now();
  v1::Calibration message = CalibrationToProto(calibration);
  message.set_name(record.name);
  *message.mutable_create_time() = TimestampToProto(record.create_time);
  record.bytes = message.SerializeAsString();
  PARPLAN_ASSIGN_OR_RETURN(const CalibrationRecord stored,
                           store_.PutCalibration(std::move(record)));
  return ParseStored<v1::Calibration>(stored.bytes, stored.name);
}

absl::StatusOr<v1::Calibration> CalibrationCore::Get(const v1::GetCalibrationRequest& request) {
  PARPLAN_ASSIGN_OR_RETURN(const CalibrationName name, CalibrationName::Parse(request.name()));
  PARPLAN_ASSIGN_OR_RETURN(const CalibrationRecord record, store_.GetCalibration(name.ToString()));
  return ParseStored<v1::Calibration>(record.bytes, record.name);
}

absl::StatusOr<v1::ListCalibrationsResponse> CalibrationCore::List(
    const v1::ListCalibrationsRequest& request) {
  PARPLAN_ASSIGN_OR_RETURN(const ClusterName parent, ClusterName::Parse(request.parent()));
  PARPLAN_ASSIGN_OR_RETURN(
      const Page<CalibrationRecord> page,
      store_.ListCalibrations(parent.cluster,
                              PageRequest{request.page_size(), request.page_token()}));
  v1::ListCalibrationsResponse response;
  for (const CalibrationRecord& record : page.records) {
    PARPLAN_ASSIGN_OR_RETURN(v1::Calibration calibration,
                             ParseStored<v1::Calibration>(record.bytes, record.name));
    calibration.clear_coefficient_values();
    calibration.clear_residual_classes();
    *response.add_calibrations() = std::move(calibration);
  }
  response.set_next_page_token(page.next_page_token);
  return response;
}

absl::StatusOr<v1::ActiveCalibration> CalibrationCore::Activate(
    const v1::ActivateCalibrationRequest& request) {
  PARPLAN_ASSIGN_OR_RETURN(const ClusterName parent, ClusterName::Parse(request.parent()));
  if (!request.calibration().empty()) {
    PARPLAN_ASSIGN_OR_RETURN(const CalibrationName name,
                             CalibrationName::Parse(request.calibration(), "calibration"));
    if (name.parent() != parent) {
      return FieldError(Reason::kSpecInvalid, "calibration",
                        absl::StrCat("must be one of ", parent.ToString(),
                                     "; upload it there before it is activated"));
    }
  }
  const absl::StatusOr<ActiveCalibrationRecord> active =
      store_.ActivateCalibration(parent.cluster, request.calibration(), clock_.Now());
  if (!active.ok()) return NamingField(active.status(), "calibration");
  ReportActive(parent.cluster, *active, observer_);
  return ToMessage(*active);
}

absl::StatusOr<v1::ActiveCalibration> CalibrationCore::GetActive(
    const v1::GetActiveCalibrationRequest& request) {
  PARPLAN_ASSIGN_OR_RETURN(const ClusterName parent, ClusterName::Parse(request.parent()));
  PARPLAN_ASSIGN_OR_RETURN(const ActiveCalibrationRecord active, ReadActive(parent.cluster));
  return ToMessage(active);
}

absl::StatusOr<std::string> CalibrationCore::ActiveName(absl::string_view cluster) {
  PARPLAN_ASSIGN_OR_RETURN(ActiveCalibrationRecord active, ReadActive(cluster));
  return std::move(active.name);
}

absl::StatusOr<ActiveCalibrationRecord> CalibrationCore::ReadActive(absl::string_view cluster) {
  PARPLAN_ASSIGN_OR_RETURN(ActiveCalibrationRecord active, store_.ActiveCalibration(cluster));
  ReportActive(cluster, active, observer_);
  return active;
}

absl::StatusOr<std::shared_ptr<const Calibration>> CalibrationCore::Find(const std::string& name) {
  if (name.empty()) return std::shared_ptr<const Calibration>();
  if (const auto known = calibrations_.Get(name)) return *known;
  PARPLAN_ASSIGN_OR_RETURN(const CalibrationRecord record, store_.GetCalibration(name));
  PARPLAN_ASSIGN_OR_RETURN(const v1::Calibration message,
                           ParseStored<v1::Calibration>(record.bytes, record.name));
  absl::StatusOr<Calibration> read = CalibrationFromProto(message, record.name);
  if (!read.ok()) {
    return MakeError(
        absl::StatusCode::kDataLoss, Reason::kStoreUnavailable,
        absl::StrCat("this server does not understand the active calibration (",
                     read.status().message(), "); start the server that stored it, or activate ",
                     "another calibration, or none"));
  }
  auto calibration = std::make_shared<const Calibration>(*std::move(read));
  calibrations_.Put(name, calibration, kMemoryPerByte * record.bytes.size());
  return calibration;
}

}  // namespace parplan
