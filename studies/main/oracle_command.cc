// `parplan-study oracle`: cases that were run through the public Galvatron search engine, its
// plan and ours side by side. Needs no server.

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "clients/planctl/files.h"
#include "studies/main/command.h"
#include "studies/oracle/oracle_comparison.h"

namespace parplan::study {
namespace {

using planctl::ReadFile;
struct OracleFlags {
  std::vector<std::string> paths;
  std::string folder;
  oracle::OracleOptions options;
};

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Files a case names lie beside the folder it is in.
std::string CaseFolderOf(const OracleFlags& flags, const std::string& path) {
  if (!flags.folder.empty()) return absl::StrCat(flags.folder, "/");
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "../" : absl::StrCat(path.substr(0, slash), "/../");
}

absl::Status Oracle(const Session& session, const OracleFlags& flags) {
  std::vector<oracle::OracleComparison> comparisons;
  for (const std::string& path : flags.paths) {
    PARPLAN_ASSIGN_OR_RETURN(std::string text, ReadFile(path));
    const std::string folder = CaseFolderOf(flags, path);
    PARPLAN_ASSIGN_OR_RETURN(
        const OracleCase oracle,
        ReadOracleCase({path, std::move(text)},
                       [&folder](const std::string& name) { return ReadFile(folder + name); }));
    PARPLAN_ASSIGN_OR_RETURN(oracle::OracleComparison comparison,
                             oracle::CompareOracle(oracle, flags.options));
    Note(session, absl::StrCat("compared ", oracle.id));
    comparisons.push_back(std::move(comparison));
  }
  return Print(session, session.json ? oracle::ComparisonsJson(comparisons)
                                     : oracle::ComparisonsText(comparisons));
}

}  // namespace

void AddOracleCommand(Command app, const Session& session, Action& action) {
  auto flags = std::make_shared<OracleFlags>();
  flags->options.now = Now;
  Command command =
      app.AddCommand("oracle", "Compare with plans that the public Galvatron search engine chose");
  command.Footer(
      "How to read it: docs/measurements/oracle.md.\nExample:\n"
      "  parplan-study oracle galvatron_oracle/cases/*.json");
  command.AddOption("cases", flags->paths, "Case files").Required();
  command.AddOption("--folder", flags->folder,
                    "Where the files a case names are [the folder above the case's]");
  command.AddOption("--planner", flags->options.planner, "Planner to compare with [exact]");
  command
      .AddOption("--risk", flags->options.out_of_memory_risk,
                 "Accepted probability of running out of memory [0.5, as the engine has no "
                 "such caution]")
      .Check(shell::Risk());
  command
      .AddOption("--time-limit", flags->options.time_limit_seconds,
                 "Seconds each search may take at most [none]")
      .Check(shell::Positive());
  command.AddFlag("--own-tables", flags->options.wants_own_tables,
                  "Also look for better plans in the engine's own numbers");
  command.OnChosen([&session, &action, flags] {
    action = [&session, flags] { return Oracle(session, *flags); };
  });
}

}  // namespace parplan::study
