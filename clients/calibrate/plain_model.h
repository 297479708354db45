// The model of a published run where the row says it size by size.

#ifndef PARPLAN_CLIENTS_CALIBRATE_PLAIN_MODEL_H_
#define PARPLAN_CLIENTS_CALIBRATE_PLAIN_MODEL_H_

#include <string>

#include "clients/calibrate/published_run.h"
#include "clients/calibrate/row_fields.h"

namespace parplan::accuracy {

// Reads `fields`, the section `model` of a row, into `run->model`; called by ReadPublishedRuns.
// `architecture` is the text of its member `arch`, empty if it has none. REQUIRES, unchecked: the
// name of `run->model` and the source of `run` are set if the row has them.
//
// Values that the row leaves out follow from `architecture` and the model's name, else are the
// usual ones, also where both are unknown: decoder layers with GELU, a tied head and no learned
// positions; with GELU 4 times the hidden size, experts as wide as the feed-forward part, as many
// key and value heads as heads, no other part. A size that has no such value, for example `layers`,
// or `ffn` of a SwiGLU model, is a fault that `fields` remembers (row_fields.h), and the reading
// goes on. Features that the planner cannot express are appended to `run->beyond`, for which
// ReadPublishedRuns skips the row. If `architecture` and the name have words of several families
// (`nemotron`, `moe`), the word that stands first counts, `architecture` before the name. Models of
// sources that begin with `bigscience` have no learned positions, unless the row says so.
//
// A model is a hybrid if `architecture` or its name contains `mamba`, `hybrid`, `nemotron-h` or
// `nemotron_h`, in any case. The letters of its `layer_pattern` count more than `layers`: `M`, `*`,
// `E` and `-` (`PublishedModel::layer_pattern`); another letter is a fault. That it lacks a
// pattern, or the `mtp_pattern` of layers that predict further tokens, is appended to `run->beyond`
// too. `layer_pattern` is not read of other models.
void ReadPlainModel(const RowFields& fields, const std::string& architecture, PublishedRun* run);

}  // namespace parplan::accuracy

#endif  // PARPLAN_CLIENTS_CALIBRATE_PLAIN_MODEL_H_
