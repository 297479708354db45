// The grid of the papers: models, devices and budgets, each answered by every planner. The command
// `parplan-study papers` asks it for its section `grid`. Ablations, pipelines and times use its
// questions too.

#ifndef PARPLAN_STUDIES_PAPERS_GRID_H_
#define PARPLAN_STUDIES_PAPERS_GRID_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "studies/papers/bmw_loss.h"
#include "studies/papers/paper_models.h"
#include "studies/papers/paper_search.h"

namespace parplan::papers {

// Layers of the models, numbers of devices, and GiB of a device: the axes of the grid.
inline constexpr int kGridDepths[] = {32, 48};
inline constexpr int kGridDevices[] = {8, 16, 64};
inline constexpr int kGridBudgets[] = {8, 12, 16, 20};

// Share of the rate below which two plans count as equally fast: 0.1 %, the last digit of the
// tables.
inline constexpr double kLost = 1e-3;

// The figures of one answer that the page has.
struct GridAnswer {
  // Samples a second, to six digits; all members are 0 if nothing fits.
  double rate = 0.0;
  int64_t batch = 0;
  int64_t micro_batch_count = 0;
  int pipeline_degree = 0;

  friend bool operator==(const GridAnswer&, const GridAnswer&) = default;
};

// The answers of all planners to one question.
struct GridCell {
  // The name that `ModelName` (paper_models.h) gives.
  std::string model;
  int device_count = 0;
  // Memory of a device, in GiB.
  int memory_gb = 0;
  // By planner (`StudyPlanners`).
  std::map<std::string, GridAnswer> answers;
  // How far `kTreeOptimum` is proved: at most this share of its time a sample is left; 1 if nothing
  // is proved. Six digits.
  double optimum_gap = 0.0;
  // Plans of `kBmwAlone` and of the tree's optimum, with their stages; kept where the former is
  // slower by more than `kLost`, else empty. That of the method is empty too where it has none.
  std::string method_gist;
  std::string method_stages;
  std::string optimum_gist;
  std::string optimum_stages;
  // The plan of the method on the optimum's stages, where the above are kept.
  BmwLoss method_loss;

  friend bool operator==(const GridCell&, const GridCell&) = default;

  // Returns the rate of a planner; 0 if nothing fits or it was not asked.
  double RateOf(absl::string_view planner) const;
  // Returns whether `kBmwAlone` is slower than the optimum by more than `kLost`.
  bool MethodLoses() const { return !optimum_gist.empty(); }
  // Returns who has the fastest plan known of the tree: `kTreeOptimum`; or another planner, all of
  // whose plans are in the tree, if its plan is faster by more than `kLost`, because a limit ended
  // the proof before.
  std::string OptimumPlanner() const;
  // Returns the rate of that planner; 0 if no plan is known.
  double OptimumRate() const;
  // Returns by how much a faster plan may still be faster than that: 0 where it is proved, 1 where
  // no plan is known or nothing is proved.
  double UnprovedShare() const;
  // Returns the planner with the highest rate of some, the first of equal ones; empty if none has a
  // plan.
  std::string BestOf(const std::vector<std::string>& planners) const;
};

// Answers one question with every planner.
GridCell CellOf(const GridQuestion& question);

// Lists the questions: by devices, then model, depth and budget.
std::vector<GridQuestion> GridQuestions();

// A summary of speed-ups: the largest over all cells, and where, for people.
struct SpeedUp {
  // planner's rate over the rival's, less 1.
  double ratio = 0.0;
  std::string where;
};
// Returns the largest speed-up of `planner` over one of `rivals` that fits: over the slowest of
// them in a cell (the reading of "up to"), or over the fastest. `ratio` is -1 and `where` empty if
// there is none.
SpeedUp LargestSpeedUp(const std::vector<GridCell>& cells, absl::string_view planner,
                       const std::vector<std::string>& rivals, bool over_fastest);

}  // namespace parplan::papers

#endif  // PARPLAN_STUDIES_PAPERS_GRID_H_
