// `AblationSection`, `PipelineSection` and `ForwardMemorySection` of page_sections.h.

#include "studies/papers/page_sections.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "studies/papers/page_text.h"

namespace parplan::papers {

std::string AblationSection(const PapersResults& results) {
  if (results.ablations.empty()) return "";
  std::string text = "## What each part is worth\n\n";
  text += Paragraph(
      "`galvatron-bmw` on 8 devices with `--partitioner even`, so that only its own queue makes "
      "stages uneven, and the change of its rate without one part. \"No balance\" is "
      "`galvatron-base`; \"one strategy\" gives all Transformer layers the same one; \"even "
      "stages\" leaves the partition no choice. A gain (above 0) means that the heuristic found a "
      "better plan in the smaller space.");
  std::vector<std::string> head = {"model", "GB", "whole"};
  for (size_t index = 1; index < Ablations().size(); ++index)
    head.push_back(Ablations()[index].name);
  text += Head(head);
  std::vector<double> worst(Ablations().size(), 0.0);
  for (const AblationRow& row : results.ablations) {
    std::vector<std::string> cells = {row.model, absl::StrCat(row.memory_gb), Rate(row.rates[0])};
    for (size_t index = 1; index < row.rates.size(); ++index) {
      if (row.rates[index] <= 0.0) {
        cells.push_back("no plan");
        continue;
      }
      const double change = row.rates[index] / row.rates[0] - 1.0;
      worst[index] = std::min(worst[index], change);
      cells.push_back(std::abs(change) <= kLost ? "=" : Signed(change));
    }
    text += Row(cells);
  }
  std::vector<std::string> last = {"largest loss", "", ""};
  for (size_t index = 1; index < worst.size(); ++index) last.push_back(Signed(worst[index]));
  return absl::StrCat(text, Row(last), "\n");
}

std::string PipelineSection(const PapersResults& results) {
  if (results.pipelines.empty()) return "";
  std::string text = "## Balance, where it has most to do\n\n";
  text += Paragraph(
      "With the whole tree, one stage is often the fastest plan on one node, and nothing is left "
      "to "
      "balance. Without tensor parallelism and sharding pipelines remain (`--space "
      "all,-tensor,-zero-1,-zero-2,-zero-3`), here for the two models whose layers are unlike, on "
      "8 "
      "devices. Samples a second of `galvatron-base` with even and with greedy stages, of "
      "`galvatron-bmw` with even stages beside its queue (`--partitioner`), of memory-balanced "
      "partitions alone (the best over all batches, depths and micro-batches), of the baseline "
      "`dp+pp` with the best stages it finds, and of the proved optimum of this space:");
  text += Head({"model", "GB", "base, even", "base, greedy", "bmw, even", "balanced memory alone",
                "bmw over it", "bmw over even base", "dp+pp, best", "optimum"});
  std::string notes;
  std::vector<std::string> without_gain;
  for (const PipelineRow& row : results.pipelines) {
    const auto rate = [](double value) { return value > 0.0 ? Rate(value) : "none fits"; };
    text += Row({row.model, absl::StrCat(row.memory_gb), rate(row.base), rate(row.greedy_base),
                 rate(row.bmw), rate(row.memory_balanced),
                 row.memory_balanced > 0.0 ? Signed(row.bmw / row.memory_balanced - 1.0) : "",
                 row.base > 0.0 ? Signed(row.bmw / row.base - 1.0) : "", rate(row.hybrid),
                 rate(row.optimum)});
    if (row.bmw > 0.0 && row.bmw <= row.memory_balanced * (1.0 + kLost)) {
      without_gain.push_back(absl::StrCat(row.model, " with ", row.memory_gb, " GB"));
    }
    absl::StrAppend(&notes, "    ", row.model, ", ", row.memory_gb, " GB\n");
    for (const std::string& note : row.notes) absl::StrAppend(&notes, "      ", note, "\n");
  }
  text += "\n";
  text += Paragraph(absl::StrCat(
      "Over balanced memory alone `galvatron-bmw` gains more than 0.1 % in ",
      results.pipelines.size() - without_gain.size(), " of ", results.pipelines.size(), " rows",
      without_gain.empty()
          ? "."
          : absl::StrCat("; nothing with ", absl::StrJoin(without_gain, ", "), "."),
      " What it says of its balance:"));
  absl::StrAppend(&text, notes, "\n");
  return text;
}

std::string ForwardMemorySection(const PapersResults& results) {
  if (results.forward_memory.empty()) return "";
  std::string text = "## Decoupled forward memory and rounding\n\n";
  text += Paragraph(
      "The dynamic program looks for the least time within the memory kept from forward to "
      "backward, and checks the backward pass afterwards; the summary of BMW says that this lacks "
      "a "
      "rigorous proof. It also rounds every layer up to a MiB. On one stage of 8 devices nothing "
      "else differs, so the program alone, without the baselines whose plans `galvatron-base` also "
      "offers, is compared with the proved optimum there: 8 to 20 GB by 2, "
      "batches of 8 to 64 in 1 to 8 micro-batches. Both are judged by the same upper bound of "
      "memory, so what is lost is rounding or the decoupling. Where the program is slower, it is "
      "run "
      "again without the decoupling: once for every value that the memory of a backward pass can "
      "have, over the strategies that need no more, with the same rounding and the same check. If "
      "it is slower than the best of these, the decoupling itself lost.");
  text += Head({"model", "questions", "equal", "slower, but not by decoupling", "decoupling loses",
                "no plan found", "mean loss", "largest loss", "largest loss of decoupling"});
  int questions = 0, equal = 0, rounding = 0, decoupling = 0, no_plan = 0;
  for (const ForwardMemoryRow& row : results.forward_memory) {
    questions += row.question_count;
    equal += row.equal_count;
    rounding += row.rounding_count;
    decoupling += row.decoupling_count;
    no_plan += row.no_plan_count;
    text += Row({row.model, absl::StrCat(row.question_count), absl::StrCat(row.equal_count),
                 absl::StrCat(row.rounding_count), absl::StrCat(row.decoupling_count),
                 absl::StrCat(row.no_plan_count), absl::StrFormat("%.3f %%", 100 * row.mean_loss),
                 row.worst_loss > 0.0
                     ? absl::StrFormat("%.2f %% (%s)", 100 * row.worst_loss, row.worst_question)
                     : std::string("0"),
                 row.decoupling_count > 0
                     ? absl::StrFormat("%.2f %% (%s)", 100 * row.worst_decoupling_loss,
                                       row.worst_decoupling_question)
                     : std::string("0")});
  }
  text += Row({"all", absl::StrCat(questions), absl::StrCat(equal), absl::StrCat(rounding),
               absl::StrCat(decoupling), absl::StrCat(no_plan), "", "", ""});
  return text + "\n";
}

}  // namespace parplan::papers
