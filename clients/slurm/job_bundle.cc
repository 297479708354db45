#include "clients/slurm/job_bundle.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "base/system/posix_file.h"
#include "proto/envelope/durable_file.h"
#include "proto/envelope/strict_json.h"

namespace parplan::slurm {
namespace {

constexpr size_t kMaxFileBytes = size_t{64} << 20;
constexpr int kMaxPort = 65534;

absl::Status Malformed(absl::string_view field, absl::string_view rule) {
  return MakeError(absl::StatusCode::kInvalidArgument, Reason::kPayloadMalformed,
                   absl::StrCat("`", field, "`: ", rule), {{"field", std::string(field)}});
}

}  // namespace

absl::StatusOr<JobBundle> JobBundle::FromJson(absl::string_view text) {
  PARPLAN_ASSIGN_OR_RETURN(const JsonValue object, ParseStrictJson(text, "bundle", kMaxFileBytes,
                                                                   Reason::kPayloadMalformed));
  JobBundle bundle;
  for (const auto& [name, field] :
       {std::pair("job_id", &bundle.job_id), std::pair("without_plan", &bundle.without_plan),
        std::pair("envelope", &bundle.envelope), std::pair("model", &bundle.model),
        std::pair("topology", &bundle.topology),
        std::pair("master_address", &bundle.master_address)}) {
    PARPLAN_ASSIGN_OR_RETURN(*field, GetString(object, "bundle", name, Reason::kPayloadMalformed));
  }
  const JsonValue* const names = object.Find("node_names");
  if (names == nullptr || names->type != JsonValue::Type::kArray) {
    return Malformed("node_names", "must be a list");
  }
  for (const JsonValue& name : names->items) {
    if (name.type != JsonValue::Type::kString) {
      return Malformed("node_names", "must be a list of strings");
    }
    bundle.node_names.push_back(name.text);
  }
  const JsonValue* const port = object.Find("master_port");
  if (port == nullptr || port->type != JsonValue::Type::kInteger || port->integer < 0 ||
      port->integer > kMaxPort) {
    return Malformed("master_port", absl::StrCat("must be from 0 to ", kMaxPort));
  }
  bundle.master_port = static_cast<int>(port->integer);
  return bundle;
}

std::string JobBundle::ToJson() const {
  const nlohmann::ordered_json object = {{"job_id", job_id},
                                         {"without_plan", without_plan},
                                         {"envelope", envelope},
                                         {"model", model},
                                         {"topology", topology},
                                         {"node_names", node_names},
                                         {"master_address", master_address},
                                         {"master_port", master_port}};
  return object.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string BundlePath(const std::string& spool_dir, const std::string& job_id) {
  return absl::StrCat(spool_dir, "/", job_id, ".json");
}

absl::Status WriteBundle(const std::string& spool_dir, const JobBundle& bundle) {
  return WriteDurably(BundlePath(spool_dir, bundle.job_id), bundle.ToJson(), 0644);
}

absl::StatusOr<JobBundle> ReadBundle(const std::string& spool_dir, const std::string& job_id) {
  PARPLAN_ASSIGN_OR_RETURN(const std::string text, ReadText(BundlePath(spool_dir, job_id)));
  PARPLAN_ASSIGN_OR_RETURN(JobBundle bundle, JobBundle::FromJson(text));
  if (bundle.job_id != job_id) {
    return absl::DataLossError(absl::StrCat(BundlePath(spool_dir, job_id), " is of job ",
                                            bundle.job_id, "; only SlurmUser may write to ",
                                            spool_dir));
  }
  return bundle;
}

void RemoveBundle(const std::string& spool_dir, const std::string& job_id) {
  ::unlink(BundlePath(spool_dir, job_id).c_str());
}

absl::StatusOr<std::string> ReadText(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path, {.max_bytes = kMaxFileBytes});
  if (text.ok() || absl::IsNotFound(text.status())) return text;
  return FieldError(Reason::kSpecInvalid, path, text.status().message());
}

}  // namespace parplan::slurm
