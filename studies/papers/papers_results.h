// The results of the study, and the file that keeps them (studies/papers/data/results.json): the
// page is made of this file alone, so that it can be made again without a search. The command
// `parplan-study papers` reads and writes it.

#ifndef PARPLAN_STUDIES_PAPERS_PAPERS_RESULTS_H_
#define PARPLAN_STUDIES_PAPERS_PAPERS_RESULTS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "studies/papers/ablation.h"
#include "studies/papers/forward_memory.h"
#include "studies/papers/granularity.h"
#include "studies/papers/grid.h"
#include "studies/papers/memory_check.h"
#include "studies/papers/overlap_error.h"
#include "studies/papers/pipelines_alone.h"
#include "studies/papers/search_times.h"
#include "studies/papers/unlike_devices.h"
#include "studies/papers/walk_limits.h"

namespace parplan::papers {

// The run that made a section.
struct SectionRun {
  // The processor and the commit, as the user of the command named them.
  std::string machine;
  std::string commit;
  // Processor time on one thread; one digit behind the point.
  double seconds = 0.0;

  friend bool operator==(const SectionRun&, const SectionRun&) = default;
};

// The rows of all sections. A section that was never made has none.
struct PapersResults {
  // The latest run of each section, by its name. A run of other sections leaves it as it is, so
  // that the page names the commit whose planners made the figures.
  std::map<std::string, SectionRun> made;
  std::vector<GridCell> grid;
  std::vector<AblationRow> ablations;
  std::vector<PipelineRow> pipelines;
  std::vector<ForwardMemoryRow> forward_memory;
  std::vector<GranularityRow> granularity;
  std::vector<TimedSearch> times;
  std::vector<WalkRow> walks;
  std::vector<UnlikeRow> unlike;
  // Runs of `prediction --results`, with the command, the machine and the commit of them.
  std::string runs_source;
  std::vector<MeasuredPlan> runs;
  // Peaks of memory that `executor_memory_test` measured, with the command and the commit.
  std::string memory_source;
  std::vector<MeasuredMemory> memory;

  friend bool operator==(const PapersResults&, const PapersResults&) = default;

  // Returns the sum of seconds over what a run of everything makes, which leaves out the sections
  // whose names begin with `kLong`.
  int WholeSeconds() const;
};

// Seconds within which a run of everything is to end on one core.
inline constexpr int kWholeRunSeconds = 120;

// Returns the file: one JSON object, a line for each row.
std::string ResultsJson(const PapersResults& results);

// Reads the file. INVALID_ARGUMENT (SPEC_INVALID) naming `results` if it is no JSON, or a member
// that `ResultsJson` writes is missing or of another type. Other members are ignored, and the
// lengths of lists in rows are not checked.
absl::StatusOr<PapersResults> ParseResults(absl::string_view text);

}  // namespace parplan::papers

#endif  // PARPLAN_STUDIES_PAPERS_PAPERS_RESULTS_H_
