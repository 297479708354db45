// `GridSection`, `OrderSection` and `SpeedUpSection` of page_sections.h.

#include "studies/papers/page_sections.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "studies/papers/page_text.h"

namespace parplan::papers {
namespace {

std::string NamedRate(const GridCell& cell, const std::vector<std::string>& planners) {
  const std::string best = cell.BestOf(planners);
  return best.empty() ? "-" : absl::StrFormat("%s %.2f", best, cell.RateOf(best));
}

// How often a planner is behind another, and the worst case.
struct Behind {
  int count = 0;
  int cell_count = 0;
  double worst = 0.0;
  std::string where;
};

Behind CountBehind(const std::vector<GridCell>& cells, absl::string_view planner,
                   const std::vector<std::string>& rivals) {
  Behind behind;
  for (const GridCell& cell : cells) {
    const std::string best = cell.BestOf(rivals);
    if (best.empty()) continue;
    ++behind.cell_count;
    const double loss = 1.0 - cell.RateOf(planner) / cell.RateOf(best);
    if (loss <= kLost) continue;
    ++behind.count;
    if (loss <= behind.worst) continue;
    behind.worst = loss;
    behind.where = absl::StrCat(cell.model, ", ", cell.memory_gb, " GB, `", best, "`");
  }
  return behind;
}

std::string BehindText(const Behind& behind) {
  if (behind.count == 0) return absl::StrCat("0 of ", behind.cell_count);
  return absl::StrCat(behind.count, " of ", behind.cell_count, ", at most ", Percent(behind.worst),
                      " (", behind.where, ")");
}

// Lists the cells in which a planner is slower by more than `kLost` than with the budget before.
std::vector<std::string> SlowerWithMore(const std::vector<GridCell>& grid,
                                        absl::string_view planner) {
  std::vector<std::string> slower;
  const GridCell* before = nullptr;
  for (const GridCell& cell : grid) {
    // The cells of a model are in the order of their memory.
    const bool follows = before != nullptr && before->model == cell.model &&
                         before->device_count == cell.device_count &&
                         before->memory_gb < cell.memory_gb;
    const double rate = cell.RateOf(planner);
    if (follows && rate < before->RateOf(planner) * (1.0 - kLost)) {
      slower.push_back(absl::StrFormat("%s on %d devices from %d to %d GB, %.2f and then %.2f",
                                       cell.model, cell.device_count, before->memory_gb,
                                       cell.memory_gb, before->RateOf(planner), rate));
    }
    before = &cell;
  }
  return slower;
}

// Says in how many cells more memory gives a slower plan.
std::string MoreMemoryText(const PapersResults& results) {
  size_t count = 0;
  for (const char* const planner : kPaperPlanners) {
    count += SlowerWithMore(results.grid, planner).size();
  }
  const std::vector<std::string> alone = SlowerWithMore(results.grid, kBmwAlone);
  return Paragraph(absl::StrCat(
      "From one budget to the next, a plan of `galvatron`, `galvatron-base` or `galvatron-bmw` is "
      "slower by more than 0.1 % in ",
      count,
      " cells: their answers contain those for smaller devices. The method of BMW alone, "
      "which solves stages each for itself, is in ",
      alone.size(), alone.empty() ? "." : absl::StrCat(": ", absl::StrJoin(alone, "; "), ".")));
}

// Says how often the methods lose where no baseline stands beside them.
std::string MethodsAloneText(const PapersResults& results) {
  std::string text = Paragraph(
      "The same of the methods alone, whose answers hold no plan of a baseline. Where a method has "
      "no plan and its rival has one it loses 100 %:");
  text += Head({"devices", "base alone behind a baseline", "bmw alone behind a baseline",
                "bmw alone behind base alone", "bmw alone behind `galvatron-bmw`",
                "bmw alone behind the optimum"});
  int behind_count = 0, cell_count = 0, none_count = 0;
  for (const int device_count : kGridDevices) {
    const std::vector<GridCell> cells = CellsOf(results, device_count);
    if (cells.empty()) continue;
    const Behind baseline = CountBehind(cells, kBmwAlone, Baselines());
    behind_count += baseline.count;
    cell_count += baseline.cell_count;
    for (const GridCell& cell : cells) {
      if (cell.OptimumRate() > 0.0 && cell.RateOf(kBmwAlone) <= 0.0) ++none_count;
    }
    text +=
        Row({absl::StrCat(device_count), BehindText(CountBehind(cells, kBaseAlone, Baselines())),
             BehindText(baseline), BehindText(CountBehind(cells, kBmwAlone, {kBaseAlone})),
             BehindText(CountBehind(cells, kBmwAlone, {kBmw})),
             BehindText(CountBehind(cells, kBmwAlone, {kTreeOptimum}))});
  }
  return absl::StrCat(
      text, "\n",
      Paragraph(absl::StrCat(
          "So the method of BMW alone is behind some baseline in ", behind_count, " of ",
          cell_count, " cells, and has no plan in ", none_count, " cells that have one",
          behind_count > 0
              ? ": \"consistently\" holds here because the planner also offers what the baselines "
                "find, not because of its method."
              : ".")));
}

// Says in how many cells `exact` has a slower plan than is known in its smaller space, the tree.
std::string ExactBehindTree(const PapersResults& results) {
  const auto grid = results.made.find("grid");
  const std::string commit = grid == results.made.end() ? "" : grid->second.commit;
  if (CommitOf(results, "other-grid-") != commit) {
    return "This table and those before it are of several commits, so `exact` is not compared with "
           "the tree here.";
  }
  int cell_count = 0;
  int behind_count = 0;
  double worst = 0.0;
  std::string where;
  for (const GridCell& cell : results.grid) {
    const std::string axis = absl::StrCat("other-grid-", cell.model, "-", cell.device_count);
    for (const TimedSearch& timed : SearchesOf(results, axis)) {
      if (timed.planner != "exact" || timed.value != cell.memory_gb) continue;
      ++cell_count;
      if (timed.rate >= cell.OptimumRate() * (1.0 - kLost)) continue;
      ++behind_count;
      const double loss = 1.0 - timed.rate / cell.OptimumRate();
      if (loss <= worst) continue;
      worst = loss;
      where = absl::StrFormat("%s on %d devices with %d GB", cell.model, cell.device_count,
                              cell.memory_gb);
    }
  }
  if (behind_count == 0) {
    return absl::StrCat("In none of ", cell_count,
                        " cells is `exact` slower than the fastest plan known of the tree, which "
                        "its space contains.");
  }
  return absl::StrFormat(
      "In %d of %d cells `exact` is slower than the fastest plan known of the tree, which its "
      "space "
      "contains, by more than 0.1 %%, at most by %s (%s): its proof ended with a gap, by the time "
      "or "
      "by limits of its own.",
      behind_count, cell_count, Percent(worst), where);
}

// The cells of the grid by the planners that it leaves out.
std::string OtherPlannersSection(const PapersResults& results) {
  std::string rows, head;
  for (const std::string& axis : OtherGridAxes()) {
    std::map<int, std::map<std::string, TimedSearch>> by_memory;
    const std::vector<TimedSearch> searches = SearchesOf(results, axis);
    for (const TimedSearch& timed : searches) by_memory[timed.value][timed.planner] = timed;
    const std::vector<std::string> planners = PlannersOf(searches);
    if (head.empty() && !planners.empty()) {
      std::vector<std::string> names = {"devices", "model", "GB"};
      for (const std::string& planner : planners) names.push_back(absl::StrCat("`", planner, "`"));
      head = Head(names);
    }
    // The axis is `other-grid-NAME-N`, with more hyphens in the name.
    const size_t name = axis.find("grid-") + sizeof("grid-") - 1;
    const size_t count = axis.rfind('-');
    for (const auto& [memory_gb, answers] : by_memory) {
      std::vector<std::string> cells = {axis.substr(count + 1), axis.substr(name, count - name),
                                        absl::StrCat(memory_gb)};
      for (const std::string& planner : planners) {
        const TimedSearch& answer = answers.at(planner);
        if (answer.rate <= 0.0) {
          cells.push_back("-");
          continue;
        }
        cells.push_back(absl::StrCat(MinimisesMemory(planner)
                                         ? absl::StrFormat("%.2f GiB", answer.memory_gib)
                                         : absl::StrFormat("%.2f", answer.rate),
                                     answer.stopped ? " >" : ""));
      }
      rows += Row(cells);
    }
  }
  if (rows.empty()) return "";
  return absl::StrCat(
      "### The other planners\n\n",
      Paragraph(absl::StrCat(
          "The same cells by all other planners of parplan, each in its own space: "
          "`exact` has all dimensions, `min-memory-ilp` minimises memory, `alpa-like` and "
          "`colossal-auto-like` minimise time under a cap on memory, the last with recomputation "
          "of what does not fit. Of `min-memory-ilp` the memory that a device must have is "
          "printed, of all others samples a second. "
          "Behind `>` a search was ended after ",
          kGridSearchSeconds,
          " s of processor time and kept its best plan so far; the time makes these figures depend "
          "on the machine. "
          "How long the integer programs take is under *Search time*. `--section long-grid` makes "
          "this table, which a run of everything leaves as it is.")),
      head, rows, "\n", Paragraph(ExactBehindTree(results)));
}

}  // namespace

std::string GridSection(const PapersResults& results) {
  std::string text = "## The grid\n\n";
  text += Paragraph(
      "Predicted samples a second: the best pure baseline (`dp`, `sdp`, `tp`, `pp`), the best "
      "hybrid one (`dp+tp`, `dp+pp`, `deepspeed-3d`), the planners of the papers, and the optimum "
      "of the tree of `galvatron-bmw`, found and proved by `exact`; in brackets by how "
      "much another plan may still be faster, where a limit of states ended the proof. The answers "
      "of `galvatron-base` and `galvatron-bmw` contain the plans of all baselines and of several "
      "partitioners, so their columns hardly differ. What the methods find without these stands "
      "before the optimum: *base alone* is the dynamic program with even stages, *bmw alone* the "
      "walk from balanced memory to balanced time, and the program for one stage. All answers to "
      "a cell are in the file of results.");
  for (const int device_count : kGridDevices) {
    const std::vector<GridCell> cells = CellsOf(results, device_count);
    if (cells.empty()) continue;
    absl::StrAppend(&text, "### ", device_count, " devices\n\n",
                    Head({"model", "GB", "pure", "hybrid", "galvatron", "base", "bmw", "base alone",
                          "bmw alone", "optimum"}));
    for (const GridCell& cell : cells) {
      std::string optimum = Rate(cell.OptimumRate());
      if (cell.UnprovedShare() > kLost) {
        absl::StrAppend(&optimum, " (", Percent(cell.UnprovedShare()), ")");
      }
      text += Row({cell.model, absl::StrCat(cell.memory_gb), NamedRate(cell, Pure()),
                   NamedRate(cell, Hybrid()), Rate(cell.RateOf("galvatron")),
                   Rate(cell.RateOf(kBase)), Rate(cell.RateOf(kBmw)), Rate(cell.RateOf(kBaseAlone)),
                   Rate(cell.RateOf(kBmwAlone)), optimum});
    }
    text += "\n";
  }
  return text + OtherPlannersSection(results);
}

std::string OrderSection(const PapersResults& results) {
  std::string text = "## Who is behind whom\n\n";
  text += Paragraph(
      "The abstracts say \"always\" (Galvatron) and \"consistently\" (BMW) superior. Cells in "
      "which "
      "a planner is slower by more than 0.1 %, and the worst of them:");
  text += Head({"devices", "galvatron behind a baseline", "base behind galvatron",
                "base behind a baseline", "bmw behind base", "bmw behind a baseline"});
  for (const int device_count : kGridDevices) {
    const std::vector<GridCell> cells = CellsOf(results, device_count);
    if (cells.empty()) continue;
    text +=
        Row({absl::StrCat(device_count), BehindText(CountBehind(cells, "galvatron", Baselines())),
             BehindText(CountBehind(cells, kBase, {"galvatron"})),
             BehindText(CountBehind(cells, kBase, Baselines())),
             BehindText(CountBehind(cells, kBmw, {kBase})),
             BehindText(CountBehind(cells, kBmw, Baselines()))});
  }
  text += "\n";
  int gain_count = 0, baseline_count = 0, fitting_count = 0;
  for (const GridCell& cell : results.grid) {
    const double rate = cell.RateOf(kBmw);
    if (rate <= 0.0) continue;
    ++fitting_count;
    if (rate > cell.RateOf(kBase)) ++gain_count;
    const std::string best = cell.BestOf(Baselines());
    if (!best.empty() && rate <= cell.RateOf(best)) ++baseline_count;
  }
  text += Paragraph(absl::StrCat(
      "An answer of the papers' planners is the best of its parts, the plans of the baselines "
      "included ([ADR 20](../adr/0020-planners-of-the-papers-contain-their-parts.md)). In ",
      baseline_count, " of ", fitting_count,
      " cells that of `galvatron-bmw` is as fast as its best baseline and no faster. With the best "
      "partition, which is the default, it is faster than `galvatron-base` in ",
      gain_count, " of ", fitting_count,
      " cells; what its queue is worth over even stages is below."));
  text += MoreMemoryText(results);
  return text + MethodsAloneText(results);
}

std::string SpeedUpSection(const PapersResults& results) {
  std::string text = "## \"Up to\"\n\n";
  text += Paragraph(
      "The summary of BMW says up to 530 % over pure and 242 % over hybrid parallelism; that of "
      "Galvatron up to 338 % for ViT and 200 to 334 % for other models \"compared to hybrid "
      "strategies\", of which our notes say, from memory and unverified, that they are over pure "
      "ones ([papers.md](../papers.md) 1.7, 2.1 and 2.7). Whether 530 % is 6.3 or 5.3 times as "
      "fast, "
      "and "
      "over which baseline of a cell, no text at hand says. Here `+100 %` is twice as fast, over "
      "the slowest and over the fastest baseline of a kind that has a plan in the cell; the "
      "largest "
      "over all cells:");
  text += Head({"planner", "devices", "over the slowest pure", "over the fastest pure",
                "over the slowest hybrid", "over the fastest hybrid"});
  for (const char* const planner : {"galvatron", kBmw}) {
    for (const int device_count : kGridDevices) {
      const std::vector<GridCell> cells = CellsOf(results, device_count);
      if (cells.empty()) continue;
      std::vector<std::string> row = {absl::StrCat("`", planner, "`"), absl::StrCat(device_count)};
      for (const auto& [rivals, over_fastest] :
           {std::pair(Pure(), false), std::pair(Pure(), true), std::pair(Hybrid(), false),
            std::pair(Hybrid(), true)}) {
        const SpeedUp largest = LargestSpeedUp(cells, planner, rivals, over_fastest);
        row.push_back(largest.where.empty()
                          ? "-"
                          : absl::StrFormat("%+.0f %% (%s)", 100.0 * largest.ratio, largest.where));
      }
      text += Row(row);
    }
  }
  return text + "\n";
}

}  // namespace parplan::papers
