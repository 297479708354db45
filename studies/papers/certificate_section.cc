// `CertificateSection` of page_sections.h.

#include "studies/papers/page_sections.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "studies/papers/page_text.h"

namespace parplan::papers {
namespace {

// Returns in what the plan of the method differs from the optimum, the outermost choice first.
std::string Difference(const GridCell& cell) {
  const GridAnswer bmw = cell.answers.at(kBmwAlone);
  if (bmw.rate <= 0.0) return "no plan";
  const GridAnswer best = cell.answers.at(cell.OptimumPlanner());
  std::vector<std::string> parts;
  if (bmw.pipeline_degree != best.pipeline_degree) {
    parts.push_back(absl::StrCat(bmw.pipeline_degree, " instead of ", best.pipeline_degree,
                                 best.pipeline_degree == 1 ? " stage" : " stages"));
  } else if (cell.method_stages != cell.optimum_stages) {
    parts.push_back("other layers in the stages");
  }
  if (bmw.batch != best.batch) {
    parts.push_back(absl::StrCat("batch ", bmw.batch, " instead of ", best.batch));
  }
  if (bmw.micro_batch_count != best.micro_batch_count) {
    parts.push_back(absl::StrCat(bmw.micro_batch_count, " instead of ", best.micro_batch_count,
                                 " micro-batches"));
  }
  if (parts.empty()) return "strategies of layers alone";
  return absl::StrJoin(parts, ", ");
}

// Why the method is slower than the optimum.
enum class BmwCause { kWalk, kSum, kMemory, kTables };

BmwCause CauseOf(const GridCell& cell) {
  const BmwLoss& loss = cell.method_loss;
  if (loss.rate_on_optimum_stages >= cell.OptimumRate() * (1.0 - kLost)) return BmwCause::kWalk;
  if (!loss.has_strategies) return BmwCause::kTables;
  return loss.refused_stage_count > 0 ? BmwCause::kMemory : BmwCause::kSum;
}

std::string CauseText(const GridCell& cell) {
  switch (CauseOf(cell)) {
    case BmwCause::kWalk:
      return "stages not reached";
    case BmwCause::kSum:
      return "sum of costs";
    case BmwCause::kMemory:
      return absl::StrCat("count of memory, ", cell.method_loss.refused_stage_count, " of ",
                          cell.method_loss.stage_count, " stages");
    case BmwCause::kTables:
      return "strategies not in its tables";
  }
  return "";
}

}  // namespace

std::string CertificateSection(const PapersResults& results) {
  std::string text = "## BMW against the proved optimum of its own space\n\n";
  text += Paragraph(
      "`exact` searches the tree of `galvatron-bmw` (44 strategies on 8 devices, any partition, "
      "1F1B) and proves its answer in most cells; the others are left out of this table. A "
      "planner's "
      "rate as a share of that optimum:");
  text += Head({"devices", "proved", "planner", "mean", "worst", "equal within 0.1 %"});
  for (const int device_count : kGridDevices) {
    std::vector<GridCell> cells = CellsOf(results, device_count);
    const size_t cell_count = cells.size();
    cells.erase(std::remove_if(cells.begin(), cells.end(),
                               [](const GridCell& cell) { return cell.UnprovedShare() > kLost; }),
                cells.end());
    if (cells.empty()) continue;
    for (const char* const planner :
         {kPaperPlanners[0], kPaperPlanners[1], kPaperPlanners[2], kBaseAlone, kBmwAlone}) {
      double sum = 0.0, worst = -1.0;
      int equal = 0;
      std::string where;
      for (const GridCell& cell : cells) {
        const double loss = LossOf(cell, planner);
        sum += 1.0 - loss;
        if (loss <= kLost) ++equal;
        if (loss > worst) {
          worst = loss;
          where = absl::StrCat(cell.model, ", ", cell.memory_gb, " GB");
        }
      }
      text += Row({absl::StrCat(device_count), absl::StrCat(cells.size(), " of ", cell_count),
                   absl::StrCat("`", planner, "`"),
                   absl::StrFormat("%.4f", sum / static_cast<double>(cells.size())),
                   absl::StrFormat("%.4f (%s)", 1.0 - worst, where),
                   absl::StrCat(equal, " of ", cells.size())});
    }
  }
  text += "\n![Rates as shares of the proved optimum](../images/papers-optimum.svg)\n\n";
  std::vector<GridCell> losing;
  int whole_count = 0;
  for (const GridCell& cell : results.grid) {
    if (cell.MethodLoses()) losing.push_back(cell);
    if (LossOf(cell, kBmw) > kLost) ++whole_count;
  }
  if (losing.empty()) return text + Paragraph("The method of BMW finds the optimum in every cell.");
  std::stable_sort(losing.begin(), losing.end(), [](const GridCell& a, const GridCell& b) {
    return LossOf(a, kBmwAlone) > LossOf(b, kBmwAlone);
  });
  std::map<BmwCause, int> counts;
  for (const GridCell& cell : losing) ++counts[CauseOf(cell)];
  text += Paragraph(absl::StrFormat(
      "`galvatron-bmw`, which also offers what baselines and partitioners find, loses in %d of %d "
      "cells, proved or not; its method alone in %d. To find out why the method loses, its dynamic "
      "program solved the very stages of the optimum, with the optimum's batch and micro-batches, "
      "in each of these cells. In %d that plan is as fast as the optimum: BMW has the strategies, "
      "and its walk over partitions did not come to these stages or numbers. In %d the plan is "
      "slower though the program prefers its own strategies in every stage: it takes the least sum "
      "of costs, which is not the least simulated step. In %d the program would have preferred the "
      "optimum's strategies in some stages, and its count of memory (whole MiB a layer, the "
      "largest transient of a stage beside all that is kept) left them out. In %d no table of the "
      "program has the optimum's strategies.",
      whole_count, results.grid.size(), losing.size(), counts[BmwCause::kWalk],
      counts[BmwCause::kSum], counts[BmwCause::kMemory], counts[BmwCause::kTables]));
  text += Head({"model", "devices, GB", "method alone loses", "`galvatron-bmw` loses",
                "on the optimum's stages", "because", "the method has", "its stages",
                "stages of the optimum"});
  constexpr size_t kMaxStagesText = 60;
  const auto shorten = [](const std::string& stages) -> std::string {
    if (stages.empty()) return "-";
    return absl::StrCat("`", stages.substr(0, kMaxStagesText),
                        stages.size() > kMaxStagesText ? "..." : "", "`");
  };
  for (const GridCell& cell : losing) {
    // A bar would end the cell of the table.
    const auto plain = [&shorten](std::string stages) {
      std::replace(stages.begin(), stages.end(), '|', '-');
      return shorten(stages);
    };
    const double again = 1.0 - cell.method_loss.rate_on_optimum_stages / cell.OptimumRate();
    const double whole = LossOf(cell, kBmw);
    text += Row({cell.model, absl::StrCat(cell.device_count, ", ", cell.memory_gb),
                 Percent(LossOf(cell, kBmwAlone)), whole > kLost ? Percent(whole) : "=",
                 cell.method_loss.rate_on_optimum_stages > 0.0 ? Percent(again) : "no plan",
                 CauseText(cell), Difference(cell), plain(cell.method_stages),
                 plain(cell.optimum_stages)});
  }
  return text + "\n";
}

}  // namespace parplan::papers
