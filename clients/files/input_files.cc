#include "clients/files/input_files.h"

#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/system/posix_file.h"
#include "parplan/v1/model.pb.h"
#include "parplan/v1/topology.pb.h"
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
  const absl::StatusOr<std::string> remembered =
      ReadFile(memory_path, {.max_bytes = kMaxInputFileBytes});
  if (remembered.ok()) {
    const absl::StatusOr<TrustBundle> accepted = TrustBundle::FromJson(*remembered);
    if (!accepted.ok()) return MemoryError(memory_path, accepted.status().message());
    PARPLAN_RETURN_IF_ERROR(accepted->CheckSuccessor(bundle));
    if (*remembered == text) return bundle;
  } else if (!absl::IsNotFound(remembered.status())) {
    return MemoryError(memory_path, remembered.status().message());
  }
  // Several processes of a node may do so at once; each writes a bundle that may follow.
  const absl::Status written =
      AtomicWrite(memory_path, text,
                  {.syncs_file = true, .staged_suffix = absl::StrCat(".", getpid(), ".new")});
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
