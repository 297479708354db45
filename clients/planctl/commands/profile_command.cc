// `planctl profile upload|list|show|delete`: the measurements a server has.

#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "clients/cpp/profile_client.h"
#include "clients/planctl/commands/command.h"
#include "clients/planctl/commands/server_flags.h"
#include "clients/planctl/files.h"
#include "proto/wire/json_file.h"

namespace parplan::planctl {
namespace {

struct ProfileFlags {
  ServerFlags server;
  std::string file_path;
  std::string cluster;
  std::string node;
  std::string name;
  std::vector<std::string> names;
  std::string request_id;
};

nlohmann::ordered_json ProfileRow(const v1::Profile& profile) {
  return {{"name", profile.name()},
          {"digest", profile.digest()},
          {"device_kind", profile.device_kind()},
          {"devices_per_node", profile.devices_per_node()},
          {"agent", profile.provenance().agent()},
          {"source", profile.provenance().source()}};
}

absl::Status UploadProfile(const Session& session, const ProfileFlags& flags) {
  PARPLAN_ASSIGN_OR_RETURN(const v1::Profile profile, ReadProfile(flags.file_path));
  PARPLAN_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel,
                           flags.server.Connect(session));
  PARPLAN_ASSIGN_OR_RETURN(
      const v1::Profile stored,
      ProfileClient(channel).Upload(absl::StrCat("clusters/", flags.cluster, "/nodes/", flags.node),
                                    profile, flags.request_id, flags.server.Call()));
  if (session.json) return Print(session, ProfileRow(stored).dump(2) + "\n");
  return Print(session,
               absl::StrFormat("%s\n  %d layer timings, %d layer memories, %d collective timings, "
                               "%d x %s\n  digest %s\n",
                               stored.name(), profile.layer_timings_size(),
                               profile.layer_memories_size(), profile.collective_timings_size(),
                               profile.devices_per_node(), profile.device_kind(), stored.digest()));
}

absl::Status ListProfiles(const Session& session, const ProfileFlags& flags) {
  PARPLAN_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel,
                           flags.server.Connect(session));
  ProfileClient client(channel);
  v1::ListProfilesRequest request;
  request.set_parent(flags.node.empty()
                         ? absl::StrCat("clusters/", flags.cluster)
                         : absl::StrCat("clusters/", flags.cluster, "/nodes/", flags.node));
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  std::string text;
  do {
    PARPLAN_ASSIGN_OR_RETURN(const v1::ListProfilesResponse page,
                             client.List(request, flags.server.Call()));
    for (const v1::Profile& profile : page.profiles()) {
      rows.push_back(ProfileRow(profile));
      absl::StrAppendFormat(&text, "%s  %d x %s  %s\n", profile.name(), profile.devices_per_node(),
                            profile.device_kind(), profile.digest().substr(0, 12));
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  if (session.json) {
    const nlohmann::ordered_json object = {{"profiles", rows}};
    return Print(session, object.dump(2) + "\n");
  }
  return Print(session, text.empty() ? "no profiles\n" : text);
}

absl::Status ShowProfile(const Session& session, const ProfileFlags& flags) {
  PARPLAN_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel,
                           flags.server.Connect(session));
  v1::GetProfileRequest request;
  request.set_name(flags.name);
  PARPLAN_ASSIGN_OR_RETURN(const v1::Profile profile,
                           ProfileClient(channel).Get(request, flags.server.Call()));
  // The file format is JSON already, and what `profile upload` takes.
  return Print(session, ToReadableJson(profile));
}

absl::Status DeleteProfiles(const Session& session, const ProfileFlags& flags) {
  PARPLAN_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel,
                           flags.server.Connect(session));
  ProfileClient client(channel);
  nlohmann::ordered_json deleted = nlohmann::ordered_json::array();
  for (const std::string& name : flags.names) {
    v1::DeleteProfileRequest request;
    request.set_name(name);
    PARPLAN_RETURN_IF_ERROR(client.Delete(request, flags.server.Call()));
    deleted.push_back(name);
    if (!session.json)
      PARPLAN_RETURN_IF_ERROR(Print(session, absl::StrCat("deleted ", name, "\n")));
  }
  if (!session.json) return absl::OkStatus();
  const nlohmann::ordered_json object = {{"deleted", deleted}};
  return Print(session, object.dump(2) + "\n");
}

}  // namespace

void AddProfileCommand(Command app, const Session& session, Action& action) {
  auto flags = std::make_shared<ProfileFlags>();
  Command profile = app.AddCommand("profile", "Measurements of a server");
  profile.RequireCommand();
  profile.Footer(
      "Example:\n  planctl profile upload p.profile.json --cluster a100-8 --node node-0");
  const auto finish = [&](Command command, const char* example, auto run) {
    command.Footer(std::string("Example:\n  ") + example);
    flags->server.AddTo(command);
    command.OnChosen([&session, &action, flags, run] {
      action = [&session, flags, run] { return run(session, *flags); };
    });
  };
  Command upload = profile.AddCommand("upload", "Upload a profile file, whole or not at all");
  upload.AddOption("file", flags->file_path, "Profile file (docs/files.md)").Required();
  upload.AddOption("--cluster", flags->cluster, "Cluster of the node").Required();
  upload.AddOption("--node", flags->node, "Node that was measured").Required();
  upload.AddOption("--request-id", flags->request_id, "UUID that makes a retry free [random]");
  finish(upload, "planctl profile upload p.profile.json --cluster a100-8 --node node-0",
         UploadProfile);

  Command list = profile.AddCommand("list", "List profiles, newest first");
  list.AddOption("--cluster", flags->cluster, "Cluster").Required();
  list.AddOption("--node", flags->node, "Only of this node");
  finish(list, "planctl profile list --cluster a100-8", ListProfiles);

  Command show = profile.AddCommand("show", "Print a profile as a file");
  show.AddOption("name", flags->name, "clusters/{c}/nodes/{n}/profiles/{p}").Required();
  finish(show, "planctl profile show clusters/a100-8/nodes/node-0/profiles/p", ShowProfile);

  Command remove = profile.AddCommand(
      "delete",
      "Delete profiles, such as those of nodes that were taken out; new plans do without");
  remove.AddOption("names", flags->names, "clusters/{c}/nodes/{n}/profiles/{p}, any number")
      .Required();
  finish(remove, "planctl profile delete clusters/a100-8/nodes/node-0/profiles/p", DeleteProfiles);
}

}  // namespace parplan::planctl
