// A plan as one page a person reads: self-contained HTML with inline SVG, no
// script, nothing fetched.

#ifndef PARPLAN_CLIENTS_REPORT_REPORT_H_
#define PARPLAN_CLIENTS_REPORT_REPORT_H_

#include <string>
#include <vector>

#include "planner/find_plan.h"
#include "planner/model/model_spec.h"
#include "planner/model/plan.h"

namespace parplan {

// One row of the table of rivals.
struct ReportRival {
  std::string planner;
  bool feasible = false;
  Seconds step;                   // when feasible
  double samples_per_second = 0;  // when feasible
  Bytes peak_memory;              // when feasible
  std::string gist;               // when feasible
  Bytes smallest_device_memory;   // when not feasible
  bool stopped_early = false;     // a limit came before it was known
};

// A plan of the same search beside the one the page is about.
struct PlanBeside {
  Plan plan;
  Seconds step;
  double samples_per_second = 0.0;
  Bytes peak_memory;

  // Time a sample above that of a plan with `rate` samples a second, as a share of it.
  double SlowerThan(double rate) const { return rate / samples_per_second - 1.0; }
};

// A label and what it says, printed as they are (escaped).
struct ReportFact {
  std::string label;
  std::string text;
};

// Everything the page shows. The page adds nothing to it.
struct ReportInput {
  // For example `llama2-7b on 8 x NVIDIA A100-SXM4-40GB`.
  std::string title;
  std::string planner;
  Plan plan;
  Prediction prediction;
  SearchSummary search;
  // Whether messages between stages hold up the devices of the runtime that trains
  // (`RuntimeTraits::blocking_pipeline_messages`); the timeline is drawn so.
  bool blocking_messages = false;
  // One name a layer of the model, first to last.
  std::vector<std::string> layer_names;
  // May be empty.
  std::vector<ReportRival> rivals;
  // The next best plans, best first, and those from the fastest to the one that needs
  // least memory; may be empty.
  std::vector<PlanBeside> alternatives;
  std::vector<PlanBeside> memory_front;
  // What the planner says of its method.
  std::vector<std::string> notes;
  // Identity and provenance: plan name, digests, expiry, signature.
  std::vector<ReportFact> facts;
};

// Renders the page. Every text of `input` is escaped, and shortened where it is
// too long to read. REQUIRES: the plan has stages, each with layers, and the
// prediction has as many or, with virtual stages, as there are devices in a row.
//
// The page stays below 1 MiB however large the plan is; where a chart or a table
// leaves something out, the page says so.
std::string RenderReport(const ReportInput& input);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_REPORT_REPORT_H_
