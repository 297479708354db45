// `planctl calibration upload|list|show|activate`: what a server has learned from
// measured runs, and what of it its plans rest on.

#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "clients/cpp/calibration_client.h"
#include "clients/planctl/commands/command.h"
#include "clients/planctl/commands/server_flags.h"
#include "clients/planctl/files.h"
#include "proto/wire/json_file.h"
#include "proto/wire/resource_name.h"

namespace parplan::planctl {
namespace {

struct CalibrationFlags {
  ServerFlags server;
  std::string file_path;
  std::string cluster;
  std::string name;
  std::string request_id;
  bool activate = false;
  bool built_in = false;
};

nlohmann::ordered_json CalibrationRow(const v1::Calibration& calibration, bool is_active) {
  nlohmann::ordered_json sources = nlohmann::ordered_json::array();
  for (const v1::CalibrationSource& source : calibration.provenance().sources()) {
    sources.push_back({{"source", source.source()}, {"row_count", source.row_count()}});
  }
  return {{"name", calibration.name()},
          {"digest", calibration.digest()},
          {"agent", calibration.provenance().agent()},
          {"sources", sources},
          {"active", is_active}};
}

// `vtrain-single (151 runs), lab (12 runs)`.
std::string SourcesText(const v1::Calibration& calibration) {
  std::string text;
  for (const v1::CalibrationSource& source : calibration.provenance().sources()) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", source.source(), " (", source.row_count(),
                    source.row_count() == 1 ? " run)" : " runs)");
  }
  return text.empty() ? "no runs" : text;
}

absl::StatusOr<v1::ActiveCalibration> Activate(CalibrationClient& client,
                                               const std::string& cluster, const std::string& name,
                                               const CallOptions& call) {
  v1::ActivateCalibrationRequest request;
  request.set_parent(ClusterName{cluster}.ToString());
  request.set_calibration(name);
  return client.Activate(request, call);
}

absl::Status UploadCalibration(const Session& session, const CalibrationFlags& flags) {
  v1::UploadCalibrationRequest request;
  PARPLAN_ASSIGN_OR_RETURN(*request.mutable_calibration(), ReadCalibration(flags.file_path));
  request.set_parent(ClusterName{flags.cluster}.ToString());
  request.set_request_id(flags.request_id);
  PARPLAN_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel,
                           flags.server.Connect(session));
  CalibrationClient client(channel);
  PARPLAN_ASSIGN_OR_RETURN(const v1::Calibration stored,
                           client.Upload(request, flags.server.Call()));
  if (flags.activate) {
    PARPLAN_RETURN_IF_ERROR(
        Activate(client, flags.cluster, stored.name(), flags.server.Call()).status());
  }
  v1::GetActiveCalibrationRequest get;
  get.set_parent(request.parent());
  PARPLAN_ASSIGN_OR_RETURN(const v1::ActiveCalibration active,
                           client.GetActive(get, flags.server.Call()));
  const bool is_active = active.calibration() == stored.name();
  if (session.json) return Print(session, CalibrationRow(stored, is_active).dump(2) + "\n");
  return Print(
      session,
      absl::StrFormat("%s\n  %d coefficients, %d residual classes, from %s\n  digest %s\n  %s\n",
                      stored.name(), stored.coefficient_values_size(),
                      stored.residual_classes_size(), SourcesText(stored), stored.digest(),
                      is_active ? "active: new plans rest on it"
                                : "not active; `planctl calibration activate` makes it so"));
}

absl::Status ListCalibrations(const Session& session, const CalibrationFlags& flags) {
  PARPLAN_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel,
                           flags.server.Connect(session));
  CalibrationClient client(channel);
  v1::ListCalibrationsRequest request;
  request.set_parent(ClusterName{flags.cluster}.ToString());
  v1::GetActiveCalibrationRequest get;
  get.set_parent(request.parent());
  PARPLAN_ASSIGN_OR_RETURN(const v1::ActiveCalibration active,
                           client.GetActive(get, flags.server.Call()));
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  std::string text;
  do {
    PARPLAN_ASSIGN_OR_RETURN(const v1::ListCalibrationsResponse page,
                             client.List(request, flags.server.Call()));
    for (const v1::Calibration& calibration : page.calibrations()) {
      const bool is_active = calibration.name() == active.calibration();
      rows.push_back(CalibrationRow(calibration, is_active));
      absl::StrAppendFormat(&text, "%s%s\n  from %s\n", calibration.name(),
                            is_active ? "  active" : "", SourcesText(calibration));
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  if (session.json) {
    const nlohmann::ordered_json object = {{"active_calibration", active.calibration()},
                                           {"calibrations", rows}};
    return Print(session, object.dump(2) + "\n");
  }
  if (active.calibration().empty())
    text += "none is active: plans rest on the one inside the programs\n";
  return Print(session, text);
}

absl::Status ShowCalibration(const Session& session, const CalibrationFlags& flags) {
  PARPLAN_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel,
                           flags.server.Connect(session));
  v1::GetCalibrationRequest request;
  request.set_name(flags.name);
  PARPLAN_ASSIGN_OR_RETURN(const v1::Calibration calibration,
                           CalibrationClient(channel).Get(request, flags.server.Call()));
  // The file format is JSON already, and what `calibration upload` takes.
  return Print(session, ToReadableJson(calibration));
}

