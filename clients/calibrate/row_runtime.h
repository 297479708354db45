// Settings of the runtime in a row of published runs, apart from its name. `ReadPublishedRuns`
// calls these functions for a new run. A member of a wrong type, or a `memory_view` that is
// not known, is a fault of `fields` (row_fields.h) and reads as absent.

#ifndef PARPLAN_CLIENTS_CALIBRATE_ROW_RUNTIME_H_
#define PARPLAN_CLIENTS_CALIBRATE_ROW_RUNTIME_H_

#include "clients/calibrate/published_run.h"
#include "clients/calibrate/row_fields.h"

namespace parplan::accuracy {

// Sets members of `run->runtime` from words of `run->framework` and `run->note`, which must be set
// already. Words of the note count more than those of the framework, and the case of letters does
// not count. Members of the row count more, so it is called before they are read.
void ReadRuntimeWords(PublishedRun* run);

// Sets members of `run->runtime` from members of `fields`. Words for attention kernels that are not
// known leave the default. Called for the section `model` of a row, unless that has Megatron's
// arguments, and then for the row itself, which replaces what `model` says.
void ReadRuntime(const RowFields& fields, PublishedRun* run);

// Reads the list `notes` into `run->runtime`: phrases such as `cuda graphs: full_iteration` of a
// fixed table. The case of letters counts. A text may contain several; texts without any are
// ignored. The list is read up to the first entry that is no text, which is a fault.
void ReadNotes(const RowFields& fields, PublishedRun* run);

// Reads what a row says of its own conditions: `cluster`, `source_ref.repository`, `memory_view`
// and `failed` into `run`; `blocking_launches` and `dropout` (a flag, or a rate, of which only one
// above 0 counts) into `run->runtime`; `peft` into `run->model` (`kind: "lora"` with `rank`, 16 if
// absent: frozen weights and adapters of attention, and with `mlp` in the text `targets` of the
// feed-forward part too). A `peft` without `kind` is ignored. Another kind is added to
// `run->beyond`, the reasons why the run is not predicted. A figure of reserved memory
// (`peak_reserved_gib` and the like), which ReadPublishedRuns may read later, replaces
// `memory_view`.
void ReadConditions(const RowFields& fields, PublishedRun* run);

}  // namespace parplan::accuracy

#endif  // PARPLAN_CLIENTS_CALIBRATE_ROW_RUNTIME_H_
