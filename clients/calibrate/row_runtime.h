// Settings of the runtime in a row of published runs, apart from its name.

#ifndef PARPLAN_CLIENTS_CALIBRATE_ROW_RUNTIME_H_
#define PARPLAN_CLIENTS_CALIBRATE_ROW_RUNTIME_H_

#include "clients/calibrate/published_run.h"
#include "clients/calibrate/row_fields.h"

namespace parplan::accuracy {

// Reads the members of `fields` that set `run->runtime`, words of the framework and of the note
// among them, whose texts are set already; called by ReadPublishedRuns for a row and for its
// section `model`.
void ReadRuntime(const RowFields& fields, PublishedRun* run);

// Reads the list `notes`: phrases such as `cuda graphs: full_iteration` of a fixed table. Phrases
// that are not in it are ignored.
void ReadNotes(const RowFields& fields, PublishedRun* run);

// Reads what a row says of its own conditions: `cluster`, `memory_view`, `blocking_launches`,
// `dropout`, `peft` (`kind: "lora"` with `rank` and, if not attention alone, `targets`), `failed`.
void ReadConditions(const RowFields& fields, PublishedRun* run);

}  // namespace parplan::accuracy

#endif  // PARPLAN_CLIENTS_CALIBRATE_ROW_RUNTIME_H_
