// Names of fields of a `config.json`, and what they say about fields that no reader knows.
// `ConfigFields` (config_fields.h) asks it.

#ifndef PARPLAN_CLIENTS_IMPORT_FIELD_NAMES_H_
#define PARPLAN_CLIENTS_IMPORT_FIELD_NAMES_H_

#include "absl/strings/string_view.h"

namespace parplan {

// Returns whether the field is known, by its whole name or its beginning or ending, to change
// neither the shape of a layer nor its time: generation, tokens, initial values, dropout, positions
// without parameters, scales, losses, how files were saved, and names that begin with `_`.
// `_factor`, `_rate` and the like at the end of a name count only if the name does not speak of
// sizes.
bool FieldHasNoEffect(absl::string_view key);

// Returns whether a word of the name, between underscores, speaks of sizes or of another structure.
// A field without effect may do so too, so callers ask `FieldHasNoEffect` first.
bool FieldSpeaksOfSizes(absl::string_view key);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_FIELD_NAMES_H_
