// What fuzzers of plans in the files of other programs have in common: a model, and the law that a
// plan which is read, and exported again, reads back equal.
//
//   const auto import = ImportDeepSpeedPlan({"ds.json", text}, FuzzedModel(), options);
//   if (!import.ok()) return 0;
//   RequireRoundTrip(import->plan, ExportDeepSpeedPlan(import->plan, FuzzedModel(), {}),
//                    [](const std::vector<ExportedFile>& files) { return Import...(files[0]); });

#ifndef PARPLAN_TESTS_FUZZ_PLAN_ROUND_TRIP_H_
#define PARPLAN_TESTS_FUZZ_PLAN_ROUND_TRIP_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/import/hugging_face.h"
#include "clients/import/named_text.h"
#include "exports/exported_files.h"
#include "planner/model/model_spec.h"
#include "planner/model/plan.h"
#include "proto/wire/model_wire.h"

namespace parplan {

// Ends the process, which a fuzzer reports with the input, unless `holds`.
inline void Require(bool holds) {
  if (!holds) std::abort();
}

// Returns the bytes of an input behind the first, which chooses a case. REQUIRES: size > 0.
inline std::string TextBehindChoice(const uint8_t* data, size_t size) {
  return std::string(reinterpret_cast<const char*>(data) + 1, size - 1);
}

// Returns a model of four layers, four heads and 16 tokens.
inline const ModelSpec& FuzzedModel() {
  static const ModelSpec* const model = [] {
    const absl::StatusOr<HuggingFaceImport> config = ImportHuggingFace(
        {"config.json",
         R"({"dim": 64, "n_heads": 4, "n_layers": 4, "vocab_size": 100, "n_positions": 16})"},
        ModelFlags());
    Require(config.ok());
    absl::StatusOr<ModelSpec> made = ModelFromProto(config->model);
    Require(made.ok());
    return new ModelSpec(*std::move(made));
  }();
  return *model;
}

// Returns an exported file as one to import.
inline NamedText TextOf(const ExportedFile& file) { return {file.name, file.text}; }

// Requires that `read`, which takes the files and returns a StatusOr of something with a `plan`,
// gives `plan` again. A plan that was refused is left alone.
template <typename Read>
void RequireRoundTrip(const Plan& plan, const absl::StatusOr<std::vector<ExportedFile>>& files,
                      const Read& read) {
  if (!files.ok()) return;
  const auto again = read(*files);
  Require(again.ok() && again->plan == plan);
}

}  // namespace parplan

#endif  // PARPLAN_TESTS_FUZZ_PLAN_ROUND_TRIP_H_
