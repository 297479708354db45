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

#include "absl/algorithm/container.h"
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

constexpr const char* kSections[] = {"grid",           "ablations",   "pipelines",
                                     "forward-memory", "granularity", "times"};

// The walks of walk_limits.h, some of which have states that a search would not make.
constexpr char kLongWalks[] = "long-walks";
// All that begin with `kLong`. They take minutes, so only where they are asked for.
constexpr char kLongTimes[] = "long-times";

struct PapersFlags {
  std::string source;
  std::vector<std::string> sections;
  bool only_page = false;
  std::string machine;
  std::string commit;
  std::vector<std::string> runs_paths;
  std::string runs_source;
  std::string memory_path;
  std::string memory_source;

  bool Makes(absl::string_view section) const {
    if (only_page) return false;
    const bool is_long = absl::StartsWith(section, papers::kLong);
    if (sections.empty()) return !is_long;
    return absl::c_linear_search(sections, section) ||
           (is_long && absl::c_linear_search(sections, kLongTimes));
  }
};

std::vector<std::string> SectionNames() {
  std::vector<std::string> names(std::begin(kSections), std::end(kSections));
  names.insert(names.end(), std::begin(papers::kLongAxes), std::end(papers::kLongAxes));
  names.insert(names.end(), {papers::kLongGranularity, papers::kLongGrid, kLongWalks, kLongTimes});
  return names;
}

// Replaces the rows of a section by those of its questions.
template <typename Row, typename Question>
void Answer(const std::vector<Question>& questions, Row (*answer)(const Question&),
            std::vector<Row>& rows) {
  rows.clear();
  for (const Question& question : questions) rows.push_back(answer(question));
}

// Replaces the searches of an axis.
void ReplaceTimes(const std::vector<std::string>& axes, std::vector<papers::TimedSearch> made,
                  papers::PapersResults& results) {
  results.times.erase(std::remove_if(results.times.begin(), results.times.end(),
                                     [&axes](const papers::TimedSearch& timed) {
                                       return absl::c_linear_search(axes, timed.axis);
                                     }),
                      results.times.end());
  results.times.insert(results.times.end(), made.begin(), made.end());
}

void MakeTimes(papers::PapersResults& results) {
  std::vector<std::string> axes(std::begin(papers::kTimeAxes), std::end(papers::kTimeAxes));
  std::vector<papers::TimedSearch> made = papers::TimeGranularities("granularity");
  for (const std::string& axis : axes) {
    for (papers::TimedSearch& timed : papers::TimeAxis(axis)) made.push_back(std::move(timed));
  }
  axes.push_back("granularity");
  ReplaceTimes(axes, std::move(made), results);
}

void MakeLongGrid(papers::PapersResults& results) {
  const std::vector<std::string> axes = papers::OtherGridAxes();
  std::vector<papers::TimedSearch> made;
  for (const std::string& axis : axes) {
    for (papers::TimedSearch& timed : papers::TimeAxis(axis)) made.push_back(std::move(timed));
  }
  ReplaceTimes(axes, std::move(made), results);
}

void MakeLongTimes(const std::string& axis, papers::PapersResults& results) {
  std::vector<papers::TimedSearch> made = papers::TimeAxis(axis);
  if (axis == papers::kLongAxes[0]) {
    for (papers::TimedSearch& timed : papers::TimeCoarsest()) made.push_back(std::move(timed));
  }
  ReplaceTimes({axis}, std::move(made), results);
}

// Makes one section.
void Make(const std::string& section, papers::PapersResults& results) {
  if (section == "grid") {
    Answer(papers::GridQuestions(), papers::CellOf, results.grid);
  } else if (section == "ablations") {
    Answer(papers::AblationQuestions(), papers::AblationRowOf, results.ablations);
  } else if (section == "pipelines") {
    Answer(papers::PipelineQuestions(), papers::PipelineRowOf, results.pipelines);
  } else if (section == "forward-memory") {
    results.forward_memory.clear();
    for (const papers::Family family : papers::kFamilies) {
      for (const int layer_count : papers::kGridDepths) {
        results.forward_memory.push_back(papers::ForwardMemoryRowOf(family, layer_count));
      }
    }
  } else if (section == "granularity") {
    Answer(papers::AblationQuestions(), papers::GranularityRowOf, results.granularity);
  } else if (section == "times") {
    MakeTimes(results);
  } else if (section == papers::kLongGrid) {
    MakeLongGrid(results);
  } else if (section == papers::kLongGranularity) {
    ReplaceTimes({section}, papers::TimeGranularities(section), results);
  } else if (section == kLongWalks) {
    Answer(papers::WalkQuestions(), papers::WalkRowOf, results.walks);
  } else {
    MakeLongTimes(section, results);
  }
}

