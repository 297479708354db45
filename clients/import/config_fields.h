// The fields of one object of a `config.json`, which remembers what was read of it. The readers of
// `config.json` and of `ds_config.json` are made of it.

#ifndef PARPLAN_CLIENTS_IMPORT_CONFIG_FIELDS_H_
#define PARPLAN_CLIENTS_IMPORT_CONFIG_FIELDS_H_

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace parplan {

// Reads fields by any of several names and remembers the first error, so that a kind of model reads
// as a list of its fields. A field that is null counts as absent.
//
//   ConfigFields fields(object, "config.json", "");
//   const int width = fields.Size({"hidden_size", "n_embd"});
//   fields.RefuseWhatIsUnknown(&notes);
//   PARPLAN_RETURN_IF_ERROR(fields.status());
//
// After an error reading may go on: the reader then returns what its comment says of an absent
// field, or the least value that it allows. Not thread-safe. REQUIRES, unchecked: `object` is a
// JSON object that outlives the reader; lists of keys are not empty.
class ConfigFields {
 public:
  // `path` is the object's place in the file: empty, or for example `text_config.`.
  ConfigFields(const nlohmann::json& object, absl::string_view file_name, absl::string_view path)
      : object_(object), file_name_(file_name), path_(path) {}

  // Returns whether the field is there and not null. Methods that are const do not count a field as
  // read; the others do.
  bool Has(const char* key) const;

  // Returns whether none of `keys` is in the object, not even as null, by which a file says that
  // there is none.
  bool IsAbsent(std::initializer_list<const char*> keys) const;

  // Returns the first of `keys` that is there, for errors about it; the first of all if none is.
  const char* Given(std::initializer_list<const char*> keys) const;

  // Returns the first of `keys` that is there, a whole number from 1 to kMaxImportCount
  // (named_text.h), or a list that says the same number of every layer. If none is there, the error
  // names the first one; if several are there, they must say the same.
  int Size(std::initializer_list<const char*> keys);
  // The same; `otherwise` if none is there.
  int Optional(std::initializer_list<const char*> keys, int otherwise);
  // The same with 0 allowed.
  int Count(std::initializer_list<const char*> keys, int otherwise);

  // Returns a number of at most 1e12 in magnitude; `otherwise` if it is absent.
  double Number(const char* key, double otherwise);
  // The same for a number above 0.
  double PositiveNumber(const char* key, double otherwise);

  // Returns the list of whole numbers from `minimum` to kMaxImportCount; empty if the field is
  // absent.
  std::vector<int> List(const char* key, int minimum);
  // Returns the list of texts; empty if the field is absent.
  std::vector<std::string> Texts(const char* key);

  // Returns the first of `keys` that is there, true or false; `otherwise` if none is there. If
  // several are there, they must say the same.
  bool Flag(std::initializer_list<const char*> keys, bool otherwise);

  // Returns whether the field is a number below 0, by which some files say that there is none.
  bool IsNegative(const char* key) const;

  // Returns whether the field is there and a list.
  bool IsList(const char* key) const { return Has(key) && object_[key].is_array(); }

  // Returns whether the field is there and a text.
  bool IsText(const char* key) const;

  // Returns the text; empty if the field is absent.
  std::string Text(const char* key);

  // Returns the object, which lives as long as the whole one; null if the field is absent or, after
  // remembering an error, no object.
  const nlohmann::json* Object(const char* key);

  // The same for a list.
  const nlohmann::json* Array(const char* key);

  // Counts the field as read.
  void MarkRead(const char* key) { read_.insert(key); }

  // Counts the field as read. If it is there and neither false, 0 nor empty, remembers an error
  // with `rule`.
  void Refuse(const char* key, absl::string_view rule);

  // Counts the field as read. If it is there and neither false, 0 nor empty, appends a note with
  // its name, its value unless that is a list or object, and `meaning`.
  void Note(const char* key, absl::string_view meaning, std::vector<std::string>* notes);

  // Decides about all fields that were not read. Those that are null, false, 0 or empty, and those
  // known to change neither sizes nor times, are ignored. Those whose names speak of sizes, or
  // whose values are lists or objects, are remembered as one error about the first of them, which
  // names all. The rest is listed in one note. None of them counts as read afterwards.
  void RefuseWhatIsUnknown(std::vector<std::string>* notes);

  // Remembers an error about the first field that was not read and is neither null, false, 0 or
  // empty nor known to change neither sizes nor times, whatever its name speaks of.
  void RefuseAllUnknown();

  // Appends one note, `meaning` and the names, about the fields that were not read and are neither
  // null, false, 0 or empty nor known to change neither sizes nor times; no note if there is none.
  // All fields then count as read.
  void NoteWhatIsUnknown(absl::string_view meaning, std::vector<std::string>* notes);

  // Returns the names of all fields that were not read, in the order of the alphabet.
  std::vector<std::string> Unread() const;

  // Remembers an error about `field` of this object unless there is an earlier one.
  void Fail(absl::string_view field, absl::string_view rule);

  // Remembers the error of an object inside this one, unless there is an earlier one.
  void Take(const ConfigFields& inner) {
    if (status_.ok()) status_ = inner.status_;
  }

  // Returns whether the first error is that a field is absent.
  bool lacks_field() const { return lacks_field_; }

  // Returns the name of the file, for errors that a caller makes itself.
  const std::string& file_name() const { return file_name_; }

  // The first error, INVALID_ARGUMENT (SPEC_INVALID) with file, `path` and field, and rule; OK if
  // there is none.
  const absl::Status& status() const { return status_; }

 private:
  std::optional<int> FirstCount(std::initializer_list<const char*> keys, int minimum);

  const nlohmann::json& object_;
  const std::string file_name_;
  const std::string path_;
  std::set<std::string> read_;
  absl::Status status_;
  bool lacks_field_ = false;
};

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_CONFIG_FIELDS_H_
