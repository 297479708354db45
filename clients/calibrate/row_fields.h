// Reads members of a row of published runs (published_run.h) by any of their names. The readers of
// a row in this folder share it.

#ifndef PARPLAN_CLIENTS_CALIBRATE_ROW_FIELDS_H_
#define PARPLAN_CLIENTS_CALIBRATE_ROW_FIELDS_H_

#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"

namespace parplan::accuracy {

// The first fault that was found in a row. Its text is a sentence about a member, empty if there is
// none.
class RowFault {
 public:
  // Remembers `fault`, a sentence, unless there is one already.
  void Add(const std::string& fault) {
    if (fault_.empty()) fault_ = fault;
  }
  const std::string& text() const { return fault_; }
  // Returns whether no fault was found.
  bool ok() const { return fault_.empty(); }

 private:
  std::string fault_;
};

// Reads one object of a row. Null and absent are the same. If several names are given, the first
// that is present counts. A member of a wrong type or out of range is a fault and reads as absent:
// readers go on, and the caller looks at the fault at the end. Not thread-safe.
class RowFields {
 public:
  using Names = std::initializer_list<const char*>;

  // `prefix` is put before names in faults, for example `model.`. `object` may be null. `fault` is
  // not null. REQUIRES, unchecked: `object` and `fault` outlive the reader and those of its
  // sections.
  RowFields(const nlohmann::json* object, std::string prefix, RowFault* fault)
      : object_(object), prefix_(std::move(prefix)), fault_(fault) {}

  // Returns a reader of the object of that name; every member of an absent object is absent, and so
  // is every member of a value that is no object, which is a fault.
  RowFields Section(const char* name) const;

  // Returns whether one of the members is there, also if it has a wrong type.
  bool Has(Names names) const { return Find(names, nullptr) != nullptr; }
  // `Count` and the four functions below it return the value, or nothing if the member is absent or
  // at fault. `Count` reads a whole number from `minimum` to 2^24; 8.0 is one, "8" is none.
  std::optional<int> Count(Names names, int minimum) const;
  // Reads a finite number above 0.
  std::optional<double> Number(Names names) const;
  // Reads a text.
  std::optional<std::string> Text(Names names) const;
  // Reads `true` or `false`.
  std::optional<bool> Flag(Names names) const;
  // Reads a list, not empty, of such numbers as `Count` reads.
  std::optional<std::vector<int>> Counts(Names names, int minimum) const;
  // Returns the member unread, for members of several types; null if absent. It lives as long as
  // the object.
  const nlohmann::json* Any(Names names) const { return Find(names, nullptr); }

  // Does the same as `Count` with minimum 1, and adds a fault, which names the first of `names`, if
  // the member is absent; 0 after a fault. REQUIRES, unchecked: `names` is not empty.
  int RequiredCount(Names names) const;
  // Adds the fault `<prefix><name> <rule>`, unless there is one already.
  void Fault(const char* name, const std::string& rule) const {
    fault_->Add(prefix_ + name + " " + rule);
  }
  // Adds the message of an error, which names the member.
  void Fault(const absl::Status& error) const { fault_->Add(std::string(error.message())); }

 private:
  const nlohmann::json* Find(Names names, const char** found) const;

  const nlohmann::json* object_;
  std::string prefix_;
  RowFault* fault_;
};

}  // namespace parplan::accuracy

#endif  // PARPLAN_CLIENTS_CALIBRATE_ROW_FIELDS_H_