// Makes the sections that were asked for and leaves the others as they are. Returns their names.
std::vector<std::string> Run(const Session& session, const PapersFlags& flags,
                             papers::PapersResults& results) {
  std::vector<std::string> made;
  for (const std::string& section : SectionNames()) {
    if (section == kLongTimes || !flags.Makes(section)) continue;
    const std::clock_t start = std::clock();
    Make(section, results);
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    results.seconds[section] = std::round(seconds * 10.0) / 10.0;
    Note(session, absl::StrFormat("%s: %.1f s", section, seconds));
    made.push_back(section);
  }
  return made;
}

// Says how long everything takes, and that it is too long if it is.
void NoteWhole(const Session& session, const papers::PapersResults& results) {
  const int whole = results.WholeSeconds();
  Note(session, absl::StrFormat("everything but long searches: %d s of one core, %s the %d s that "
                                "it is meant to take",
                                whole, whole <= papers::kWholeRunSeconds ? "within" : "MORE THAN",
                                papers::kWholeRunSeconds));
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
  const std::vector<std::string> made = Run(session, flags, results);
  if (!made.empty()) NoteWhole(session, results);
  if (!flags.runs_paths.empty()) {
    results.runs.clear();
    for (const std::string& path : flags.runs_paths) {
      PARPLAN_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
      PARPLAN_ASSIGN_OR_RETURN(const std::vector<papers::MeasuredPlan> runs,
                               papers::ParseMeasuredPlans(text));
      results.runs.insert(results.runs.end(), runs.begin(), runs.end());
    }
    results.runs_source = flags.runs_source;
  }
  if (!flags.memory_path.empty()) {
    PARPLAN_ASSIGN_OR_RETURN(const std::string runs, ReadFile(flags.memory_path));
    PARPLAN_ASSIGN_OR_RETURN(results.memory, papers::ParseMeasuredMemory(runs));
    results.memory_source = flags.memory_source;
  }
  if (is_whole) {
    results.machine = flags.machine;
    results.commit = flags.commit;
    for (const std::string& section : made) results.later_parts.erase(section);
  } else {
    for (const std::string& section : made) {
      results.later_parts[section] = absl::StrCat(flags.machine, ", commit ", flags.commit);
    }
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
      "--source, on one core in about two minutes, and says what each part took. Times are of "
      "this machine, so name it.\n"
      "Example:\n  parplan-study papers --source . --machine \"AMD EPYC\" --commit 904b21e3");
  command.AddOption("--source", flags->source, "Root of a source tree, where the files are written")
      .Required();
  command
      .AddOption("--section", flags->sections,
                 "Make only this part again: grid, ablations, pipelines, forward-memory, "
                 "granularity, times, long-layers, long-devices, long-memory, long-strategies, "
                 "long-granularity, long-grid, long-walks, or long-times for all that begin with "
                 "long; several times [all but those, which take minutes]")
      .Check(shell::OneOf(SectionNames()));
  command.AddFlag("--only-page", flags->only_page, "Write the page of the stored results");
  shell::Option runs = command.AddOption(
      "--runs", flags->runs_paths,
      "Measured runs for the page, a file of the benchmark `prediction --results`; several times "
      "for several sets of plans [as stored]");
  command
      .AddOption("--runs-source", flags->runs_source,
                 "Command, machine and commit of --runs, for the page")
      .Needs(runs);
  shell::Option memory =
      command.AddOption("--memory-runs", flags->memory_path,
                        "Measured peaks of memory for the page, a file of `executor_memory_test "
                        "--gtest_output=json:FILE` [as stored]");
  command
      .AddOption("--memory-source", flags->memory_source,
                 "Command and commit of --memory-runs, for the page")
      .Needs(memory);
  command.AddOption("--machine", flags->machine, "Processor, for the page");
  command.AddOption("--commit", flags->commit, "Commit, for the page");
  command.OnChosen([&session, &action, flags] {
    action = [&session, flags] { return Papers(session, *flags); };
  });
}

}  // namespace parplan::study
