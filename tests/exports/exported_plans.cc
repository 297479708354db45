// Writes the random plans of round_trip_test.cc as the files of their programs, for the programs'
// own readers (tests/frameworks):
//
//   exported_plans FOLDER
//
//   FOLDER/PROGRAM/SEED/plan.json     the plan, as PlanPayload, without a prediction
//   FOLDER/PROGRAM/SEED/model.json    its model
//   FOLDER/PROGRAM/SEED/FILE          what `planctl export --to PROGRAM` writes

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "exports/exported_files.h"
#include "parplan/v1/plan.pb.h"
#include "planner/model/plan.h"
#include "proto/wire/json_file.h"
#include "proto/wire/model_wire.h"
#include "proto/wire/plan_wire.h"
#include "tests/exports/drawn_plans.h"

namespace parplan {
namespace {

void WriteText(const std::filesystem::path& path, absl::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  PARPLAN_CHECK(file.good());
}

v1::PlanPayload PayloadOf(const Plan& plan, const ModelSpec& model) {
  v1::PlanPayload payload;
  FillPayload(plan, Prediction(), SearchSummary(), model, &payload);
  payload.clear_prediction();
  payload.clear_search();
  return payload;
}

void WritePlans(const std::filesystem::path& folder) {
  for (const DrawnProgram& program : DrawnPrograms()) {
    for (uint64_t seed = 1; seed <= kDrawnPlanCount; ++seed) {
      const DrawnPlan drawn = DrawPlan(program, seed);
      const absl::StatusOr<std::vector<ExportedFile>> files =
          ExportFor(program, drawn.plan, drawn.model);
      PARPLAN_CHECK(files.ok());
      const std::filesystem::path own = folder / program.program / std::to_string(seed);
      std::filesystem::create_directories(own);
      WriteText(own / "plan.json", ToReadableJson(PayloadOf(drawn.plan, drawn.model)));
      WriteText(own / "model.json", ToReadableJson(ModelToProto(drawn.model)));
      for (const ExportedFile& file : *files) WriteText(own / file.name, file.text);
    }
  }
}

}  // namespace
}  // namespace parplan

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: exported_plans FOLDER\n");
    return 2;
  }
  parplan::WritePlans(argv[1]);
  return 0;
}
