// `GranularitySection`, `TimesSection` and what they share of page_sections.h.

#include "studies/papers/page_sections.h"

#include <algorithm>
#include <map>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "studies/papers/page_text.h"

namespace parplan::papers {
namespace {

std::string SecondsText(const TimedSearch& timed) {
  return absl::StrFormat("%s%.3g", timed.stopped ? "> " : "", timed.seconds);
}

// Returns whether two axes ask the same questions and were made by the same commit.
bool AreComparable(const PapersResults& results, absl::string_view axis, absl::string_view other) {
  return QuestionAxis(axis) == QuestionAxis(other) &&
         CommitOf(results, axis) == CommitOf(results, other);
}

// Returns by question of an axis the least memory that any plan found for it needs, in GiB.
std::map<int, double> LeastMemories(const PapersResults& results, absl::string_view axis) {
  std::map<int, double> least;
  for (const TimedSearch& timed : results.times) {
    if (!AreComparable(results, timed.axis, axis) || timed.memory_gib <= 0.0) continue;
    const auto [found, is_new] = least.try_emplace(timed.value, timed.memory_gib);
    if (!is_new) found->second = std::min(found->second, timed.memory_gib);
  }
  return least;
}

// Returns the quality of a search: its rate as a share of the best known of the question, or its
// memory over the least known for a planner that minimises memory.
std::string QualityText(const TimedSearch& timed, double best_rate, double least_memory_gib) {
  if (timed.rate <= 0.0) return "no plan";
  if (MinimisesMemory(timed.planner)) {
    return absl::StrFormat("memory %.3f", timed.memory_gib / least_memory_gib);
  }
  return absl::StrFormat("%.3f", timed.rate / best_rate);
}

// Returns by question of an axis the highest rate that any search of it found.
std::map<int, double> BestRates(const PapersResults& results, absl::string_view axis) {
  std::map<int, double> best;
  for (const TimedSearch& timed : results.times) {
    if (AreComparable(results, timed.axis, axis)) {
      best[timed.value] = std::max(best[timed.value], timed.rate);
    }
  }
  return best;
}

// A gap below this share is left out of tables: the last digit of the shares.
constexpr double kShownGap = 5e-4;

std::string TimeTable(const PapersResults& results, absl::string_view axis,
                      const std::string& name) {
  const std::vector<TimedSearch> searches = SearchesOf(results, axis);
  if (searches.empty()) return "";
  std::map<int, double> best = BestRates(results, axis);
  std::map<int, double> least = LeastMemories(results, axis);
  const std::vector<std::string> planners = PlannersOf(searches);
  std::vector<std::string> head = {name};
  for (const std::string& planner : planners) head.push_back(absl::StrCat("`", planner, "`"));
  std::map<int, std::map<std::string, TimedSearch>> rows;
  for (const TimedSearch& timed : searches) rows[timed.value][timed.planner] = timed;
  std::string text = Head(head);
  for (const auto& [value, by_planner] : rows) {
    std::vector<std::string> cells = {absl::StrFormat("%d", value)};
    for (const std::string& planner : planners) {
      const auto found = by_planner.find(planner);
      if (found == by_planner.end()) {
        cells.push_back("");
        continue;
      }
      const TimedSearch& timed = found->second;
      cells.push_back(
          absl::StrCat(SecondsText(timed), " s, ", QualityText(timed, best[value], least[value]),
                       timed.rate > 0.0 && BoundsItsSpace(timed.planner) && timed.gap > kShownGap
                           ? absl::StrFormat(" (gap %.1f %%)", 100.0 * timed.gap)
                           : ""));
    }
    text += Row(cells);
  }
  return text + "\n";
}

// Returns the table of a long axis with a line before it; empty if it has no searches.
std::string LongTable(const PapersResults& results, absl::string_view axis,
                      const std::string& name) {
  const std::string table = TimeTable(results, axis, name);
  if (table.empty()) return table;
  return absl::StrCat("With ", kLongSearchSeconds, " s:\n\n", table);
}

// Says with which numbers of layers the searches that bound their space are slower than another, by
// more than the last digit of the shares shows, and names the quickest search that found the
// fastest plan; empty where there is none.
std::string BehindOthers(const PapersResults& results) {
  std::map<int, double> bounded;
  std::map<int, TimedSearch> fastest;
  for (const TimedSearch& timed : results.times) {
    if (!AreComparable(results, timed.axis, "layers")) continue;
    double& rate = bounded[timed.value];
    if (BoundsItsSpace(timed.planner)) rate = std::max(rate, timed.rate);
    TimedSearch& best = fastest[timed.value];
    const bool is_sooner = timed.rate == best.rate && timed.seconds < best.seconds;
    if (timed.rate > best.rate || is_sooner) best = timed;
  }
  std::string text;
  for (const auto& [layers, best] : fastest) {
    if (bounded[layers] >= best.rate * (1.0 - kShownGap)) continue;
    absl::StrAppend(&text, text.empty() ? "; both are behind others with " : ", with ", layers,
                    " layers, where `", best.planner, "` finds the fastest plan in ",
                    absl::StrFormat("%.3g", best.seconds), " s");
  }
  return text;
}

}  // namespace

std::string CommitOf(const PapersResults& results, absl::string_view axis) {
  std::string section = absl::StartsWith(axis, kLong) ? std::string(axis) : "times";
  if (absl::StartsWith(axis, "other-grid-")) section = kLongGrid;
  const auto found = results.made.find(section);
  return found == results.made.end() ? "" : found->second.commit;
}

std::vector<TimedSearch> SearchesOf(const PapersResults& results, absl::string_view axis) {
  std::vector<TimedSearch> searches;
  for (const TimedSearch& timed : results.times) {
    if (timed.axis == axis) searches.push_back(timed);
  }
  return searches;
}

// Lists the planners of some searches in the order in which they were asked.
std::vector<std::string> PlannersOf(const std::vector<TimedSearch>& searches) {
  std::vector<std::string> planners;
  for (const TimedSearch& timed : searches) {
    if (std::find(planners.begin(), planners.end(), timed.planner) == planners.end()) {
      planners.push_back(timed.planner);
    }
  }
  return planners;
}

std::string GranularitySection(const PapersResults& results) {
  if (results.granularity.empty()) return "";
  std::string text = "## Coarser memory and fused layers\n\n";
  text += Paragraph(
      "The summary of BMW says that its paper names two remedies for extreme cases, a large memory "
      "granularity and fused layers, without figures. The methods of `galvatron-bmw` alone, "
      "without "
      "the baselines that its answers contain, on 8 devices with `--memory-granule` and "
      "`--fuse-layers`: their rate as a share of the proved optimum.");
  std::vector<std::string> head = {"model", "GB"};
  for (const Granularity& granularity : kGranularities) {
    head.push_back(GranularityName(granularity));
  }
  text += Head(head);
  std::vector<double> sums(std::size(kGranularities), 0.0), worst(std::size(kGranularities), 1.0);
  std::vector<int> counts(std::size(kGranularities), 0);
  for (const GranularityRow& row : results.granularity) {
    std::vector<std::string> cells = {row.model, absl::StrCat(row.memory_gb)};
    for (size_t index = 0; index < row.rates.size(); ++index) {
      if (row.rates[index] <= 0.0) {
        cells.push_back("no plan");
        worst[index] = 0.0;
        continue;
      }
      const double share = row.rates[index] / row.optimum;
      sums[index] += share;
      ++counts[index];
      worst[index] = std::min(worst[index], share);
      cells.push_back(absl::StrFormat("%.4f", share));
    }
    text += Row(cells);
  }
  std::vector<std::string> means = {"mean, where there is a plan", ""}, worsts = {"worst", ""};
  for (size_t index = 0; index < sums.size(); ++index) {
    means.push_back(counts[index] > 0 ? absl::StrFormat("%.4f", sums[index] / counts[index]) : "-");
    worsts.push_back(worst[index] > 0.0 ? absl::StrFormat("%.4f", worst[index]) : "no plan");
  }
  absl::StrAppend(&text, Row(means), Row(worsts), "\n");
  const std::vector<TimedSearch> searches = SearchesOf(results, "granularity");
  if (searches.empty()) return text;
  text += Paragraph(absl::StrCat(
      "The same as a curve: processor seconds of search, and the rate as a share of the best of "
      "the row, for "
      "layers of BERT on 64 A100 with 80 GB, batch 128, here with the baselines. A search is ended "
      "after ",
      kSearchSeconds, " s and keeps its best plan so far (`>`):"));
  return absl::StrCat(text, TimeTable(results, "granularity", "layers"),
                      "![Search time against granularity](../images/papers-granularity.svg)\n\n",
                      LongTable(results, kLongGranularity, "layers"));
}

std::string TimesSection(const PapersResults& results) {
  if (results.times.empty()) return "";
  std::string text = "## Search time\n\n";
  text += Paragraph(absl::StrCat(
      "Processor time of one thread of the machine that made the part, which the first table of "
      "this page names with its commit; the least of up to five runs. A search that takes longer "
      "than ",
      kSearchSeconds,
      " s is ended there and keeps its best plan so far (`>`, before the seconds it took). Beside "
      "each time stands the rate of "
      "the plan as a share of the best that any search of the question found on the same commit, "
      "in "
      "this table or another; for `min-memory-ilp`, which does not look for it, the memory that a "
      "device must "
      "have over the least of any plan found for the question. `",
      kTreeOptimum, "` is `exact` in the space of `galvatron-bmw` under a limit of ",
      kMaxOptimumStates / 1'000'000,
      " million states, which ends it before the time does; `exact` has all of ours and no limit "
      "of states. Neither is an optimum where a gap is left",
      BehindOthers(results),
      ". This is open question 1 of the summary of BMW: what thousands of layers take, and what "
      "quality they cost. The integer programs are in the tables of long searches, which end "
      "after ",
      kLongSearchSeconds,
      " s (`--section long-times`, which a run of everything leaves as it is; the names behind a "
      "planner are its `--memory-granule` and `--fuse-layers`). All others are ended after ",
      kOtherSearchSeconds, " s."));
  text += "### Layers of BERT on 64 A100 with 80 GB, batch 128\n\n";
  text += TimeTable(results, "layers", "layers");
  text += "![Search time against layers](../images/papers-layers.svg)\n\n";
  text += LongTable(results, "long-layers", "layers");
  text += TimeTable(results, "other-layers", "layers");
  text += "### 256 of BERT's layers, two samples a device, A100 with 80 GB\n\n";
  text += TimeTable(results, "devices", "devices");
  text += "![Search time against devices](../images/papers-devices.svg)\n\n";
  text += LongTable(results, "long-devices", "devices");
  text += TimeTable(results, "other-devices", "devices");
  text += "### BERT-Huge-32 on 8 A100, batch 64\n\n";
  text += TimeTable(results, "memory", "GB");
  text += LongTable(results, "long-memory", "GB");
  text += TimeTable(results, "other-memory", "GB");
  text += "### BERT-Huge-32 on 8 RTX Titans with 16 GB, batch 64\n\n";
  text += Paragraph(
      "In parts of the tree: data parallelism and pipelines (4 strategies), with sharding (7), "
      "with tensor parallelism (22), with "
      "recomputation (44). `exact` has the same parts and its other dimensions off:");
  text += TimeTable(results, "strategies", "strategies");
  text += LongTable(results, "long-strategies", "strategies");
  return text + TimeTable(results, "other-strategies", "strategies");
}

}  // namespace parplan::papers
