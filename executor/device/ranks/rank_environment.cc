#include "executor/device/ranks/rank_environment.h"

#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace parplan {
namespace {

// More ranks than any job has; a sum of two such numbers still fits an int.
constexpr int kMaxWorldSize = 1 << 24;
constexpr int kMaxPort = 65535;
// Polls before a rank on a shared core sleeps, as in JobFabric: polling takes the time of the rank
// that it waits for.
constexpr int kSpinsOnSharedCore = 50;

// Range of ports computed from a job's id: below the ports that Linux gives to clients.
constexpr int kFirstJobPort = 20000;
constexpr int kJobPortCount = 10000;

using Lookup = RankEnvironment::Lookup;

absl::Status Wrong(const std::string& name, const std::string& rule) {
  return absl::InvalidArgumentError(absl::StrCat("environment variable ", name, ": ", rule));
}

std::string Text(const Lookup& lookup, const char* name) {
  const char* const value = lookup(name);
  return value == nullptr ? "" : value;
}

absl::Status NamesNoHost(absl::string_view node_list) {
  return absl::InvalidArgumentError(
      absl::StrCat("\"", node_list, "\" names no host; give a list such as node[003-010],login1"));
}

// Returns a variable that must be set because others of `launcher` are.
absl::StatusOr<std::string> Needed(const Lookup& lookup, const char* name, Launcher launcher) {
  std::string text = Text(lookup, name);
  if (text.empty()) {
    return Wrong(name, absl::StrCat("it is not set, but others of ", LauncherName(launcher),
                                    " are; set all or none"));
  }
  return text;
}

absl::StatusOr<int> Number(const Lookup& lookup, const char* name, Launcher launcher, int least,
                           int greatest) {
  PARPLAN_ASSIGN_OR_RETURN(const std::string text, Needed(lookup, name, launcher));
  int number = 0;
  if (!absl::SimpleAtoi(text, &number) || number < least || number > greatest) {
    return Wrong(
        name, absl::StrCat("give a number from ", least, " to ", greatest, ", not \"", text, "\""));
  }
  return number;
}

// Reads rank, size and local rank from the variables of these names.
absl::Status ReadPlace(const Lookup& lookup, const char* rank, const char* size, const char* local,
                       RankEnvironment& found) {
  PARPLAN_ASSIGN_OR_RETURN(found.world_size,
                           Number(lookup, size, found.launcher, 1, kMaxWorldSize));
  PARPLAN_ASSIGN_OR_RETURN(found.rank,
                           Number(lookup, rank, found.launcher, 0, found.world_size - 1));
  PARPLAN_ASSIGN_OR_RETURN(found.local_rank,
                           Number(lookup, local, found.launcher, 0, found.world_size - 1));
  return absl::OkStatus();
}

std::string HostName() {
  std::array<char, 256> name = {};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

std::string AddressOf(const std::string& host, int port) {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return absl::StrCat(is_ipv6 ? "[" : "", host, is_ipv6 ? "]:" : ":", port);
}

// Returns a port computed from the job's id by FNV-1a, so that all nodes agree.
int PortOfJob(const std::string& job) {
  uint32_t hash = 2166136261u;
  for (const char letter : job) hash = (hash ^ static_cast<unsigned char>(letter)) * 16777619u;
  return kFirstJobPort + static_cast<int>(hash % kJobPortCount);
}

// Finds address and token of the rendezvous that rank 0 serves, for launchers that serve none.
absl::Status ReadMeeting(const Lookup& lookup, std::string master, bool is_one_node,
                         const std::string& job, RankEnvironment& found) {
  // On one node rank 0 listens on the loopback interface only.
  if (is_one_node) master = "127.0.0.1";
  int port = PortOfJob(job);
  if (lookup("PARPLAN_PORT") != nullptr) {
    PARPLAN_ASSIGN_OR_RETURN(port, Number(lookup, "PARPLAN_PORT", found.launcher, 1, kMaxPort));
  } else if (lookup("MASTER_PORT") != nullptr) {
    PARPLAN_ASSIGN_OR_RETURN(port, Number(lookup, "MASTER_PORT", found.launcher, 1, kMaxPort - 1));
    ++port;
  }
  found.rendezvous = AddressOf(master, port);
  found.job = job;
  found.token = Text(lookup, "PARPLAN_TOKEN");
  if (!found.token.empty()) return absl::OkStatus();
  // On several nodes rank 0 listens on all interfaces, and job ids can be guessed.
  if (!is_one_node) {
    return Wrong("PARPLAN_TOKEN",
                 absl::StrCat("it is not set, but the job of ", LauncherName(found.launcher),
                              " is on several nodes; set it to the same secret for all ranks, so "
                              "that no stranger can join them"));
  }
  return absl::OkStatus();
}

absl::StatusOr<RankEnvironment> Ours(const Lookup& lookup) {
  RankEnvironment found = {.launcher = Launcher::kParplan};
  PARPLAN_RETURN_IF_ERROR(
      ReadPlace(lookup, "PARPLAN_RANK", "PARPLAN_WORLD_SIZE", "PARPLAN_LOCAL_RANK", found));
  PARPLAN_ASSIGN_OR_RETURN(found.rendezvous, Needed(lookup, "PARPLAN_RENDEZVOUS", found.launcher));
  PARPLAN_ASSIGN_OR_RETURN(found.token, Needed(lookup, "PARPLAN_TOKEN", found.launcher));
  found.shares_core = lookup("PARPLAN_SHARES_CORE") != nullptr;
  if (lookup("PARPLAN_RESULT_FD") != nullptr) {
    PARPLAN_ASSIGN_OR_RETURN(found.result_descriptor,
                             Number(lookup, "PARPLAN_RESULT_FD", found.launcher, 3, 1 << 20));
  }
  return found;
}

// Reads torchrun's variables, which other launchers set too.
absl::StatusOr<RankEnvironment> Torchrun(const Lookup& lookup) {
  const bool is_plans =
      lookup("PARPLAN_PLAN") != nullptr && lookup("TORCHELASTIC_RUN_ID") == nullptr;
  RankEnvironment found = {.launcher = is_plans ? Launcher::kPlan : Launcher::kTorchrun};
  PARPLAN_RETURN_IF_ERROR(ReadPlace(lookup, "RANK", "WORLD_SIZE", "LOCAL_RANK", found));
  PARPLAN_ASSIGN_OR_RETURN(const std::string master, Needed(lookup, "MASTER_ADDR", found.launcher));
  PARPLAN_RETURN_IF_ERROR(Needed(lookup, "MASTER_PORT", found.launcher).status());
  const bool is_one_node = Text(lookup, "LOCAL_WORLD_SIZE") == Text(lookup, "WORLD_SIZE") ||
                           master == "127.0.0.1" || master == "localhost";
  if (!is_one_node) found.host = HostName();
  // The restart count keeps ranks of the run before a restart out of this one.
  const std::string job = is_plans ? absl::StrCat("plan ", Text(lookup, "PARPLAN_PLAN_NAME"), " ",
                                                  Text(lookup, "SLURM_STEP_ID"))
                                   : absl::StrCat("torchrun ", Text(lookup, "TORCHELASTIC_RUN_ID"),
                                                  " ", Text(lookup, "TORCHELASTIC_RESTART_COUNT"));
  PARPLAN_RETURN_IF_ERROR(ReadMeeting(lookup, master, is_one_node, job, found));
  return found;
}

absl::StatusOr<RankEnvironment> OpenMpi(const Lookup& lookup) {
  RankEnvironment found = {.launcher = Launcher::kOpenMpi};
  PARPLAN_RETURN_IF_ERROR(ReadPlace(lookup, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                    "OMPI_COMM_WORLD_LOCAL_RANK", found));
  const bool is_one_node =
      Text(lookup, "OMPI_COMM_WORLD_LOCAL_SIZE") == Text(lookup, "OMPI_COMM_WORLD_SIZE");
  const std::string master = Text(lookup, "MASTER_ADDR");
  if (master.empty() && !is_one_node) {
    return Wrong("MASTER_ADDR",
                 "OpenMPI does not say where rank 0 is; set it to that node's name, with "
                 "`mpirun -x MASTER_ADDR=NAME`");
  }
  if (!is_one_node) found.host = HostName();
  PARPLAN_RETURN_IF_ERROR(ReadMeeting(lookup, master, is_one_node,
                                      absl::StrCat("openmpi ", Text(lookup, "PMIX_NAMESPACE")),
                                      found));
  return found;
}

absl::StatusOr<RankEnvironment> Slurm(const Lookup& lookup) {
  RankEnvironment found = {.launcher = Launcher::kSlurm};
  PARPLAN_RETURN_IF_ERROR(
      ReadPlace(lookup, "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", found));
  std::string master = Text(lookup, "MASTER_ADDR");
  if (master.empty()) {
    if (lookup("SLURM_STEP_NODELIST") == nullptr) {
      return Wrong("SLURM_STEP_NODELIST", "it is not set: start ranks with srun");
    }
    absl::StatusOr<std::string> first = FirstHostOfSlurm(Text(lookup, "SLURM_STEP_NODELIST"));
    if (!first.ok()) return Wrong("SLURM_STEP_NODELIST", std::string(first.status().message()));
    master = *std::move(first);
  }
  const bool is_one_node = Text(lookup, "SLURM_STEP_NUM_NODES") == "1";
  if (!is_one_node) {
    found.host = Text(lookup, "SLURMD_NODENAME");
    if (found.host.empty()) found.host = HostName();
  }
  PARPLAN_RETURN_IF_ERROR(ReadMeeting(
      lookup, master, is_one_node,
      absl::StrCat("slurm ", Text(lookup, "SLURM_JOB_ID"), ".", Text(lookup, "SLURM_STEP_ID")),
      found));
  return found;
}

bool HasAny(const Lookup& lookup, std::initializer_list<const char*> names) {
  for (const char* const name : names) {
    if (lookup(name) != nullptr) return true;
  }
  return false;
}

// Reads the variables of the first launcher that is there.
absl::StatusOr<std::optional<RankEnvironment>> OfLauncher(const Lookup& lookup) {
  // PARPLAN_TOKEN alone does not mean our launcher, and beside PARPLAN_PLAN neither does
  // PARPLAN_RANK.
  if (HasAny(lookup, {"PARPLAN_RENDEZVOUS"}) ||
      (!HasAny(lookup, {"PARPLAN_PLAN"}) &&
       HasAny(lookup, {"PARPLAN_RANK", "PARPLAN_WORLD_SIZE", "PARPLAN_LOCAL_RANK"}))) {
    return Ours(lookup);
  }
  const bool has_torchrun = HasAny(lookup, {"RANK", "WORLD_SIZE", "LOCAL_RANK"});
  const bool has_open_mpi = HasAny(lookup, {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"});
  if (has_torchrun && has_open_mpi) {
    PARPLAN_ASSIGN_OR_RETURN(RankEnvironment torchrun, Torchrun(lookup));
    PARPLAN_ASSIGN_OR_RETURN(const RankEnvironment open_mpi, OpenMpi(lookup));
    if (torchrun.rank != open_mpi.rank) {
      return Wrong("RANK", absl::StrCat("it is ", torchrun.rank, ", but OMPI_COMM_WORLD_RANK is ",
                                        open_mpi.rank, "; unset those of one launcher"));
    }
    if (torchrun.world_size != open_mpi.world_size) {
      return Wrong("WORLD_SIZE",
                   absl::StrCat("it is ", torchrun.world_size, ", but OMPI_COMM_WORLD_SIZE is ",
                                open_mpi.world_size, "; unset those of one launcher"));
    }
    return torchrun;
  }
  if (has_torchrun) return Torchrun(lookup);
  if (has_open_mpi) return OpenMpi(lookup);
  if (HasAny(lookup, {"SLURM_PROCID"})) return Slurm(lookup);
  return std::nullopt;
}

absl::StatusOr<TlsLinks> TlsLinksOf(const Lookup& lookup) {
  constexpr char kName[] = "PARPLAN_TLS_LINKS";
  if (lookup(kName) == nullptr) return TlsLinks::kBetweenNodes;
  const std::string text = Text(lookup, kName);
  if (text == "between-nodes") return TlsLinks::kBetweenNodes;
  if (text == "all") return TlsLinks::kAll;
  if (text == "none") return TlsLinks::kNone;
  return Wrong(kName, absl::StrCat("give between-nodes, all or none, not \"", text, "\""));
}

}  // namespace

const char* LauncherName(Launcher launcher) {
  switch (launcher) {
    case Launcher::kParplan:
      return "parplan";
    case Launcher::kTorchrun:
      return "torchrun";
    case Launcher::kOpenMpi:
      return "OpenMPI";
    case Launcher::kSlurm:
      return "Slurm";
    case Launcher::kPlan:
      return "a plan";
  }
  return "?";
}

absl::StatusOr<std::optional<RankEnvironment>> RankEnvironment::FromVariables(
    const Lookup& lookup) {
  PARPLAN_ASSIGN_OR_RETURN(std::optional<RankEnvironment> found, OfLauncher(lookup));
  if (found.has_value()) {
    PARPLAN_ASSIGN_OR_RETURN(found->tls_links, TlsLinksOf(lookup));
  }
  return found;
}

absl::StatusOr<std::optional<RankEnvironment>> RankEnvironment::FromEnvironment() {
  return FromVariables([](const char* name) { return std::getenv(name); });
}

int RankEnvironment::rendezvous_port() const {
  int port = 0;
  (void)absl::SimpleAtoi(rendezvous.substr(rendezvous.rfind(':') + 1), &port);
  return port;
}

JobFabricOptions RankEnvironment::ToFabricOptions() const {
  JobFabricOptions options;
  options.rendezvous =
      serves_rendezvous() ? absl::StrCat("127.0.0.1:", rendezvous_port()) : rendezvous;
  options.token = token;
  options.rank = rank;
  options.world_size = world_size;
  options.host = host;
  options.tls_links = tls_links;
  // A rank that polls keeps the ranks on the same core from running.
  if (shares_core) options.spin_count = kSpinsOnSharedCore;
  return options;
}

absl::StatusOr<std::string> FirstHostOfSlurm(absl::string_view node_list) {
  std::string host;
  for (size_t i = 0; i < node_list.size() && node_list[i] != ','; ++i) {
    if (node_list[i] != '[') {
      host += node_list[i];
      continue;
    }
    // Takes the first number in the brackets; what follows them belongs to the name too.
    const size_t end = node_list.find(']', i);
    const size_t first_end = node_list.find_first_of(",-]", i);
    if (end == absl::string_view::npos || first_end == i + 1) {
      return NamesNoHost(node_list);
    }
    absl::StrAppend(&host, node_list.substr(i + 1, first_end - i - 1));
    i = end;
  }
  if (host.empty()) {
    return NamesNoHost(node_list);
  }
  return host;
}

}  // namespace parplan
