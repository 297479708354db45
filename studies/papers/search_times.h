// How long each planner searches, and what it finds, against layers, devices, memory and
// strategies, and on the grid where the grid leaves planners out. Of the figures that the study
// itself makes, these, the seconds in walk_limits.h and those of `SectionRun` alone depend on the
// machine. The command `parplan-study papers` asks it for its section `times` and those that begin
// with `long-`, except `long-walks`.

#ifndef PARPLAN_STUDIES_PAPERS_SEARCH_TIMES_H_
#define PARPLAN_STUDIES_PAPERS_SEARCH_TIMES_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "planner/model/planning_problem.h"
#include "studies/papers/paper_models.h"

namespace parplan::papers {

// A search ends after so many seconds of processor time; with both limits a whole run stays within
// two minutes.
inline constexpr double kSearchSeconds = 0.5;
// The same for planners that are not of the Galvatron papers and solve no integer program: long
// enough for nearly all of them.
inline constexpr double kOtherSearchSeconds = 2.0;
// The same on the cells of the grid (`OtherGridAxes`), where integer programs are among the others:
// 360 searches of those, most of which take all of it. No part of a whole run.
inline constexpr double kGridSearchSeconds = 2.0;
// The same on the axes that begin with `kLong`, which are no part of a whole run.
inline constexpr double kLongSearchSeconds = 30.0;

// One search of one planner, as the tables have it.
struct TimedSearch {
  // One of `kTimeAxes`, `OtherGridAxes` or `kLongAxes`, or `granularity` or `kLongGranularity`
  // (layers again), and the place of the question on it.
  std::string axis;
  int value = 0;
  // A planner, or what granularity.h says.
  std::string planner;
  // Processor time on one thread; the least of up to five runs that together take 0.1 s.
  double seconds = 0.0;
  // Predicted samples a second, six digits; 0 if no plan was found.
  double rate = 0.0;
  // Whether the limit of its axis ended the search.
  bool stopped = false;
  // Share of the time a sample by which the plan is not proved to be the fastest of its space, six
  // digits; 1 if the planner proves nothing.
  double gap = 1.0;
  // GiB that a device must have for the plan, the objective of `min-memory-ilp`; six digits, 0 if
  // no plan was found.
  double memory_gib = 0.0;

  friend bool operator==(const TimedSearch&, const TimedSearch&) = default;
};

// Returns the seconds after which a search of an axis is ended.
double LimitOfAxis(absl::string_view axis);

// Runs one search as often as `TimedSearch::seconds` says, and sets all members but `axis` and
// `value`. `planner` is one of those that `Ask` (paper_search.h) takes.
TimedSearch TimeSearch(const PlanningProblem& problem, const std::string& planner,
                       double limit_seconds = kSearchSeconds);

// Returns the questions of an axis with their values, ascending. REQUIRES: `QuestionAxis` of some
// axis; aborts otherwise.
std::vector<std::pair<int, PlanningProblem>> QuestionsOfAxis(const std::string& axis);

// Returns whether a planner searches a space of its own and bounds it: `exact` and `kTreeOptimum`.
// The gap of other planners is to a bound of all plans.
bool BoundsItsSpace(absl::string_view planner);

// Returns whether a planner has memory for its objective: `min-memory-ilp`.
bool MinimisesMemory(absl::string_view planner);

// Planners that are timed, in the order of tables.
std::vector<std::string> TimedPlanners();

// Returns the planners of this build that solve integer programs. Hardly any of their searches ends
// within `kSearchSeconds`, so they are timed on `kLongAxes` and `OtherGridAxes` alone.
std::vector<std::string> ProgramPlanners();

// Returns all planners of this build that the tables beside an axis leave out: for times those that
// are in neither `TimedPlanners` nor `ProgramPlanners`, for the cells of the grid those that the
// grid leaves out.
std::vector<std::string> OtherPlanners(absl::string_view axis);

// The start of the name of an axis that asks `OtherPlanners` instead of `TimedPlanners`.
inline constexpr absl::string_view kOther = "other-";

// The start of the names of axes whose searches may take `kLongSearchSeconds`, minutes in all.
inline constexpr absl::string_view kLong = "long-";

// Axes of long searches. Each is a section of `parplan-study papers`; the section `long-times` is
// these, `kLongGranularity`, `kLongGrid` and `long-walks` together.
inline constexpr const char* kLongAxes[] = {"long-layers", "long-devices", "long-memory",
                                            "long-strategies"};

// The axis of granularity.h with long searches, a section too; and the layers below which its short
// searches end.
inline constexpr char kLongGranularity[] = "long-granularity";
inline constexpr int kLeastLongGranularity = 320;

// The section that makes `OtherGridAxes`.
inline constexpr char kLongGrid[] = "long-grid";

// Returns the planners of a long axis: `TimedPlanners` and `ProgramPlanners`.
std::vector<std::string> LongPlanners();

// Runs all searches of an axis: its questions in ascending order, each by every planner of
// `TimedPlanners`, of `OtherPlanners` for an axis that begins with `kOther`, or of `LongPlanners`
// for one that begins with `kLong`. Of `long-layers` the planners of the papers answer only
// questions with `kLeastLongLayers` and more.
//
//   layers      BERT's layers, 32 to 10,000, on 64 A100 with 80 GB, batch 128
//   devices     256 of BERT's layers on 8 to 512 A100 with 80 GB, 2 samples a device
//   memory      BERT-Huge-32 on 8 A100 with 8 to 80 GB, batch 64
//   strategies  BERT-Huge-32 on 8 RTX Titans with 16 GB, batch 64, in parts of the tree
//   other-grid-NAME-N  the cells of the grid (grid.h) with model NAME on N devices, by memory
std::vector<TimedSearch> TimeAxis(const std::string& axis);
inline constexpr const char* kTimeAxes[] = {"layers",       "devices",         "memory",
                                            "strategies",   "other-layers",    "other-devices",
                                            "other-memory", "other-strategies"};

// Returns the axes `other-grid-NAME-N`, which together have all cells of the grid, in its order.
std::vector<std::string> OtherGridAxes();

// Layers below which the searches of the papers' planners end on the axis `layers`, or nearly so.
inline constexpr int kLeastLongLayers = 1000;

// Returns the axis whose questions an axis asks: itself without `kOther` and `kLong`, and `layers`
// for `granularity`.
std::string QuestionAxis(absl::string_view axis);

}  // namespace parplan::papers

#endif  // PARPLAN_STUDIES_PAPERS_SEARCH_TIMES_H_
