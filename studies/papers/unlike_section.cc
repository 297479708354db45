// `UnlikeSection` and `SummaryOf` of page_sections.h.

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "studies/papers/page_sections.h"
#include "studies/papers/page_text.h"

namespace parplan::papers {
namespace {

std::string TimesAsFast(double rate, double other) {
  return other > 0.0 && rate > 0.0 ? absl::StrFormat("%.2f", rate / other) : "-";
}

}  // namespace

UnlikeSummary SummaryOf(const std::vector<UnlikeRow>& rows) {
  UnlikeSummary summary;
  for (const UnlikeRow& row : rows) {
    if (row.stronger_alone > row.alike) ++summary.alone_is_faster_count;
    if (row.Apart() > row.alike) ++summary.apart_is_faster_count;
  }
  return summary;
}

std::string UnlikeSection(const PapersResults& results) {
  if (results.unlike.empty()) return "";
  std::string text = "### Devices of several kinds\n\n";
  text += Paragraph(
      "The check asks whether equal groups of devices hold where groups have unlike memory and "
      "links. The planners take devices as alike; a question with several node groups is refused. "
      "Here one node of eight devices stands beside one of stronger ones. A plan that takes all 16 "
      "as alike must run on the weaker ones, so its rate is that of `galvatron-bmw` on 16 of "
      "those. Beside it are the rates of each node alone, with a plan that this planner finds for "
      "it, and their sum: with these plans the nodes as replicas, each with a share of the batch "
      "of its own, are no faster, and the exchange of gradients between them makes them slower. "
      "Samples a second, and how many times as fast as all 16 as alike:");
  text += Head({"model", "weaker", "stronger", "16 as alike", "8 weaker alone", "8 stronger alone",
                "times", "each by itself, at most", "times"});
  for (const UnlikeRow& row : results.unlike) {
    text += Row({row.model, row.weaker, row.stronger, Rate(row.alike), Rate(row.weaker_alone),
                 Rate(row.stronger_alone), TimesAsFast(row.stronger_alone, row.alike),
                 Rate(row.Apart()), TimesAsFast(row.Apart(), row.alike)});
  }
  const UnlikeSummary summary = SummaryOf(results.unlike);
  return absl::StrCat(
      text, "\n",
      Paragraph(absl::StrFormat(
          "In %d of %d rows the eight stronger devices alone are faster than all 16 taken as "
          "alike, and in %d the two nodes by themselves could be. No plan of ours has stages or "
          "replicas on several kinds of devices, so how much of that a tree with unlike groups "
          "would reach stays open.",
          summary.alone_is_faster_count, results.unlike.size(), summary.apart_is_faster_count)));
}

}  // namespace parplan::papers