absl::Status ActivateNamed(const Session& session, const CalibrationFlags& flags) {
  std::string cluster = flags.cluster;
  if (flags.built_in) {
    if (cluster.empty() || !flags.name.empty()) {
      return FieldError(Reason::kSpecInvalid, "--built-in",
                        "needs --cluster and no name of a calibration");
    }
  } else {
    PARPLAN_ASSIGN_OR_RETURN(const CalibrationName name, CalibrationName::Parse(flags.name));
    if (!cluster.empty() && cluster != name.cluster) {
      return FieldError(Reason::kSpecInvalid, "--cluster",
                        absl::StrCat("is not needed; the calibration is of ", name.cluster));
    }
    cluster = name.cluster;
  }
  PARPLAN_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel,
                           flags.server.Connect(session));
  CalibrationClient client(channel);
  PARPLAN_ASSIGN_OR_RETURN(const v1::ActiveCalibration active,
                           Activate(client, cluster, flags.name, flags.server.Call()));
  if (session.json) {
    const nlohmann::ordered_json object = {{"active_calibration", active.calibration()},
                                           {"digest", active.digest()}};
    return Print(session, object.dump(2) + "\n");
  }
  return Print(session, absl::StrCat("new plans of ", cluster, " rest on ",
                                     active.calibration().empty() ? "the one inside the programs"
                                                                  : active.calibration(),
                                     "\n"));
}

}  // namespace

void AddCalibrationCommand(Command app, const Session& session, Action& action) {
  auto flags = std::make_shared<CalibrationFlags>();
  Command calibration =
      app.AddCommand("calibration", "Upload, list and activate what measured runs taught a server");
  calibration.RequireCommand();
  calibration.Footer(
      "Example:\n  planctl calibration upload c.calibration.json --cluster a100-8 --activate");
  const auto finish = [&](Command command, const char* example, auto run) {
    command.Footer(std::string("Example:\n  ") + example);
    flags->server.AddTo(command);
    command.OnChosen([&session, &action, flags, run] {
      action = [&session, flags, run] { return run(session, *flags); };
    });
  };
  Command upload = calibration.AddCommand("upload", "Upload a calibration file");
  upload.AddOption("file", flags->file_path, "File of `planctl calibrate`").Required();
  upload.AddOption("--cluster", flags->cluster, "Cluster whose plans may rest on it").Required();
  upload.AddFlag("--activate", flags->activate, "Let new plans rest on it");
  upload.AddOption("--request-id", flags->request_id, "UUID that makes a retry free [random]");
  finish(upload, "planctl calibration upload c.calibration.json --cluster a100-8 --activate",
         UploadCalibration);

  Command list = calibration.AddCommand("list", "List calibrations, newest first");
  list.AddOption("--cluster", flags->cluster, "Cluster").Required();
  finish(list, "planctl calibration list --cluster a100-8", ListCalibrations);

  Command show = calibration.AddCommand("show", "Print a calibration as a file");
  show.AddOption("name", flags->name, "clusters/{c}/calibrations/{k}").Required();
  finish(show, "planctl calibration show clusters/a100-8/calibrations/k", ShowCalibration);

  Command activate =
      calibration.AddCommand("activate", "Choose what new plans of a cluster rest on");
  activate.AddOption("name", flags->name, "clusters/{c}/calibrations/{k}");
  activate.AddFlag("--built-in", flags->built_in, "None: the priors inside the program");
  activate.AddOption("--cluster", flags->cluster, "Cluster, with --built-in");
  finish(activate, "planctl calibration activate clusters/a100-8/calibrations/k", ActivateNamed);
}

}  // namespace parplan::planctl
