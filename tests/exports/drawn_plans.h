// Random plans of every program that plans are exported to. The tests of our readers draw them
// (round_trip_test.cc), and exported_plans.cc writes them for the programs' own readers.

#ifndef PARPLAN_TESTS_EXPORTS_DRAWN_PLANS_H_
#define PARPLAN_TESTS_EXPORTS_DRAWN_PLANS_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "exports/exported_files.h"
#include "planner/model/model_spec.h"
#include "planner/model/plan.h"
#include "tests/clients/import/decoder_models.h"

namespace parplan {

// The number of plans of each program that is read back.
inline constexpr int kDrawnPlanCount = 300;

// One program.
struct DrawnProgram {
  // The name of exporter and target.
  std::string program;
  // The runtime for which its plans are predicted.
  std::string runtime_id;
  // Draws a model that the program has, and a plan for it that the program can run.
  DecoderModelOptions (*draw_model)(std::mt19937_64& random);
  Plan (*draw_plan)(std::mt19937_64& random, const ModelSpec& model);
};

// Returns all programs, each target of `AllExporters` once.
std::vector<DrawnProgram> DrawnPrograms();

// Returns the program of that name. Aborts if there is none.
DrawnProgram FindDrawnProgram(absl::string_view program);

struct DrawnPlan {
  DecoderModelOptions options;
  ModelSpec model;
  Plan plan;
};

// Returns plan `seed` of a program; the same for the same seed.
DrawnPlan DrawPlan(const DrawnProgram& program, uint64_t seed);

// Returns the files of a plan for the program, which assume its runtime.
absl::StatusOr<std::vector<ExportedFile>> ExportFor(const DrawnProgram& program, const Plan& plan,
                                                    const ModelSpec& model);

}  // namespace parplan

#endif  // PARPLAN_TESTS_EXPORTS_DRAWN_PLANS_H_
