// Reads one JSON object of a configuration of DeepSpeed and remembers which keys were read.
// `ImportDeepSpeedPlan` uses one reader for each object.

#ifndef PARPLAN_CLIENTS_IMPORT_DEEPSPEED_SECTION_H_
#define PARPLAN_CLIENTS_IMPORT_DEEPSPEED_SECTION_H_

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/string_view.h"
#include "clients/import/config_fields.h"

namespace parplan {

// The reader of one object. After an error it goes on reading; `fields().status()` is the first
// error. Not thread-safe.
class DeepSpeedSection {
 public:
  // `key` is the object's key in the file; empty for the object that is the whole file. A null
  // `object` counts as an object without keys; any other object must outlive this reader.
  DeepSpeedSection(const nlohmann::json* object, absl::string_view file_name, std::string key);

  // The reader of the object's values; errors name `KEY.FIELD`.
  ConfigFields& fields() { return fields_; }
  // Returns whether the key is there and not null. The key does not count as read afterwards, here
  // and in the next two.
  bool Has(const char* key) const { return fields_.Has(key); }
  // Returns whether the value is there and `auto`, which a trainer fills in.
  bool IsAuto(const char* key) const;
  // Returns whether the value is there and is the boolean `value`.
  bool Is(const char* key, bool value) const;
  // Returns the whole number of at least `minimum`, which is 0 or 1, or nothing if the key is
  // absent or null. Remembers an error for `auto` and any other value, and then returns a result
  // without meaning.
  std::optional<int> Number(const char* key, int minimum);
  // Appends the keys that were not read, also keys whose value is null, each with its path in the
  // file. Keys that are known to change neither the shape of the model nor how it is divided over
  // ranks go to `ignored`, and so do keys that begin with `_`, which are comments; all others go to
  // `unknown`.
  void Sort(std::vector<std::string>* ignored, std::vector<std::string>* unknown) const;

 private:
  const nlohmann::json& object_;
  const std::string key_;
  ConfigFields fields_;
};

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_DEEPSPEED_SECTION_H_
