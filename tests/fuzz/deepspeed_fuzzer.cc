// Configurations of DeepSpeed. The first byte chooses the devices; a plan that is read must be
// exported as a configuration that reads back equal.

#include "clients/import/deepspeed_plan.h"
#include "exports/deepspeed_plan_export.h"
#include "tests/fuzz/plan_round_trip.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const int device_count = 1 << data[0] % 5;
  const auto import =
      parplan::ImportDeepSpeedPlan({"ds.json", parplan::TextBehindChoice(data, size)},
                                   parplan::FuzzedModel(), {.device_count = device_count});
  if (!import.ok()) return 0;
  const auto files =
      parplan::ExportDeepSpeedPlan(import->plan, parplan::FuzzedModel(), parplan::ExportFacts());
  parplan::Require(files.ok());
  parplan::RequireRoundTrip(
      import->plan, files, [device_count](const std::vector<parplan::ExportedFile>& written) {
        return parplan::ImportDeepSpeedPlan(parplan::TextOf(written[0]), parplan::FuzzedModel(),
                                            {.device_count = device_count});
      });
  return 0;
}
