// Stores profiles, whole or not at all, and merges them into the snapshots that the planner reads.
// server/rpc/profile_service.cc calls it, and `KnowledgeKeeper` asks for snapshots.

#ifndef PARPLAN_SERVER_CORE_PROFILE_KEEPER_H_
#define PARPLAN_SERVER_CORE_PROFILE_KEEPER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/system/clock.h"
#include "parplan/v1/profile.pb.h"
#include "parplan/v1/profile_service.pb.h"
#include "planner/model/profile_snapshot.h"
#include "server/core/call_context.h"
#include "server/core/call_guard.h"
#include "server/core/limits.h"
#include "server/core/observer.h"
#include "server/core/quota_keeper.h"
#include "server/core/upload_memory.h"
#include "server/store/store.h"

namespace parplan {

class ProfileKeeper;

// One stream of `UploadProfile`, which `ProfileKeeper::StartUpload` begins. Collects in memory:
// nothing is stored before `Finish`, and a session that is dropped stores nothing. Used by one
// thread at a time.
class UploadSession {
 public:
  ~UploadSession();

  // Adds a message as it came, which stays as it is until `Finish`: decoded it takes up to 40 times
  // as much memory. Errors are those of the other `Add`, and PROFILE_INVALID for bytes that are no
  // such message, which may come from `Finish` as well.
  absl::Status Add(std::string message);

  // Adds the header (first) or a piece (afterwards). After an error every further call returns it.
  // INVALID_ARGUMENT (PROFILE_INVALID; SPEC_INVALID for the name of the node) for a header that
  // breaks a rule or has more than 64 KiB, or messages in another order. RESOURCE_EXHAUSTED
  // (UPLOAD_TOO_LARGE) as soon as the messages together have more than `Limits::max_upload_bytes`,
  // and (QUEUE_FULL) while uploads in progress hold `Limits::max_upload_memory_bytes`, or half of
  // it those of one holder (`CallContext::holder`). For the header also the errors of
  // `CallGuard::Check`, such as PERMISSION_DENIED if the caller may not upload for this node.
  absl::Status Add(const v1::UploadProfileRequest& request);

  // Checks every rule of profile.proto and stores the profile; to be called when the client has
  // half-closed. Once this returns OK the profile survives a crash, and profiles of the node beyond
  // `Limits::profiles_per_node` are deleted. For a `request_id` seen before returns the profile
  // stored first if the content is equal, else INVALID_ARGUMENT (REQUEST_ID_REUSED).
  // INVALID_ARGUMENT (PROFILE_INVALID) for a broken rule; RESOURCE_EXHAUSTED (QUOTA_EXCEEDED) for
  // one too many, (UPLOAD_TOO_LARGE) for one that the store cannot hold or that takes too much
  // memory when it is decoded; the store's UNAVAILABLE, DATA_LOSS and INTERNAL (all
  // STORE_UNAVAILABLE). Afterwards every call returns an error.
  absl::StatusOr<v1::Profile> Finish();

 private:
  friend class ProfileKeeper;
  UploadSession(ProfileKeeper* keeper, std::shared_ptr<CallContext> context);

  // `Add` without its accounting, `Finish` without its report.
  absl::Status AddImpl(std::string message);
  absl::Status AddHeader(const v1::UploadProfileRequest& request);
  // Moves what the pieces hold into the profile, one at a time.
  absl::Status DecodePieces();
  absl::StatusOr<v1::Profile> FinishImpl();

  // Reports the end of the upload to the observer, once.
  void Report(const absl::Status& status);

  ProfileKeeper* keeper_;
  const std::shared_ptr<CallContext> context_;
  bool has_header_ = false;
  bool reported_ = false;
  absl::Status failure_;  // The first error; returned by every later call.
  std::string cluster_;
  std::string node_;
  std::string request_id_;
  int64_t byte_count_ = 0;
  UploadMemory::Share memory_;
  std::vector<std::string> pieces_;  // Messages after the header, as they came.
  v1::Profile profile_;
};

// Merged measurements of one kind of node, as of one revision of the store.
struct SnapshotHandle {
  // Any thread may read it; null in a default handle alone.
  std::shared_ptr<const ProfileSnapshot> snapshot;
  // End of the newest measurement in it, or the time it was stored if the agent did not say. Of
  // profiles that measure the same things only the one stored last is in it.
  absl::Time newest_measurement;
};

// The methods of ProfileService. Errors are those listed in profile_service.proto: INVALID_ARGUMENT
// (SPEC_INVALID) for a malformed name or page, NOT_FOUND (RESOURCE_NOT_FOUND), and the store's
// UNAVAILABLE, DATA_LOSS and INTERNAL (all STORE_UNAVAILABLE). Every method may wait for the
// store's disk or network. Safe to use from any thread.
class ProfileKeeper {
 public:
  // REQUIRES, unchecked: the arguments outlive the keeper and its sessions.
  ProfileKeeper(Store& store, const Clock& clock, Observer& observer, const Limits& limits,
                CallGuard& guard, QuotaKeeper& quotas);

