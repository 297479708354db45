// Reports of plans that never ran: plain arithmetic instead of a search, so that a test can use any
// number of stages, layers and micro-batches.

#ifndef PARPLAN_TESTS_CLIENTS_REPORT_SAMPLE_REPORTS_H_
#define PARPLAN_TESTS_CLIENTS_REPORT_SAMPLE_REPORTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "clients/report/report.h"

namespace parplan {

struct SampleShape {
  int stage_count = 2;
  int devices_per_stage = 4;  // a power of two
  int layer_count = 34;
  int64_t micro_batch_count = 16;
  // Different strategies, dealt to runs of layers in turn.
  int strategy_count = 2;
  Schedule schedule = Schedule::kOneForwardOneBackward;
  // Above 1 only with the interleaved schedule; divides the stages.
  int virtual_stage_count = 1;
  int device_group_count() const { return stage_count / virtual_stage_count; }
};

// REQUIRES: at least as many layers as stages.
ReportInput SampleReport(const SampleShape& shape);

// Gives the layers of stage `index`, which is neither the first nor the last, to the stage before
// it. No prediction changes.
void MoveLayersOfStage(int index, Plan& plan);

// The five plain strategies, two of which do not fit.
std::vector<ReportRival> SampleRivals();

// So many plans, each slower than the one before, with less memory each and in another
// batch.
std::vector<PlanBeside> SamplePlansBeside(const ReportInput& input, int count);

// A report and the name of the file it is for.
struct NamedReport {
  std::string name;
  ReportInput input;
};

// One of every kind that looks different.
std::vector<NamedReport> ReportGallery();

}  // namespace parplan

#endif  // PARPLAN_TESTS_CLIENTS_REPORT_SAMPLE_REPORTS_H_
