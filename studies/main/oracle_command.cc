// `parplan-study oracle`: cases that were run through the public Galvatron search engine, its
// plan and ours side by side. Needs no server.

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "clients/planctl/commands/flag_checks.h"
#include "clients/planctl/files.h"
#include "studies/main/command.h"
#include "studies/oracle/oracle_comparison.h"

namespace parplan::study {
namespace {

using planctl::Positive;
using planctl::ReadFile;
using planctl::Risk;
struct OracleFlags {
  std::vector<std::string> paths;
  std::string folder;
  oracle::OracleOptions options;
};

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Files a case names lie beside the folder it is in.
std::string FolderOf(const OracleFlags& flags, const std::string& path) {
  if (!flags.folder.empty()) return absl::StrCat(flags.folder, "/");
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "../" : absl::StrCat(path.substr(0, slash), "/../");
}

absl::Status Oracle(const Session& session, const OracleFlags& flags) {
  std::vector<oracle::OracleComparison> comparisons;
  for (const std::string& path : flags.paths) {
    PARPLAN_ASSIGN_OR_RETURN(std::string text, ReadFile(path));
    const std::string folder = FolderOf(flags, path);
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

void AddOracleCommand(CLI::App& app, const Session& session, Action& action) {
  auto flags = std::make_shared<OracleFlags>();
  flags->options.now = Now;
  CLI::App* command = app.add_subcommand(
      "oracle", "Compare with plans that the public Galvatron search engine chose");
  command->footer(
      "How to read it: docs/measurements/oracle.md.\nExample:\n"
      "  parplan-study oracle galvatron_oracle/cases/*.json");
  command->add_option("cases", flags->paths, "Case files")->required();
  command->add_option("--folder", flags->folder,
                      "Where the files a case names are [the folder above the case's]");
  command->add_option("--planner", flags->options.planner, "Planner to compare with [exact]");
  command
      ->add_option("--risk", flags->options.out_of_memory_risk,
                   "Accepted probability of running out of memory [0.5, as the engine has no "
                   "such caution]")
      ->check(Risk());
  command
      ->add_option("--time-limit", flags->options.time_limit_seconds,
                   "Seconds each search may take at most [none]")
      ->check(Positive());
  command->add_flag("--own-tables", flags->options.wants_own_tables,
                    "Also look for better plans in the engine's own numbers");
  command->callback([&session, &action, flags] {
    action = [&session, flags] { return Oracle(session, *flags); };
  });
}

}  // namespace parplan::study
