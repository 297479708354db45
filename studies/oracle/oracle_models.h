// Sizes of the models that cases of Galvatron's search engine name.

#ifndef PARPLAN_STUDIES_ORACLE_ORACLE_MODELS_H_
#define PARPLAN_STUDIES_ORACLE_ORACLE_MODELS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "clients/import/galvatron_memory.h"
#include "clients/import/named_text.h"

namespace parplan {

// Equal layers of a case.
struct OracleLayerRun {
  int hidden_size = 0;
  int sequence_length = 0;
  int layer_count = 0;
};

// A model config (model_config.h) for the model called `name`: as published, where it is
// one of those the public profiles are of and has the widths of `runs`. For another, one
// whose layers have as many parameters as were measured: heads of 128 (or 64), the gated
// feed-forward part and the vocabulary from `memory`; `notes` says so. Times and memory
// are measured, so sizes matter for which degrees divide heads and for what is moved.
NamedText OracleModelConfig(absl::string_view name, absl::Span<const OracleLayerRun> runs,
                            const GalvatronMemory& memory, std::vector<std::string>* notes);

}  // namespace parplan

#endif  // PARPLAN_STUDIES_ORACLE_ORACLE_MODELS_H_
