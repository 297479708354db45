// Reads the feed-forward part of a layer from a `config.json`: its width, and whether it has a
// gate. Errors are left in `fields` (config_fields.h), whose caller asks for them.
// `ReadTransformer` (transformer_config.h) calls it, and `MegatronFeedForwardSize`
// (megatron_layers.h) calls `FourTimes`.

#ifndef PARPLAN_CLIENTS_IMPORT_FEED_FORWARD_CONFIG_H_
#define PARPLAN_CLIENTS_IMPORT_FEED_FORWARD_CONFIG_H_

#include <string>
#include <vector>

#include "clients/import/config_fields.h"
#include "clients/import/family_traits.h"

namespace parplan {

// Returns whether the feed-forward part has three matrices: a field says so, or the family.
bool ReadGate(const FamilyTraits& traits, ConfigFields& fields);

// Returns the width of the feed-forward part. If no field gives it, it follows Llama's rule in
// families with a gate, which is appended to `notes`, and is four times `hidden_size` in families
// without (MPT: `expansion_ratio` times). With `block_auto_adjust_ff_dim` Llama's rule changes the
// given width. The family alone says here whether there is a gate. At most kMaxImportCount.
int ReadFeedForwardSize(const FamilyTraits& traits, ConfigFields& fields, int hidden_size,
                        std::vector<std::string>* notes);

// Returns four times `hidden_size`, at most kMaxImportCount.
int FourTimes(int hidden_size);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_FEED_FORWARD_CONFIG_H_
