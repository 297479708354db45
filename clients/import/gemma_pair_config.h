// Reads an encoder and a decoder that are built like Gemma's language models. `ReadModelConfig`
// (model_config.h) calls it.

#ifndef PARPLAN_CLIENTS_IMPORT_GEMMA_PAIR_CONFIG_H_
#define PARPLAN_CLIENTS_IMPORT_GEMMA_PAIR_CONFIG_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "clients/import/config_fields.h"
#include "clients/import/model_facts.h"

namespace parplan {

// Returns whether the family is such a pair: T5Gemma or T5Gemma 2.
bool IsGemmaPair(absl::string_view family);

// Reads the objects `encoder` and `decoder`, each with sizes of its own, all parameters and the
// tied embedding among them. T5Gemma has a table of words for either part, of which the decoder's
// is also that of the head: it becomes an embedding and an untied head. T5Gemma 2 has one table,
// a tower of images that is left out with a note, and decoder layers in which one attention reads
// the tokens of both parts. Model id, precision and optimizer are left to the caller. After an
// error, which `config` remembers, the facts must not be used.
ModelFacts ReadGemmaPair(absl::string_view family, ConfigFields& config,
                         std::vector<std::string>* notes);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_GEMMA_PAIR_CONFIG_H_
