// Settings of Accelerate, variables or YAML. The first byte chooses the devices; a plan that is
// read must be exported as variables that read back equal.

#include "clients/import/accelerate_plan.h"
#include "exports/accelerate_plan_export.h"
#include "tests/fuzz/plan_round_trip.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const int device_count = 1 << data[0] % 5;
  // Some texts have the sizes of batches themselves.
  const int micro = data[0] / 5 % 2 == 0 ? 2 : 0;
  const auto import = parplan::ImportAcceleratePlan(
      {"settings", parplan::TextBehindChoice(data, size)}, parplan::FuzzedModel(),
      {.device_count = device_count, .micro_batch_size = micro});
  if (!import.ok()) return 0;
  const auto files =
      parplan::ExportAcceleratePlan(import->plan, parplan::FuzzedModel(), parplan::ExportFacts());
  parplan::Require(files.ok());
  parplan::RequireRoundTrip(
      import->plan, files, [device_count](const std::vector<parplan::ExportedFile>& written) {
        return parplan::ImportAcceleratePlan(parplan::TextOf(written[0]), parplan::FuzzedModel(),
                                             {.device_count = device_count});
      });
  return 0;
}