  // Starts a stream. The session checks `context->caller()` as soon as it knows the node. Neither
  // `context` nor the result is null.
  std::unique_ptr<UploadSession> StartUpload(
      std::shared_ptr<CallContext> context = CallContext::OfItself());
  // Returns the profile of this name, whole.
  absl::StatusOr<v1::Profile> Get(const v1::GetProfileRequest& request);
  // Returns one page of the profiles of a cluster or a node, newest first, without measurements,
  // which `Get` returns.
  absl::StatusOr<v1::ListProfilesResponse> List(const v1::ListProfilesRequest& request);
  // Deletes the profile of this name. Snapshots that are made from then on lack it; plans made
  // before stay.
  absl::Status Delete(const v1::DeleteProfileRequest& request);

  // Returns a number that changes whenever a profile of the cluster is added or deleted.
  absl::StatusOr<int64_t> Revision(absl::string_view cluster);

  // Returns all profiles of the cluster's nodes of this kind that hold for a runtime
  // (`RuntimeTraits::runtime_id`), merged; the same pointer until a profile of the cluster is added
  // or deleted, while the kind is among the last `Limits::max_snapshot_count`. If only larger nodes
  // were measured, these are the measurements within a part of the smallest of them (`PartOfNode`
  // of proto/wire). FAILED_PRECONDITION (PROFILE_MISSING) if nothing fits, listing the kinds of
  // node that have been measured; DATA_LOSS (STORE_UNAVAILABLE) also for a stored profile that
  // breaks a rule of this release. Reads one row of the store, and the profiles that count if the
  // pointer is another; one caller at a time reads. Of profiles without a coverage
  // (`CoverOldProfiles`) all are read, and the newest of each shape is decoded.
  absl::StatusOr<SnapshotHandle> Snapshot(absl::string_view cluster, absl::string_view device_kind,
                                          int devices_per_node, absl::string_view runtime_id);

  // Finds the coverage (`ProfileRecord::coverage`) of a page of the profiles that a release before
  // this one stored, each of which counts in snapshots until then. Waits for a snapshot that is
  // being read. Returns whether there were any, so that the next call may find more.
  absl::StatusOr<bool> CoverOldProfiles();

  // Reports to the observer what each cluster has stored, if that changed since the last report.
  // Returns the first error, after the other clusters were tried as well.
  absl::Status ReportKinds();

 private:
  friend class UploadSession;

  // A snapshot as `Load` read it from the store, and its revision.
  struct LoadedSnapshot {
    int64_t revision = 0;
    SnapshotHandle handle;
  };
  absl::StatusOr<LoadedSnapshot> Load(absl::string_view cluster, absl::string_view device_kind,
                                      int devices_per_node, absl::string_view runtime_id);

  // Lists the kinds of nodes in the profiles of the cluster. Reads those that count in snapshots.
  absl::StatusOr<std::vector<StoredKind>> KindsOf(const std::string& cluster);

  // Cluster, device kind, devices per node, and the runtime as profiles name it.
  using SnapshotKey = std::tuple<std::string, std::string, int, std::string>;
  struct CachedSnapshot {
    int64_t revision = 0;
    int64_t last_use = 0;
    SnapshotHandle handle;
  };

  Store& store_;
  const Clock& clock_;
  Observer& observer_;
  const Limits& limits_;
  CallGuard& guard_;
  QuotaKeeper& quotas_;

  // Returns the snapshot of this revision; an empty handle if there is none.
  SnapshotHandle FindCached(const SnapshotKey& key, int64_t revision);
  void Cache(const SnapshotKey& key, const LoadedSnapshot& loaded);

  UploadMemory upload_memory_;
  std::mutex decode_mutex_;  // One large upload at a time is decoded.

  std::mutex load_mutex_;  // One `Load` at a time: it may hold many profiles in memory.

  std::mutex report_mutex_;
  std::map<std::string, int64_t> reported_revisions_;  // By cluster; guarded by report_mutex_.

  std::mutex mutex_;
  int64_t use_count_ = 0;                            // Guarded by mutex_.
  std::map<SnapshotKey, CachedSnapshot> snapshots_;  // Guarded by mutex_.
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_PROFILE_KEEPER_H_
