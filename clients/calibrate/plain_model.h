// The model of a published run where the row says it size by size.

#ifndef PARPLAN_CLIENTS_CALIBRATE_PLAIN_MODEL_H_
#define PARPLAN_CLIENTS_CALIBRATE_PLAIN_MODEL_H_

#include <string>

#include "clients/calibrate/published_run.h"
#include "clients/calibrate/row_fields.h"

namespace parplan::accuracy {

// Reads `fields`, the section `model` of a row, into `run->model`; called by ReadPublishedRuns.
// `architecture` is the text of its member `arch`, empty if it has none. REQUIRES, unchecked: the
// name of `run->model` and the source of `run` are set if the row has them. Values that the row
// leaves out follow from `architecture` and the model's name. A size that none of these gives is a
// fault that `fields` remembers (row_fields.h); features that the planner cannot express are
// appended to `run->beyond`.
void ReadPlainModel(const RowFields& fields, const std::string& architecture, PublishedRun* run);

}  // namespace parplan::accuracy

#endif  // PARPLAN_CLIENTS_CALIBRATE_PLAIN_MODEL_H_
