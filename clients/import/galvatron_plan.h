// Reads Galvatron's strategy files (`galvatron_config_*.json`) into plans. `planctl evaluate` and
// `explain` and the oracle study call it.

#ifndef PARPLAN_CLIENTS_IMPORT_GALVATRON_PLAN_H_
#define PARPLAN_CLIENTS_IMPORT_GALVATRON_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/import/named_text.h"
#include "planner/model/model_spec.h"
#include "planner/model/plan.h"

namespace parplan {

// Facts that strategy files leave open, and how to read them.
struct GalvatronPlanOptions {
  // Devices of the job. 0: `world_size` of the file, or else the number in its name
  // (galvatron_names.h). Above 0 it is compared with neither.
  int device_count = 0;
  // Replaces `chunks`, for files whose chunks are not equal; they must have the key all the same.
  // 0 or less: the file's.
  int64_t micro_batch_count = 0;
  // Whether tensor-parallel layers split activations along the sequence; not in
  // the file. Default: yes from v2.4 on (files with `use_sp`), as its releases.
  std::optional<bool> sequence_parallel;
  // Whether Ulysses groups are read as data-parallel ones of the same width: states and activations
  // of a device are equal, the all-to-alls are left out. Meant for profiles without all-to-alls.
  bool ulysses_as_data_parallel = false;
};

// The plan that was read, and what the reader assumed.
struct GalvatronPlanImport {
  Plan plan;
  // Assumptions and keys that were ignored, one sentence per entry.
  std::vector<std::string> notes;
};

// Reads the plan in `file` for `model`, which has an embedding before the file's layers and a head
// after them. Both get the strategy of `vtp`, `vcp`, `vsp` and `embed_sdp` or `vocab_sdp` (absent:
// degree 1) and are never recomputed. Absent keys mean what the releases without them did: without
// `pp_division` the last stage also gets the layers that remain, without `pipeline_type` the
// schedule is 1F1B, and without `default_dp_type` layers that do not shard their parameters shard
// nothing. Keys that are not known are noted and ignored, whatever they say. The tensor degrees of
// experts (`tp_of_ep_sizes_enc`) must be those of their layers; of layers without experts they are
// not read. If they are absent, experts are taken as divided like their layers, and a note says so
// where that makes a difference.
//
// Returns INVALID_ARGUMENT (SPEC_INVALID), for `model.layer_runs` if the model has other ends or no
// layer between them; for `--galvatron-micro-batches` if that option does not divide the batch;
// with file and field if the file is no strategy file, does not fit model or devices, leaves the
// number of devices open, or has no counterpart here: Ulysses together with context parallelism or
// over strided devices, micro-batches of unequal size, experts spread over ranks or divided over
// another number of them than the rest of their layer. Heads, samples of a replica and memory are
// not checked: `CheckPlanStructure` checks whether the plan answers a problem.
absl::StatusOr<GalvatronPlanImport> ImportGalvatronPlan(const NamedText& file,
                                                        const ModelSpec& model,
                                                        const GalvatronPlanOptions& options);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_GALVATRON_PLAN_H_
