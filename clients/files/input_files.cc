#include "clients/files/input_files.h"

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
  return TrustBundle::FromJson(text);
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
