#include "tests/studies/oracle/oracle_files.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include <gtest/gtest.h>

#include "base/check.h"
#include "tests/support/shared_data.h"

namespace parplan::oracle {

std::optional<std::string> OracleFolder() {
  const std::optional<std::string> data = SharedDataDir();
  if (!data.has_value()) return std::nullopt;
  return *data + "/galvatron_oracle/";
}

std::string OracleText(const std::string& path) {
  std::ifstream file(path);
  PARPLAN_CHECK(file.good());
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<OracleCase> AllOracleCases(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder + "cases")) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  std::vector<OracleCase> cases;
  for (const std::string& name : names) {
    absl::StatusOr<OracleCase> oracle =
        ReadOracleCase({name, OracleText(folder + "cases/" + name)},
                       [&folder](const std::string& path) { return OracleText(folder + path); });
    if (oracle.ok()) {
      cases.push_back(*std::move(oracle));
    } else {
      ADD_FAILURE() << name << ": " << oracle.status();
    }
  }
  return cases;
}

nlohmann::json MadeUpCase() {
  return nlohmann::json::parse(R"({
    "id": "made-up",
    "input": {
      "model": {"name": "nobodys-1b", "layers": [{"hidden_size": 256, "seq_len": 128,
                                                  "layer_num": 4}]},
      "profiles": {"time": "time", "memory": "memory", "time_profile_mode": "static",
                   "memory_profile_mode": "static"},
      "hardware": {"num_nodes": 1, "gpus_per_node": 4, "allreduce": "allreduce", "p2p": "p2p",
                   "overlap": "overlap"},
      "memory_gb": 1.5,
      "batch": {"min_bsz": 4, "max_bsz": 21, "bsz_scale": 8},
      "search_space": {"disable_tp": 1, "max_pp_deg": 2},
      "flags": {"pipeline_type": "gpipe", "sequence_parallel": false}
    },
    "plan": null,
    "error": "No valid configuration found."})");
}

absl::StatusOr<std::string> MadeUpFile(const std::string& path) {
  if (path == "time") {
    return R"({"layertype_0_bsz8_seq128": 0.5, "layertype_other_bsz8_seq128": 0.25})";
  }
  if (path == "memory") {
    const std::string other =
        R"({"128": {"model_states": {"1": 16.0, "2": 8.0}, "activation": {"1": 2.0, "2": 1.0}}})";
    return R"({"layertype_0": {"128": {"parameter_size": 2.5, "tp_activation_per_bsz_dict":
               {"1": 4.0, "2": 2.0, "checkpoint": 0.0625}}}, "other_memory_pp_off": )" +
           other + R"(, "other_memory_pp_on_first": )" + other +
           R"(, "other_memory_pp_on_last": )" + other + "}";
  }
  if (path == "allreduce") {
    return R"({"allreduce_size_4_consec_1": 100, "allreduce_size_2_consec_1": 90,
               "allreduce_size_2_consec_0": 80})";
  }
  if (path == "p2p") return R"({"pp_size_2": 100, "pp_size_4": 90})";
  if (path == "overlap") return R"({"overlap_coe": 1.125})";
  return absl::NotFoundError(path);
}

}  // namespace parplan::oracle
