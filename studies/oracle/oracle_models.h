// Sizes of the models that cases of Galvatron's search engine name. `ReadOracleCase` calls it.

#ifndef PARPLAN_STUDIES_ORACLE_ORACLE_MODELS_H_
#define PARPLAN_STUDIES_ORACLE_ORACLE_MODELS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "clients/import/galvatron_memory.h"
#include "clients/import/named_text.h"

namespace parplan {

// Consecutive equal layers of a case.
struct OracleLayerRun {
  int hidden_size = 0;
  int sequence_length = 0;
  int layer_count = 0;
};

// Returns a model config (model_config.h) for the model called `name`, whose case and whose ending
// `-asprofiled` do not matter: the published one, if the public profiles have such a model and it
// has the widths of `runs`. Otherwise one with the width of the first run whose layers have as many
// parameters as were measured: heads of 128 (or 64), the gated feed-forward part and the vocabulary
// follow from `memory`, and a sentence appended to `notes` says so. Times and memory are measured,
// so sizes only decide which degrees divide heads and how many bytes are moved. REQUIRES: at least
// one run, which is not checked, and `notes` is not null.
NamedText OracleModelConfig(absl::string_view name, absl::Span<const OracleLayerRun> runs,
                            const GalvatronMemory& memory, std::vector<std::string>* notes);

}  // namespace parplan

#endif  // PARPLAN_STUDIES_ORACLE_ORACLE_MODELS_H_
