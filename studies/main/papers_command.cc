// `parplan-study papers`: the experiments of Galvatron's papers under our own cost model, as a page
// (docs/measurements/papers.md). Needs no server and no files of others.

#include <algorithm>
#include <cmath>
#include <ctime>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "clients/planctl/files.h"
#include "studies/main/command.h"
#include "studies/papers/papers_page.h"
#include "studies/papers/papers_results.h"

namespace parplan::study {
namespace {

using planctl::ReadFile;
using planctl::WriteFile;

constexpr const char* kSections[] = {"grid",        "ablations", "pipelines", "forward-memory",
                                     "granularity", "times",     "long-times"};

// Takes minutes, so only where it is asked for.
constexpr char kLongTimes[] = "long-times";

struct PapersFlags {
  std::string source;
  std::vector<std::string> sections;
  bool only_page = false;
  std::string machine;
  std::string commit;
  std::string runs_path;
  std::string runs_source;

  bool Makes(const std::string& section) const {
    if (only_page) return false;
    if (sections.empty()) return section != kLongTimes;
    return std::find(sections.begin(), sections.end(), section) != sections.end();
  }
};

// Runs the sections that were asked for and leaves the others as they are.
void Run(const Session& session, const PapersFlags& flags, papers::PapersResults& results) {
  if (flags.Makes("grid")) {
    results.grid.clear();
    for (const papers::GridQuestion& question : papers::GridQuestions()) {
      results.grid.push_back(papers::CellOf(question));
    }
    Note(session, absl::StrCat("grid: ", results.grid.size(), " cells"));
  }
  if (flags.Makes("ablations")) {
    results.ablations.clear();
    for (const papers::GridQuestion& question : papers::AblationQuestions()) {
      results.ablations.push_back(papers::AblationRowOf(question));
    }
    Note(session, absl::StrCat("ablations: ", results.ablations.size(), " rows"));
  }
  if (flags.Makes("pipelines")) {
    results.pipelines.clear();
    for (const papers::GridQuestion& question : papers::PipelineQuestions()) {
      results.pipelines.push_back(papers::PipelineRowOf(question));
    }
    Note(session, absl::StrCat("pipelines: ", results.pipelines.size(), " rows"));
  }
  if (flags.Makes("forward-memory")) {
    results.forward_memory.clear();
    for (const papers::Family family : papers::kFamilies) {
      for (const int layer_count : papers::kGridDepths) {
        results.forward_memory.push_back(papers::ForwardMemoryRowOf(family, layer_count));
      }
    }
    Note(session, "forward-memory: done");
  }
  if (flags.Makes("granularity")) {
    results.granularity.clear();
    for (const papers::GridQuestion& question : papers::AblationQuestions()) {
      results.granularity.push_back(papers::GranularityRowOf(question));
    }
    Note(session, absl::StrCat("granularity: ", results.granularity.size(), " rows"));
  }
  const auto replace_times = [&results](bool long_ones, std::vector<papers::TimedSearch> made) {
    results.times.erase(std::remove_if(results.times.begin(), results.times.end(),
                                       [long_ones](const papers::TimedSearch& timed) {
                                         return absl::StartsWith(timed.axis, papers::kLong) ==
                                                long_ones;
                                       }),
                        results.times.end());
    results.times.insert(results.times.end(), made.begin(), made.end());
  };
  if (flags.Makes("times")) {
    std::vector<papers::TimedSearch> made = papers::TimeGranularities();
    std::vector<std::string> axes = papers::OtherGridAxes();
    axes.insert(axes.begin(), std::begin(papers::kTimeAxes), std::end(papers::kTimeAxes));
    for (const std::string& axis : axes) {
      for (papers::TimedSearch& timed : papers::TimeAxis(axis)) {
        made.push_back(std::move(timed));
      }
    }
    Note(session, absl::StrCat("times: ", made.size(), " searches"));
    replace_times(/*long_ones=*/false, std::move(made));
  }
  if (flags.Makes(kLongTimes)) {
    replace_times(/*long_ones=*/true, papers::TimeLongSearches());
    Note(session, "long-times: done");
  }
}

absl::Status Papers(const Session& session, const PapersFlags& flags) {
  const std::string results_path = flags.source + "/studies/papers/data/results.json";
  const std::string page_path = flags.source + "/docs/measurements/papers.md";
  // A whole run needs stored results for the measured runs alone, and makes all others.
  const bool is_whole = !flags.only_page && flags.sections.empty();
  for (const auto& [name, value] : {std::pair("--machine", absl::string_view(flags.machine)),
                                    std::pair("--commit", absl::string_view(flags.commit))}) {
    if (flags.only_page == value.empty()) continue;
    return FieldError(Reason::kSpecInvalid, name,
                      flags.only_page ? "is that of the stored results; leave it out"
                                      : "is needed: the page says who made its figures");
  }
  papers::PapersResults results;
  const absl::StatusOr<std::string> stored = ReadFile(results_path);
  if (stored.ok()) {
    absl::StatusOr<papers::PapersResults> parsed = papers::ParseResults(*stored);
    if (!is_whole) PARPLAN_RETURN_IF_ERROR(parsed.status());
    if (parsed.ok()) results = *std::move(parsed);
  } else if (!is_whole) {
    return stored.status();
  }
  const std::clock_t start = std::clock();
  Run(session, flags, results);
  if (is_whole) {
    results.total_seconds =
        static_cast<int>(std::lround(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC));
  }
  if (!flags.runs_path.empty()) {
    PARPLAN_ASSIGN_OR_RETURN(const std::string runs, ReadFile(flags.runs_path));
    PARPLAN_ASSIGN_OR_RETURN(results.runs, papers::ParseMeasuredPlans(runs));
    results.runs_source = flags.runs_source;
  }
  if (is_whole) {
    results.machine = flags.machine;
    results.commit = flags.commit;
    const std::string long_times = results.later_parts[kLongTimes];
    results.later_parts.clear();
    if (!long_times.empty()) results.later_parts[kLongTimes] = long_times;
  }
  for (const std::string& section : flags.sections) {
    results.later_parts[section] = absl::StrCat(flags.machine, ", commit ", flags.commit);
  }
  PARPLAN_RETURN_IF_ERROR(WriteFile(results_path, papers::ResultsJson(results)));
  std::vector<std::string> written = {page_path};
  PARPLAN_RETURN_IF_ERROR(WriteFile(page_path, papers::PapersPage(results)));
  for (const auto& [name, svg] : papers::PapersPictures(results)) {
    written.push_back(absl::StrCat(flags.source, "/docs/images/", name));
    PARPLAN_RETURN_IF_ERROR(WriteFile(written.back(), svg));
  }
  if (session.json) return Print(session, papers::ResultsJson(results));
  std::string text;
  for (const std::string& path : written) absl::StrAppend(&text, "wrote ", path, "\n");
  return Print(session, text);
}

}  // namespace

void AddPapersCommand(Command app, const Session& session, Action& action) {
  auto flags = std::make_shared<PapersFlags>();
  Command command =
      app.AddCommand("papers", "Make the experiments of Galvatron's papers again, as a page");
  command.Footer(
      "Writes studies/papers/data/results.json, docs/measurements/papers.md and its pictures below "
      "--source, on one core. Times are of this machine, so name it.\n"
      "Example:\n  parplan-study papers --source . --machine \"AMD EPYC\" --commit 904b21e3");
  command.AddOption("--source", flags->source, "Root of a source tree, where the files are written")
      .Required();
  command
      .AddOption("--section", flags->sections,
                 "Make only this part again: grid, ablations, pipelines, forward-memory, "
                 "granularity, times or long-times; several times [all but long-times, "
                 "which takes minutes]")
      .Check(shell::OneOf({std::begin(kSections), std::end(kSections)}));
  command.AddFlag("--only-page", flags->only_page, "Write the page of the stored results");
  shell::Option runs = command.AddOption(
      "--runs", flags->runs_path,
      "Measured runs for the page, a file of the benchmark `prediction --results` [as stored]");
  command
      .AddOption("--runs-source", flags->runs_source,
                 "Command, machine and commit of --runs, for the page")
      .Needs(runs);
  command.AddOption("--machine", flags->machine, "Processor, for the page");
  command.AddOption("--commit", flags->commit, "Commit, for the page");
  command.OnChosen([&session, &action, flags] {
    action = [&session, flags] { return Papers(session, *flags); };
  });
}

}  // namespace parplan::study
