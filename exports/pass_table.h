// The order of passes as the comma-separated table of torch.distributed.pipelining. The exporters
// for PyTorch and torchtitan write it, and their importers (clients/import) check it.
//
// One line for each pipeline rank (all ranks of its stages have that line), one cell for each pass
// in order: the stage, a letter, the micro-batch; ranks, stages and micro-batches count from 0. `F`
// is a forward pass, `B` a whole backward pass, `I` and `W` its halves for inputs and weights.
// `_PipelineScheduleRuntime._load_csv` of torch 2.6 to 2.15 reads it and adds messages, gathering
// of parameters and reduction of gradients by itself; that longer form differs from release to
// release, so it is not written.
//
//   0F0,0F1,0B0,0F2,0B1,0B2
//   1F0,1B0,1F1,1B1,1F2,1B2

#ifndef PARPLAN_EXPORTS_PASS_TABLE_H_
#define PARPLAN_EXPORTS_PASS_TABLE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "planner/model/pass_order.h"
#include "planner/model/plan.h"

namespace parplan {

// Name of the table among exported files.
inline constexpr char kPassTableName[] = "schedule.csv";

// Returns the parameters on which the order of passes of `plan` depends. REQUIRES, unchecked: the
// `virtual_stage_count` of `plan` is not 0.
PipelineShape PipelineShapeOf(const Plan& plan);

// Returns the table of a schedule, each line ended by a line feed. O(passes of all devices).
// REQUIRES: `shape` is one that `PassOrder` takes; aborts otherwise.
std::string FormatPassTable(const PipelineShape& shape);

// Checks that `text` is the table of `shape`; blanks around cells, empty cells, which stand for
// waiting, empty lines and the kind of line ends do not matter. INVALID_ARGUMENT (SPEC_INVALID)
// with `file_name`, and line and cell of the first difference; both count from 1, lines without the
// empty ones, cells with them. A line that ends too early, or that is beyond the devices of the
// pipeline, is named without a cell; if lines are missing at the end, the file is named alone.
// REQUIRES: `shape` as in `FormatPassTable`; aborts otherwise.
absl::Status CheckPassTable(absl::string_view text, absl::string_view file_name,
                            const PipelineShape& shape);

}  // namespace parplan

#endif  // PARPLAN_EXPORTS_PASS_TABLE_H_
