#include "clients/files/input_files.h"

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/system/posix_file.h"
#include "parplan/v1/model.pb.h"
#include "parplan/v1/topology.pb.h"
#include "proto/envelope/durable_file.h"
#include "proto/envelope/envelope_json.h"
#include "proto/wire/json_file.h"
#include "proto/wire/model_wire.h"
#include "proto/wire/topology_wire.h"

namespace parplan {
namespace {

absl::Status MemoryError(const std::string& path, absl::string_view fault) {
  return FieldError(Reason::kSpecInvalid, path,
                    absl::StrCat("cannot remember the trust bundle accepted last (", fault,
                                 "); give a file in a folder that this program can write"));
}

// Compares a bundle with the one that the memory at `path` holds. Returns whether it is that
// bundle, byte by byte, and false without a memory; fails if it may not follow that bundle.
absl::StatusOr<bool> IsRemembered(const std::string& path, absl::string_view text,
                                  const TrustBundle& bundle) {
  const absl::StatusOr<std::string> remembered = ReadFile(path, {.max_bytes = kMaxInputFileBytes});
  if (absl::IsNotFound(remembered.status())) return false;
  if (!remembered.ok()) return MemoryError(path, remembered.status().message());
  const absl::StatusOr<TrustBundle> accepted = TrustBundle::FromJson(*remembered);
  if (!accepted.ok()) return MemoryError(path, accepted.status().message());
  PARPLAN_RETURN_IF_ERROR(accepted->CheckSuccessor(bundle));
  return *remembered == text;
}

template <typename Message>
absl::StatusOr<Message> ReadMessage(const std::string& path) {
  PARPLAN_ASSIGN_OR_RETURN(const std::string text, ReadInputFile(path));
  Message message;
  PARPLAN_RETURN_IF_ERROR(ParseJson(text, path, &message));
  return message;
}

}  // namespace

absl::StatusOr<std::string> ReadInputFile(const std::string& path, size_t max_bytes) {
  const absl::StatusOr<std::string> text =
      ReadFile(path, {.max_bytes = max_bytes, .takes_any_kind = true});
  if (text.ok()) return text;
  return MakeError(absl::StatusCode::kInvalidArgument, Reason::kSpecInvalid,
                   text.status().message(),
                   {{"field", path}, {"rule", std::string(text.status().message())}});
}

absl::StatusOr<TrustBundle> ReadTrustFile(const std::string& path) {
  PARPLAN_ASSIGN_OR_RETURN(const std::string text, ReadInputFile(path));
  return AcceptTrustBundle(text);
}

absl::StatusOr<TrustBundle> AcceptTrustBundle(absl::string_view text, std::string memory_path) {
  PARPLAN_ASSIGN_OR_RETURN(TrustBundle bundle, TrustBundle::FromJson(text));
  if (memory_path.empty()) {
    const char* const variable = std::getenv("PARPLAN_TRUST_MEMORY");
    if (variable != nullptr) memory_path = variable;
  }
  if (memory_path.empty()) return bundle;
  // Mostly nothing is new, and then the folder need not be writable.
  PARPLAN_ASSIGN_OR_RETURN(const bool was_known, IsRemembered(memory_path, text, bundle));
  if (was_known) return bundle;
  // Another process or thread may have accepted a newer bundle since.
  const absl::StatusOr<FileLock> lock = FileLock::Acquire(absl::StrCat(memory_path, ".lock"));
  if (!lock.ok()) return MemoryError(memory_path, lock.status().message());
  PARPLAN_ASSIGN_OR_RETURN(const bool is_known, IsRemembered(memory_path, text, bundle));
  if (is_known) return bundle;
  const absl::Status written =
      AtomicWrite(memory_path, text, {.syncs_file = true, .staged_suffix = kStagedSuffix});
  if (!written.ok()) return MemoryError(memory_path, written.message());
  return bundle;
}

absl::StatusOr<v1::SignedPlan> ReadEnvelopeFile(const std::string& path) {
  PARPLAN_ASSIGN_OR_RETURN(const std::string text, ReadInputFile(path));
  return EnvelopeFromJson(text);
}

absl::StatusOr<ModelSpec> ReadModelFile(const std::string& path) {
  PARPLAN_ASSIGN_OR_RETURN(const auto message, ReadMessage<v1::ModelSpec>(path));
  return ModelFromProto(message);
}

absl::StatusOr<Topology> ReadTopologyFile(const std::string& path) {
  PARPLAN_ASSIGN_OR_RETURN(const auto message, ReadMessage<v1::ClusterTopology>(path));
  return TopologyFromProto(message);
}

}  // namespace parplan
