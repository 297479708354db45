// Reads an encoder and the decoder that attends to it from a `config.json`. `ReadModelConfig`
// (model_config.h) calls it.

#ifndef PARPLAN_CLIENTS_IMPORT_ENCODER_DECODER_CONFIG_H_
#define PARPLAN_CLIENTS_IMPORT_ENCODER_DECODER_CONFIG_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "clients/import/config_fields.h"
#include "clients/import/model_facts.h"

namespace parplan {

// Both functions return the run of the encoder, that of the decoder, and the extra parameters of
// the embedding; vocabulary, tied embedding, model id, precision and optimizer are left to the
// caller. After an error, which `config` remembers, the facts must not be used.

// Reads T5 and those built like it, whose positions are biases of scores. Without
// `counts_all_parameters` these biases and the encoder's last norm are left out of the parameters,
// as Galvatron wants it. `family` is the `model_type`. Without a note an absent number of decoder
// layers is that of the encoder's, and absent buckets of positions are 32; an absent length of the
// sequence is 0.
ModelFacts ReadT5(absl::string_view family, bool counts_all_parameters, ConfigFields& config);

// Reads encoder and decoder with sizes of their own: Whisper, BART and those built like them, with
// all of their parameters. Absent lengths of their sequences (`max_source_positions`,
// `max_target_positions`) are those of `max_position_embeddings`, or else 1024 tokens, but with
// `num_mel_bins` always 1500 and 448, without a note. Parts that are not priced are named in
// `notes`.
ModelFacts ReadEncoderAndDecoder(absl::string_view family, ConfigFields& config,
                                 std::vector<std::string>* notes);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_ENCODER_DECODER_CONFIG_H_
