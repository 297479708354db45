// Settings of the runtime in a row of published runs, apart from its name. `ReadPublishedRuns`
// calls these functions. A member of a wrong type, or a `memory_view` that is not known, is a fault
// of `fields` (row_fields.h); the setting then stays as it was.

#ifndef PARPLAN_CLIENTS_CALIBRATE_ROW_RUNTIME_H_
#define PARPLAN_CLIENTS_CALIBRATE_ROW_RUNTIME_H_

#include "clients/calibrate/published_run.h"
#include "clients/calibrate/row_fields.h"

namespace parplan::accuracy {

// Sets members of `run->runtime` from those of `fields`, and from words of `run->framework` and
// `run->note`, which must be set already. Words for attention kernels that are not known leave the
// default. Called by ReadPublishedRuns for the section `model` of a row, unless that has Megatron's
// arguments, and then for the row itself, whose members count more.
void ReadRuntime(const RowFields& fields, PublishedRun* run);

// Reads the list `notes` into `run->runtime`: phrases such as `cuda graphs: full_iteration` of a
// fixed table. A text may contain several; texts without any are ignored.
void ReadNotes(const RowFields& fields, PublishedRun* run);

// Reads what a row says of its own conditions into `run`: `cluster`, `source_ref.repository`,
// `memory_view`, `blocking_launches`, `dropout`, `peft` (`kind: "lora"` with `rank`, 16 if absent,
// and, if not attention alone, `targets`), `failed`. A `peft` without `kind` is ignored. Another
// kind of `peft` is added to `run->beyond`, the reasons why the run is not predicted.
void ReadConditions(const RowFields& fields, PublishedRun* run);

}  // namespace parplan::accuracy

#endif  // PARPLAN_CLIENTS_CALIBRATE_ROW_RUNTIME_H_
