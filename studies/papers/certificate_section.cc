#include "studies/papers/page_sections.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "studies/papers/page_text.h"

namespace parplan::papers {
namespace {

// Returns in what two plans differ, the outermost choice first.
std::string Difference(const GridCell& cell) {
  const GridAnswer bmw = cell.answers.at(kBmw);
  const GridAnswer best = cell.answers.at(cell.OptimumPlanner());
  std::vector<std::string> parts;
  if (bmw.pipeline_degree != best.pipeline_degree) {
    parts.push_back(absl::StrCat(bmw.pipeline_degree, " instead of ", best.pipeline_degree,
                                 best.pipeline_degree == 1 ? " stage" : " stages"));
  } else if (cell.bmw_stages != cell.optimum_stages) {
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

}  // namespace

std::string CertificateSection(const PapersResults& results) {
  std::string text = "## BMW against the proved optimum of its own space\n\n";
  text += Paragraph(
      "`exact` searches the tree of `galvatron-bmw` (44 strategies on 8 devices, any partition, "
      "1F1B) and proves its answer. A planner's rate as a share of that optimum:");
  text += Head({"devices", "planner", "mean", "worst", "equal within 0.1 %"});
  for (const int device_count : kGridDevices) {
    const std::vector<GridCell> cells = CellsOf(results, device_count);
    if (cells.empty()) continue;
    for (const char* const planner : kPaperPlanners) {
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
      text += Row({absl::StrCat(device_count), absl::StrCat("`", planner, "`"),
                   absl::StrFormat("%.4f", sum / static_cast<double>(cells.size())),
                   absl::StrFormat("%.4f (%s)", 1.0 - worst, where),
                   absl::StrCat(equal, " of ", cells.size())});
    }
  }
  text += "\n![Rates as shares of the proved optimum](../images/papers-optimum.svg)\n\n";
  std::vector<GridCell> losing;
  for (const GridCell& cell : results.grid) {
    if (!cell.bmw_gist.empty()) losing.push_back(cell);
  }
  if (losing.empty()) {
    return text + Paragraph("`galvatron-bmw` finds the optimum in every cell.");
  }
  std::stable_sort(losing.begin(), losing.end(), [](const GridCell& a, const GridCell& b) {
    return LossOf(a, kBmw) > LossOf(b, kBmw);
  });
  int by_partition = 0, by_depth = 0, by_strategy = 0;
  for (const GridCell& cell : losing) {
    const bool same_depth = cell.answers.at(kBmw).pipeline_degree ==
                            cell.answers.at(cell.OptimumPlanner()).pipeline_degree;
    if (!same_depth) {
      ++by_depth;
    } else if (cell.bmw_stages != cell.optimum_stages) {
      ++by_partition;
    } else {
      ++by_strategy;
    }
  }
  text += Paragraph(absl::StrFormat(
      "It loses in %d cells: in %d the optimum has another number of stages, in %d the same number "
      "with other layers in them, in %d the same stages with other strategies or micro-batches. "
      "The "
      "loop of BMW visits every number of stages and of micro-batches. So where these differ, its "
      "best plan of the optimum's numbers was slower: it did not reach the partition, or solved "
      "its "
      "stages each for the least sum of its own costs, which is not the least simulated step. "
      "Where "
      "they are equal it is that sum, rounding or decoupled memory (below). The ten largest "
      "losses, "
      "with what differs in the plan found:",
      losing.size(), by_depth, by_partition, by_strategy));
  text += Head({"model", "devices, GB", "lost", "`galvatron-bmw` has", "its stages",
                "stages of the optimum"});
  constexpr size_t kMaxStagesText = 60;
  const auto shorten = [](const std::string& stages) {
    return absl::StrCat("`", stages.substr(0, kMaxStagesText),
                        stages.size() > kMaxStagesText ? "..." : "", "`");
  };
  for (size_t index = 0; index < std::min<size_t>(losing.size(), 10); ++index) {
    const GridCell& cell = losing[index];
    // A bar would end the cell of the table.
    const auto plain = [&shorten](std::string stages) {
      std::replace(stages.begin(), stages.end(), '|', '-');
      return shorten(stages);
    };
    text += Row({cell.model, absl::StrCat(cell.device_count, ", ", cell.memory_gb),
                 Percent(LossOf(cell, kBmw)), Difference(cell), plain(cell.bmw_stages),
                 plain(cell.optimum_stages)});
  }
  return text + "\n";
}

}  // namespace parplan::papers
