// The language model in the `config.json` of a model of several parts. `ReadModelConfig`
// (model_config.h) calls it.

#ifndef PARPLAN_CLIENTS_IMPORT_SEVERAL_PARTS_H_
#define PARPLAN_CLIENTS_IMPORT_SEVERAL_PARTS_H_

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "clients/import/config_fields.h"

namespace parplan {

// The fields of the language model, with those that the whole model or the family fills in, and the
// place of its object in the whole model: for example `text_config.`.
struct LanguagePart {
  nlohmann::json fields;
  std::string path;
};

// Returns the language model inside `whole`: the first that is not empty of its objects
// `text_config`, `llm_config`, `language_config` and `thinker_config`; nothing if it has none of
// them. The vocabulary, the hidden size, the tied embedding, the architecture and the model type of
// the whole model hold where the language model is silent, and the sizes of its family, if that is
// known, where both are: such files hold only what differs from them. Names the other parts, the
// defaults and the fields of the whole model that are not read in `notes`. `config` is the reader
// of `whole`: it remembers an error, for example a part that is no object, and counts the fields as
// read, those about towers also if there is no language model inside.
std::optional<LanguagePart> FindLanguagePart(const nlohmann::json& whole, ConfigFields& config,
                                             std::vector<std::string>* notes);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_SEVERAL_PARTS_H_
