// Renders a plan as one self-contained HTML page with inline SVG: no script, no request. `PlanHtml`
// (clients/planctl/view/plan_view.h) calls it.

#ifndef PARPLAN_CLIENTS_REPORT_REPORT_H_
#define PARPLAN_CLIENTS_REPORT_REPORT_H_

#include <string>
#include <vector>

#include "planner/find_plan.h"
#include "planner/model/model_spec.h"
#include "planner/model/plan.h"

namespace parplan {

// One row of the table of rivals: the best plan of another planner for the same question.
struct ReportRival {
  std::string planner;
  // Whether the planner found a plan that fits. If not, and `stopped_early` is false, a smallest
  // memory of 0 stands for no plan on devices of any size: the page says that no degrees divide
  // devices, heads and batch.
  bool feasible = false;
  Seconds step;                   // when feasible
  double samples_per_second = 0;  // when feasible
  Bytes peak_memory;              // when feasible
  std::string gist;               // when feasible
  Bytes smallest_device_memory;   // when not feasible
  bool stopped_early = false;     // a limit ended its search before any plan was found
};

// An alternative plan of the same search.
struct PlanBeside {
  // The plan, and the prediction for it.
  Plan plan;
  Seconds step;
  double samples_per_second = 0.0;
  Bytes peak_memory;

  // Returns by which share this plan takes more time per sample than one with `rate` samples/s;
  // below 0 if it takes less. REQUIRES, unchecked: `samples_per_second` is above 0.
  double SlowerThan(double rate) const { return rate / samples_per_second - 1.0; }
};

// A label and its text, plain text both.
struct ReportFact {
  std::string label;
  std::string text;
};

// Everything that the page shows.
struct ReportInput {
  // Title of the page, for example `llama2-7b on 8 x NVIDIA A100-SXM4-40GB`.
  std::string title;
  std::string planner;
  Plan plan;
  Prediction prediction;
  SearchSummary search;
  // Whether messages between stages block the devices of the runtime
  // (`RuntimeTraits::blocking_pipeline_messages`), and come one after the other
  // (`serial_pipeline_messages`), for the timeline.
  bool blocking_messages = false;
  bool serial_messages = false;
  // One name per layer of the model, first to last; may be shorter than the model.
  std::vector<std::string> layer_names;
  // May be empty.
  std::vector<ReportRival> rivals;
  // The next best plans, best first, and those from the fastest to the one that needs
  // least memory; may be empty.
  std::vector<PlanBeside> alternatives;
  std::vector<PlanBeside> memory_front;
  // Remarks of the planner on its method, one sentence each.
  std::vector<std::string> notes;
  // Identity and provenance: plan name, digests, expiry, signature.
  std::vector<ReportFact> facts;
};

// Renders the page. Every text of `input` is escaped, and shortened where it is too long to read.
// REQUIRES: the plan has stages, and the prediction has `plan.pipeline_parallel_degree()` stages;
// aborts otherwise. REQUIRES, unchecked: the plan has layers; a virtual stage may have none. Pure.
//
// The page stays below 1 MiB however large the plan is; if a chart of stages or a table leaves
// something out, the page says so.
std::string RenderReport(const ReportInput& input);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_REPORT_REPORT_H_
