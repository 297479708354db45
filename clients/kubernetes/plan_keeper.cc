#include "clients/kubernetes/plan_keeper.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/service/log/event_log.h"
#include "base/status_macros.h"
#include "clients/files/input_files.h"
#include "clients/kubernetes/plan_hope.h"
#include "proto/envelope/envelope_json.h"
#include "proto/envelope/trust_bundle.h"
#include "proto/envelope/verifier.h"
#include "proto/wire/duration_wire.h"

namespace parplan::sidecar {
namespace {

// Verified as of the time when it was issued, so that it, and the bundle, may have expired since.
absl::StatusOr<v1::PlanPayload> ReadPlan(const PlanVolume& volume, const PlanWanted& wanted,
                                         TrustBundle trust) {
  const absl::StatusOr<std::string> text = volume.Read(kPlanFile);
  if (!text.ok()) {
    return MakeError(absl::StatusCode::kNotFound, Reason::kResourceNotFound,
                     absl::StrCat("there is no plan in ", volume.PathOf(kPlanFile),
                                  "; run `parplan-sidecar init` before"));
  }
  PARPLAN_ASSIGN_OR_RETURN(const v1::SignedPlan envelope, EnvelopeFromJson(*text));
  ExpectedAudience expected;
  expected.node_name = wanted.node_name;
  v1::PlanPayload claimed;
  (void)claimed.ParseFromString(envelope.payload());
  PARPLAN_ASSIGN_OR_RETURN(const absl::Time issued,
                           TimestampFromProto(claimed.issue_time(), "issue_time"));
  PARPLAN_ASSIGN_OR_RETURN(const VerifiedPlan verified,
                           PlanVerifier(std::move(trust)).Verify(envelope, expected, issued));
  return verified.payload();
}

}  // namespace

absl::StatusOr<std::unique_ptr<PlanKeeper>> PlanKeeper::Open(const PlanFilesOptions& files,
                                                             const PlanWanted& wanted,
                                                             const ChannelOptions& server) {
  PARPLAN_ASSIGN_OR_RETURN(std::unique_ptr<PlanVolume> volume, PlanVolume::Open(files.folder));
  PARPLAN_ASSIGN_OR_RETURN(TrustBundle trust, ReadTrustFile(wanted.trust_file));
  PARPLAN_ASSIGN_OR_RETURN(v1::PlanPayload payload, ReadPlan(*volume, wanted, trust));
  return std::unique_ptr<PlanKeeper>(new PlanKeeper(
      files, std::move(volume), PlanFetcher(wanted, server, std::move(trust)), std::move(payload)));
}

LookOutcome PlanKeeper::Look(absl::Time now, absl::Duration timeout) {
  const v1::PlanPayload before = payload();
  absl::StatusOr<std::optional<FetchedPlan>> newer = fetcher_.FetchNewer(before, now, timeout);
  absl::Status status = newer.status();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    trust_expiry_ = fetcher_.trust_expiry();
  }
  if (status.ok() && !newer->has_value()) return LookOutcome::kSame;
  if (status.ok()) {
    const absl::StatusOr<std::vector<VolumeFile>> files = MakePlanFiles(**newer, files_);
    status = files.ok() ? volume_->Write(*files) : files.status();
  }
  if (!status.ok()) {
    // A file of a certificate that is being renewed is no fault of a plan.
    const std::optional<ErrorDetail> detail = GetErrorDetail(status);
    const bool is_passing =
        MayStillCome(status) || (absl::IsInvalidArgument(status) && detail.has_value() &&
                                 detail->reason == Reason::kSpecInvalid);
    LogEvent("warning", is_passing ? "cannot look for a newer plan" : "a newer plan was refused",
             {{"message", std::string(status.message())}});
    return is_passing ? LookOutcome::kFailed : LookOutcome::kRefused;
  }
  const v1::PlanPayload& after = (*newer)->verified.payload();
  LogEvent("info", "plan changed",
           {{"from", before.plan()},
            {"to", after.plan()},
            {"generation", absl::StrCat(volume_->generation())}});
  const std::lock_guard<std::mutex> lock(mutex_);
  payload_ = after;
  generation_ = volume_->generation();
  return LookOutcome::kNew;
}

v1::PlanPayload PlanKeeper::payload() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return payload_;
}

absl::Time PlanKeeper::trust_expiry() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return trust_expiry_;
}

int64_t PlanKeeper::generation() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return generation_;
}

}  // namespace parplan::sidecar
