// Reads arguments of Megatron's command line as facts of a run, with that program's defaults for
// absent ones. The reader of published runs (published_run.h) calls it.

#ifndef PARPLAN_CLIENTS_CALIBRATE_MEGATRON_ARGUMENTS_H_
#define PARPLAN_CLIENTS_CALIBRATE_MEGATRON_ARGUMENTS_H_

#include "clients/calibrate/published_run.h"
#include "clients/calibrate/row_fields.h"

namespace parplan::accuracy {

// Sets the values of `run`, whose id is set already, from `arguments` (names without leading
// dashes); called by ReadPublishedRuns for rows whose `model.arch` is `megatron-args`. Faults of
// `arguments` name the argument. Features that this reader does not read, though the planner may
// have them (latent attention, products of 8 bits or fewer, Mamba layers, ...), are appended to
// `run->beyond`, unless their value leaves them off: false, 0, empty, or a window of -1. What the
// row says itself outside `model` is read later and counts more. Precision and batch sizes are read
// too; an absent batch size is 0 (not said), not the program's default.
//
// Model, degrees, sharding and recomputation are read as `planctl import megatron` reads them
// (clients/import/megatron_layers.h, megatron_degrees.h), with that program's defaults; members
// that are no such arguments are ignored, and so are those that the command refuses. It reads the
// features above even if the command refuses or skips them, and also `use-torch-fsdp2` (ZeRO-3),
// the old names `encoder-seq-length` and `use-custom-fsdp`, and what decides the attention kernel
// and the precision of gradients. Experts that are padded to a capacity, and CUDA graphs of whole
// layers or steps, are settings of the runtime. The id may also show features, for example `mamba`,
// or that embedding and loss count as layers. If no argument gives the vocabulary, it is GPT-2's
// 50,257, or 30,522 if the id has `bert`, which also makes the model an encoder; there is dropout
// unless both rates are 0. `num-layers`, `hidden-size`, `num-attention-heads` and `seq-length` must
// be there. After a fault the rest of `run` is not set.
void ReadMegatronArguments(const RowFields& arguments, PublishedRun* run);

}  // namespace parplan::accuracy

#endif  // PARPLAN_CLIENTS_CALIBRATE_MEGATRON_ARGUMENTS_H_
