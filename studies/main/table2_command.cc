// `parplan-study table2`: table 2 of Shi et al., FITEE 26(1), 2025, beside our planners, and which
// hypothesis about what it counts makes our model reproduce it best.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "studies/main/command.h"
#include "studies/table2/hypotheses.h"
#include "studies/table2/published_table.h"
#include "studies/table2/table2_text.h"
#include "studies/table2/table_plans.h"

namespace parplan::study {
namespace {

struct Table2Flags {
  std::string device = "a100-sxm-80gb";
  int64_t batch = 8;
  bool planners_only = false;
};

absl::Status PrintTable2(const Session& session, const Table2Flags& flags) {
  const table2::PublishedTable& table = table2::BuiltInTable();
  PARPLAN_ASSIGN_OR_RETURN(const table2::ProductRows product,
                           table2::PlanRows(table, flags.device, flags.batch));
  std::vector<table2::Hypothesis> hypotheses;
  if (!flags.planners_only) {
    PARPLAN_ASSIGN_OR_RETURN(hypotheses, table2::TryHypotheses(table, flags.device));
  }
  if (session.json) {
    return Print(session, table2::Table2Json(table, product, hypotheses).dump(2) + "\n");
  }
  return Print(session, table2::Table2Text(table, product, hypotheses));
}

}  // namespace

void AddTable2Command(Command app, const Session& session, Action& action) {
  auto flags = std::make_shared<Table2Flags>();
  Command command =
      app.AddCommand("table2", "All 84 numbers of the minimal-memory paper's table 2 beside ours");
  command.Footer(
      "Prints a page in Markdown: docs/measurements/minimal-memory.md. It takes a minute; with "
      "--planners-only a second.\nExample:\n  parplan-study table2 --planners-only --batch 32");
  command.AddOption("--device", flags->device, "Device of the library [a100-sxm-80gb]");
  command
      .AddOption("--batch", flags->batch,
                 "Samples a step of the first table [8]; hypotheses have their own")
      .Check(shell::Positive());
  command.AddFlag("--planners-only", flags->planners_only,
                  "Only the first table: our planners beside the published columns");
  command.OnChosen([&session, &action, flags] {
    action = [&session, flags] { return PrintTable2(session, *flags); };
  });
}

}  // namespace parplan::study
