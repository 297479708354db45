#include "clients/files/input_files.h"

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "parplan/v1/model.pb.h"
#include "parplan/v1/topology.pb.h"
#include "proto/envelope/envelope_json.h"
#include "proto/wire/json_file.h"
#include "proto/wire/model_wire.h"
#include "proto/wire/topology_wire.h"

namespace parplan {
namespace {

constexpr size_t kChunkBytes = size_t{64} << 10;

template <typename Message>
absl::StatusOr<Message> ReadMessage(const std::string& path) {
  PARPLAN_ASSIGN_OR_RETURN(const std::string text, ReadInputFile(path));
  Message message;
  PARPLAN_RETURN_IF_ERROR(ParseJson(text, path, &message));
  return message;
}

}  // namespace

absl::StatusOr<std::string> ReadInputFile(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text;
  std::string chunk(kChunkBytes, '\0');
  do {
    file.read(chunk.data(), static_cast<std::streamsize>(chunk.size()));
    text.append(chunk.data(), static_cast<size_t>(file.gcount()));
  } while (file.good());
  // A folder opens, and cannot be read.
  if (file.bad() || !file.eof()) {
    return FieldError(
        Reason::kSpecInvalid, path,
        absl::StrCat("cannot be read: ", std::strerror(errno), "; check the path and your rights"));
  }
  return text;
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
