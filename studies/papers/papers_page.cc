#include "studies/papers/papers_page.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "studies/papers/page_sections.h"
#include "studies/papers/page_text.h"

namespace parplan::papers {
namespace {

std::string MadeTable(const PapersResults& results) {
  if (results.made.empty()) return "";
  std::string text = Head({"part", "seconds of one core", "commit", "machine"});
  for (const auto& [section, run] : results.made) {
    text += Row({absl::StrCat("`", section, "`"), absl::StrFormat("%.1f", run.seconds), run.commit,
                 run.machine});
  }
  return text + "\n";
}

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
      "Each part was made by the latest run of it, whose commit stands here. A run of everything "
      "makes the parts whose names do not begin with `long` and leaves the others as they are; it "
      "takes ",
      results.WholeSeconds(), " s of one core, ",
      results.WholeSeconds() <= kWholeRunSeconds ? "within" : "**more than**",
      " the two minutes it is meant to take."));
  return text + MadeTable(results);
}

}  // namespace

std::string PapersPage(const PapersResults& results) {
  return absl::StrCat(
      Introduction(results), GridSection(results), OrderSection(results), SpeedUpSection(results),
      StatementsSection(results), CertificateSection(results), AblationSection(results),
      PipelineSection(results), WalksSection(results), ForwardMemorySection(results),
      GranularitySection(results), TimesSection(results), OverlapSection(results),
      ChecksSection(results), UnlikeSection(results));
}

}  // namespace parplan::papers
