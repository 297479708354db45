#include "studies/papers/papers_page.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "studies/papers/page_sections.h"
#include "studies/papers/page_text.h"

namespace parplan::papers {
namespace {

std::string Introduction(const PapersResults& results) {
  std::string text = "# The papers' experiments, made again\n\n";
  text +=
      "    # Everything but long searches, and this page.\n"
      "    parplan-study papers --source . --machine \"AMD EPYC\" --commit $(git rev-parse --short "
      "HEAD)\n"
      "    # One part of it; `long-times` takes up to an hour.\n"
      "    parplan-study papers --source . --section grid --machine \"AMD EPYC\" --commit ...\n"
      "    # The page of the stored results.\n"
      "    parplan-study papers --source . --only-page\n\n";
  text += Paragraph(
      "Everything here is a **prediction of parplan's own cost model**; nothing was trained. "
      "Devices are RTX Titans in nodes of eight, times come from data sheets, memory is 8, 12, 16 "
      "or 20 GiB a device. Models have the sizes of the authors' public constants "
      "([papers.md](../papers.md) 1.7), in fp32 with Adam; Swin's attention is over all its "
      "tokens and not over windows, which overstates it. So rates are not those of the papers. "
      "What can be compared is the order of planners and what parts of the method are worth.");
  text += Paragraph(
      "Batches are searched: 64 and 128 on 8 devices, 128 and 256 on 16, 1024 on 64, so that the "
      "whole takes two minutes; the authors' step is 8, and finer steps find faster plans. With "
      "gradient accumulation no memory ends the batch, as it did in the authors' code, so the "
      "range "
      "does. Tensor parallelism stays within a node, so `tp` has no plan on 16 and 64 "
      "devices; `pp` has none where there are more devices than layers.");
  text += Paragraph(absl::StrCat(
      "The results are in `studies/papers/data/results.json`, and this page is made of them alone; "
      "a test makes it again and compares it byte by byte, and answers some of the cells again. "
      "Everything was made on ",
      results.machine, ", commit ", results.commit, ", and its parts take ", results.WholeSeconds(),
      " s of one core in all, ",
      results.WholeSeconds() <= kWholeRunSeconds ? "within" : "**more than**",
      " the two minutes it is meant to take: ",
      absl::StrJoin(results.seconds, ", ",
                    [](std::string* out, const auto& part) {
                      absl::StrAppendFormat(out, "`%s` %.0f s", part.first, part.second);
                    }),
      ". What begins with `long` is not part of the two minutes."));
  const std::string whole = absl::StrCat(results.machine, ", commit ", results.commit);
  std::vector<std::string> later;
  for (const auto& [part, where] : results.later_parts) {
    if (where != whole) later.push_back(absl::StrCat("`", part, "` on ", where));
  }
  if (!later.empty()) {
    text += Paragraph(absl::StrCat("Parts made again since: ", absl::StrJoin(later, "; "), "."));
  }
  return text;
}

}  // namespace

std::string PapersPage(const PapersResults& results) {
  return absl::StrCat(Introduction(results), GridSection(results), OrderSection(results),
                      SpeedUpSection(results), StatementsSection(results),
                      CertificateSection(results), AblationSection(results),
                      PipelineSection(results), WalksSection(results),
                      ForwardMemorySection(results), GranularitySection(results),
                      TimesSection(results), OverlapSection(results), ChecksSection(results));
}

}  // namespace parplan::papers
