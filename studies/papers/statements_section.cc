// `StatementsSection` of page_sections.h.

#include "studies/papers/page_sections.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "studies/papers/page_text.h"

namespace parplan::papers {
namespace {

// The rate over a rival's from which a plan counts as more than twice as fast.
constexpr double kTwice = 2.0;

// Degree of a power up to which growth counts as not exponential. Over the axis, 64 times as many
// devices, exponential growth by a tenth for every 8 devices would be a degree of 1.4, and by a
// fifth one of 2.8.
constexpr double kPolynomial = 1.25;

// A reading of "more than 2x": over the slowest or the fastest of some baselines.
struct Reading {
  const char* name;
  const std::vector<std::string>& rivals;
  bool over_fastest;
};

// Returns in how many cells `galvatron` is more than twice as fast as a rival, and in how many some
// rival has a plan.
std::pair<int, int> CountTwice(const std::vector<GridCell>& cells, const Reading& reading) {
  int twice_count = 0, rival_count = 0;
  for (const GridCell& cell : cells) {
    const SpeedUp speed_up =
        LargestSpeedUp({cell}, "galvatron", reading.rivals, reading.over_fastest);
    if (speed_up.where.empty()) continue;
    ++rival_count;
    if (speed_up.ratio + 1.0 > kTwice) ++twice_count;
  }
  return {twice_count, rival_count};
}

// [devices] seconds of the searches of a planner that ended, of the short ones where both did.
std::map<int, double> EndedSeconds(const PapersResults& results, const std::string& planner) {
  std::map<int, double> ended;
  for (const char* const axis : {"devices", "long-devices"}) {
    for (const TimedSearch& timed : SearchesOf(results, axis)) {
      if (timed.planner == planner && !timed.stopped) ended.try_emplace(timed.value, timed.seconds);
    }
  }
  return ended;
}

// Returns the degree of the power of the devices with which seconds grow from the first to the
// last number of devices; 0 for fewer than two.
double DegreeOf(const std::map<int, double>& seconds) {
  if (seconds.size() < 2) return 0.0;
  const auto& [first_devices, first] = *seconds.begin();
  const auto& [last_devices, last] = *seconds.rbegin();
  return std::log(last / first) / std::log(static_cast<double>(last_devices) / first_devices);
}

std::string GrowthRow(const PapersResults& results) {
  int most_devices = 0;
  for (const TimedSearch& timed : SearchesOf(results, "devices")) {
    most_devices = std::max(most_devices, timed.value);
  }
  std::vector<std::string> texts, short_of;
  double worst_degree = 0.0;
  for (const char* const planner : kPaperPlanners) {
    const std::map<int, double> ended = EndedSeconds(results, planner);
    if (ended.size() < 2) {
      short_of.push_back(absl::StrCat("`", planner, "`"));
      continue;
    }
    const double degree = DegreeOf(ended);
    worst_degree = std::max(worst_degree, degree);
    texts.push_back(absl::StrFormat("`%s` %.3g s on %d and %.3g s on %d (degree %.2f)", planner,
                                    ended.begin()->second, ended.begin()->first,
                                    ended.rbegin()->second, ended.rbegin()->first, degree));
    if (ended.rbegin()->first < most_devices) {
      short_of.push_back(absl::StrFormat("`%s` above %d", planner, ended.rbegin()->first));
    }
  }
  std::string verdict = worst_degree <= kPolynomial ? "it does not, as far as searches ended"
                                                    : "not shown: some grow faster than linearly";
  if (!short_of.empty()) {
    absl::StrAppend(&verdict, "; no search ended of ", absl::StrJoin(short_of, ", "));
  }
  return Row({"search time does not grow exponentially with GPUs",
              absl::StrCat("256 layers, searches that ended: ", absl::StrJoin(texts, ", "),
                           "; 1 is linear in the devices"),
              verdict});
}

}  // namespace

std::string StatementsSection(const PapersResults& results) {
  if (results.grid.empty()) return "";
  std::string text = "## Two statements of the summary of Galvatron\n\n";
  text += Paragraph(
      "[papers.md](../papers.md) 1.9 has where they stand. The first names no rival, so all four "
      "readings are counted: cells in which `galvatron` is more than twice as fast as the slowest "
      "or the fastest baseline of a kind that has a plan.");
  text += Head({"said", "found", "verdict"});
  const Reading readings[] = {{"the slowest pure", Pure(), false},
                              {"the fastest pure", Pure(), true},
                              {"the slowest hybrid", Hybrid(), false},
                              {"the fastest hybrid", Hybrid(), true}};
  for (const int device_count : {kGridDevices[1], kGridDevices[2]}) {
    const std::vector<GridCell> cells = CellsOf(results, device_count);
    if (cells.empty()) continue;
    std::vector<std::string> found, holds;
    for (const Reading& reading : readings) {
      const auto [twice_count, rival_count] = CountTwice(cells, reading);
      found.push_back(
          absl::StrFormat("over %s in %d of %d cells", reading.name, twice_count, rival_count));
      if (2 * twice_count > rival_count) holds.push_back(reading.name);
    }
    text += Row(
        {absl::StrFormat("more than 2x on %d GPUs", device_count), absl::StrJoin(found, ", "),
         holds.empty() ? "in most cells over none of them"
                       : absl::StrCat("in most cells only over ", absl::StrJoin(holds, " and "))});
  }
  if (!SearchesOf(results, "devices").empty()) text += GrowthRow(results);
  return text + "\n";
}

}  // namespace parplan::papers
