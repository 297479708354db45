// Comparisons for people and programs.

#include <algorithm>
#include <cmath>
#include <optional>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "studies/oracle/oracle_comparison.h"

namespace parplan::oracle {
namespace {

using nlohmann::ordered_json;

double Mebibytes(Bytes bytes) { return bytes.as_double() / (1 << 20); }

double Percent(double after, double before) { return 100.0 * (after / before - 1.0); }

// Returns the speed-up of our plan over the engine's, both under our model.
std::optional<double> SpeedUp(const OracleComparison& comparison, const OurVerdict& ours) {
  if (!ours.found.has_value() || !comparison.engine.has_value() ||
      !comparison.engine->prediction.has_value()) {
    return std::nullopt;
  }
  return ours.found->prediction.samples_per_second /
         comparison.engine->prediction->samples_per_second;
}

std::string OursText(const OracleComparison& comparison, const OurVerdict& ours) {
  std::string text = absl::StrFormat("  ours, %s: ", ours.what);
  if (!ours.found.has_value()) return absl::StrCat(text, ours.error, "\n");
  const PlanFound& found = *ours.found;
  absl::StrAppendFormat(&text, "%.4f s, %.2f samples/s", found.prediction.step.value(),
                        found.prediction.samples_per_second);
  if (const std::optional<double> ratio = SpeedUp(comparison, ours); ratio.has_value()) {
    absl::StrAppendFormat(&text, " (%+.1f %%)", 100.0 * (*ratio - 1.0));
  }
  absl::StrAppendFormat(
      &text, ", at most %.0f of %.0f MiB, found in %.1f ms, %s",
      Mebibytes(found.prediction.peak_memory_upper), Mebibytes(ours.usable_memory),
      1e3 * ours.search_seconds,
      found.search.termination == Termination::kOptimal
          ? std::string("proved best")
          : absl::StrFormat("gap at most %.2f %%", 100.0 * found.search.gap_ratio));
  if (comparison.engine_search_time.has_value() && ours.search_seconds > 0.0) {
    absl::StrAppendFormat(&text, ", %.0f times as fast as the engine",
                          comparison.engine_search_time->value() / ours.search_seconds);
  }
  if (!ours.error.empty()) absl::StrAppend(&text, "; the check refuses it: ", ours.error);
  return absl::StrCat(text, "\n    ", PlanGist(found.plan).substr(0, 400), "; ",
                      found.plan.micro_batch_count, " micro-batches\n");
}

std::string CaseText(const OracleComparison& comparison) {
  std::string text =
      absl::StrFormat("%s: %s on %d devices of %.0f MiB\n", comparison.id, comparison.model_id,
                      comparison.device_count, Mebibytes(comparison.usable_memory));
  if (!comparison.engine.has_value()) {
    absl::StrAppend(&text, "  the engine has no plan", comparison.engine_error.empty() ? "" : ": ",
                    comparison.engine_error, "\n");
  } else {
    const EngineVerdict& engine = *comparison.engine;
    absl::StrAppendFormat(&text, "  the engine's: %.4f s it says, %.4f s simulated, %.0f MiB",
                          engine.said.value(), engine.simulated.value(), engine.own_megabytes);
    if (comparison.engine_search_time.has_value()) {
      absl::StrAppendFormat(&text, ", found in %.1f CPU-s", comparison.engine_search_time->value());
    }
    absl::StrAppend(&text, "\n    ", engine.gist.substr(0, 400), "\n");
    if (!engine.invalid.empty()) {
      absl::StrAppend(&text, "    no plan of ours: ", engine.invalid, "\n");
    }
    if (engine.prediction.has_value()) {
      const Prediction& prediction = *engine.prediction;
      absl::StrAppendFormat(
          &text, "    under our model: %.4f s (%+.1f %%), %.0f MiB, at most %.0f: %s\n",
          prediction.step.value(), Percent(prediction.step.value(), engine.said.value()),
          Mebibytes(prediction.peak_memory), Mebibytes(prediction.peak_memory_upper),
          prediction.fits() ? "fits" : "does not fit");
      for (const Difference& difference : engine.differences) {
        if (std::abs(difference.time / prediction.step) < 5e-5) continue;
        absl::StrAppendFormat(&text, "      %+9.4f s  %s\n", difference.time.value(),
                              difference.what);
      }
    }
    if (engine.better_in_own_numbers.has_value()) {
      absl::StrAppendFormat(
          &text, "    better in its own numbers: %.4f s (%+.1f %%)\n      %s\n",
          engine.better_in_own_numbers->value(),
          Percent(engine.simulated.value(), engine.better_in_own_numbers->value()),
          engine.better_gist.substr(0, 400));
    }
  }
  absl::StrAppend(&text, OursText(comparison, comparison.same_space));
  if (comparison.same_memory.has_value()) {
    absl::StrAppend(&text, OursText(comparison, *comparison.same_memory));
  }
  if (comparison.whole_space.has_value()) {
    absl::StrAppend(&text, OursText(comparison, *comparison.whole_space));
  }
  return absl::StrCat(text, "\n");
}

ordered_json OursJson(const OracleComparison& comparison, const OurVerdict& ours) {
  ordered_json json;
  json["search_seconds"] = ours.search_seconds;
  json["usable_memory_bytes"] = ours.usable_memory.count();
  if (!ours.error.empty()) json["error"] = ours.error;
  if (!ours.found.has_value()) return json;
  const PlanFound& found = *ours.found;
  json["step_seconds"] = found.prediction.step.value();
  json["samples_per_second"] = found.prediction.samples_per_second;
  json["peak_memory_upper_bytes"] = found.prediction.peak_memory_upper.count();
  json["is_optimal"] = found.search.termination == Termination::kOptimal;
  json["gap_ratio"] = found.search.gap_ratio;
  if (const std::optional<double> ratio = SpeedUp(comparison, ours)) json["speed_up"] = *ratio;
  json["gist"] = PlanGist(found.plan);
  json["micro_batch_count"] = found.plan.micro_batch_count;
  return json;
}

ordered_json CaseJson(const OracleComparison& comparison) {
  ordered_json json;
  json["id"] = comparison.id;
  json["model"] = comparison.model_id;
  json["device_count"] = comparison.device_count;
  json["usable_memory_bytes"] = comparison.usable_memory.count();
  if (comparison.engine.has_value()) {
    const EngineVerdict& engine = *comparison.engine;
    ordered_json& entry = json["engine"];
    entry["gist"] = engine.gist;
    entry["said_step_seconds"] = engine.said.value();
    entry["simulated_step_seconds"] = engine.simulated.value();
    entry["own_memory_mebibytes"] = engine.own_megabytes;
    if (comparison.engine_search_time.has_value()) {
      entry["search_cpu_seconds"] = comparison.engine_search_time->value();
    }
    if (!engine.invalid.empty()) entry["invalid"] = engine.invalid;
    if (engine.prediction.has_value()) {
      entry["step_seconds"] = engine.prediction->step.value();
      entry["samples_per_second"] = engine.prediction->samples_per_second;
      entry["peak_memory_bytes"] = engine.prediction->peak_memory.count();
      entry["peak_memory_upper_bytes"] = engine.prediction->peak_memory_upper.count();
      entry["fits"] = engine.prediction->fits();
      for (const Difference& difference : engine.differences) {
        entry["differences"].push_back(
            {{"what", difference.what}, {"seconds", difference.time.value()}});
      }
    }
    if (engine.better_in_own_numbers.has_value()) {
      entry["better_in_own_numbers_seconds"] = engine.better_in_own_numbers->value();
      entry["better_in_own_numbers_gist"] = engine.better_gist;
    }
  } else {
    json["engine_error"] = comparison.engine_error;
  }
  json["same_space"] = OursJson(comparison, comparison.same_space);
  if (comparison.whole_space.has_value()) {
    json["whole_space"] = OursJson(comparison, *comparison.whole_space);
  }
  if (comparison.same_memory.has_value()) {
    json["same_memory"] = OursJson(comparison, *comparison.same_memory);
  }
  return json;
}

}  // namespace

std::string ComparisonsText(const std::vector<OracleComparison>& comparisons) {
  std::string text;
  for (const OracleComparison& comparison : comparisons) {
    absl::StrAppend(&text, CaseText(comparison));
  }
  return text;
}

std::string ComparisonsJson(const std::vector<OracleComparison>& comparisons) {
  ordered_json json;
  json["cases"] = ordered_json::array();
  for (const OracleComparison& comparison : comparisons) {
    json["cases"].push_back(CaseJson(comparison));
  }
  return json.dump(2) + "\n";
}

}  // namespace parplan::oracle
