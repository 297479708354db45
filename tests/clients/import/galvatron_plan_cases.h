// Strategy files of Galvatron, and the models they are plans of.

#ifndef PARPLAN_TESTS_CLIENTS_IMPORT_GALVATRON_PLAN_CASES_H_
#define PARPLAN_TESTS_CLIENTS_IMPORT_GALVATRON_PLAN_CASES_H_

#include <string>

#include "absl/status/statusor.h"
#include "clients/import/galvatron_plan.h"
#include "planner/model/model_spec.h"

namespace parplan {

// Returns a decoder of `layer_count` layers between embedding and head.
ModelSpec DecoderOf(int layer_count);

// Reads the strategy file `text`, named `plan.json`, as a plan of `DecoderOf(layer_count)`.
absl::StatusOr<GalvatronPlanImport> ImportForDecoder(const std::string& text, int layer_count,
                                                     GalvatronPlanOptions options = {
                                                         .device_count = 8});

// A file with every key but those of context parallelism, of 4 layers.
inline constexpr char kTwoStagesPlan[] = R"({
    "pp_deg": 2, "tp_sizes_enc": "2,2,1,4", "tp_consecutive_flags": "1,0,1,1",
    "dp_types_enc": "1,0,0,0", "use_sp": "0,0,0,0", "checkpoint": "1,0,0,0", "global_bsz": 16,
    "chunks": 4, "pp_division": "3,1", "pipeline_type": "gpipe", "default_dp_type": "zero2",
    "vtp": 2, "vsp": 0, "embed_sdp": 1, "world_size": 8})";

// A file of 2 layers: Ulysses in the first, tensor parallelism beside a ring in the second.
inline constexpr char kUlyssesAndRingsPlan[] =
    R"({"pp_deg": 1, "tp_sizes_enc": "4,2", "use_sp": "1,0",
    "dp_types_enc": "1,1", "global_bsz": 8, "chunks": 1, "default_dp_type": "zero2", "vtp": 8,
    "vsp": 1, "cp_sizes_enc": "1,2"})";

}  // namespace parplan

#endif  // PARPLAN_TESTS_CLIENTS_IMPORT_GALVATRON_PLAN_CASES_H_
