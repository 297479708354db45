// One object of a configuration of DeepSpeed, and what was read of it. `ImportDeepSpeedPlan` reads
// with it.

#ifndef PARPLAN_CLIENTS_IMPORT_DEEPSPEED_SECTION_H_
#define PARPLAN_CLIENTS_IMPORT_DEEPSPEED_SECTION_H_

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/string_view.h"
#include "clients/import/config_fields.h"

namespace parplan {

// The reader of one object. It remembers the first error (`fields().status()`) and goes on, and
// sorts the keys that were not read. Not thread-safe.
class DeepSpeedSection {
 public:
  // `key` names the object in the file; empty for the file itself. A null `object` is one without
  // keys; any other must outlive this.
  DeepSpeedSection(const nlohmann::json* object, absl::string_view file_name, std::string key);

  // The reader of the object's values; errors name `KEY.FIELD`.
  ConfigFields& fields() { return fields_; }
  // Returns whether the key is there and not null. Does not count as reading.
  bool Has(const char* key) const { return fields_.Has(key); }
  // Returns whether the value is there and `auto`, which a trainer fills in. Does not count as
  // reading.
  bool IsAuto(const char* key) const;
  // Returns whether the value is there and is this truth value. Does not count as reading.
  bool Is(const char* key, bool value) const;
  // Returns the whole number of at least `minimum`, which is 0 or 1, or nothing if the key is
  // absent or null. Another value and `auto` are errors, after which the result means nothing.
  std::optional<int> Number(const char* key, int minimum);
  // Appends the keys that were not read, those that are null too, with the path in the file: to
  // `ignored` those that change neither the shape of the model nor how it is divided over ranks, to
  // `unknown` the others.
  void Sort(std::vector<std::string>* ignored, std::vector<std::string>* unknown) const;

 private:
  const nlohmann::json& object_;
  const std::string key_;
  ConfigFields fields_;
};

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_DEEPSPEED_SECTION_H_
