// Shapes of well-known models, for rows that give a name and leave the rest out. `ReadPlainModel`
// calls it.

#ifndef PARPLAN_CLIENTS_CALIBRATE_KNOWN_MODELS_H_
#define PARPLAN_CLIENTS_CALIBRATE_KNOWN_MODELS_H_

#include <string>

#include "clients/calibrate/published_run.h"

namespace parplan::accuracy {

// Sets layers, hidden size, heads (of keys and values too), feed-forward width, vocabulary and
// experts (0 if it has none) of the model with whose name `name` begins (`Llama 3.1 70B`,
// `LLAMA3_70B`: only letters and digits count, in any case) from the configuration that its authors
// published; replaces values that were there. The width of an expert, the length of the sequence
// and the kind of feed-forward part are not among them. Sets nothing if the name is unknown, which
// the caller sees only by the values. `model` is not null.
void FillKnownModel(const std::string& name, PublishedModel* model);

}  // namespace parplan::accuracy

#endif  // PARPLAN_CLIENTS_CALIBRATE_KNOWN_MODELS_H_
