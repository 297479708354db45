// The settings of a torchtitan configuration: TOML of releases before 2026, or Python source with a
// `Trainer.Config` (0.3.0), as far as they are literal. `ImportTorchtitanPlan` and
// `ImportTorchtitanModel` read with them.

#ifndef PARPLAN_CLIENTS_IMPORT_TORCHTITAN_SETTINGS_H_
#define PARPLAN_CLIENTS_IMPORT_TORCHTITAN_SETTINGS_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "clients/import/literal_settings.h"
#include "clients/import/named_text.h"

namespace parplan {

// The activation checkpointing that a file chooses.
enum class TorchtitanRecomputation {
  kDefault,  // not said
  kNone,
  kFull,
  kSelective,
};

// Reads settings by `section.name`, and remembers the first fault. Sections are `parallelism`,
// `training` and `model`, whose classes in Python count as them; settings of others are not kept.
// Not thread-safe.
class TorchtitanSettings {
 public:
  // Reads `file`, TOML if its name ends in `.toml` and Python otherwise. `function` names the
  // function of Python that makes the configuration; if it is empty, settings of several functions
  // must agree.
  //
  // INVALID_ARGUMENT (SPEC_INVALID) with file, line and rule for faults of syntax; for TOML with a
  // `function`; for a setting of parallelism or a batch size that is not literal; for settings with
  // two values, where the last one counts if `function` is named; for a recomputation that no plan
  // has, that differs from an earlier one, or that only some runs choose; for a file without
  // any section or class of torchtitan, and an exported module whose end is missing; and, all in
  // one message, for settings of parallelism that are not known.
  static absl::StatusOr<TorchtitanSettings> Read(const NamedText& file, absl::string_view function);

  // Returns whether the setting is there with a literal value, also if it is null.
  bool Has(const std::string& path) const { return values_.count(path) > 0; }
  // Return the value, or `fallback` if it is absent or null, and after remembering a fault if it is
  // of another type. The whole number must be from `minimum` to kMaxImportCount.
  int Count(const std::string& path, int minimum, int fallback);
  std::string Text(const std::string& path, const std::string& fallback);
  bool Flag(const std::string& path, bool fallback);
  // Returns the texts of a list, or the one text; none if the setting is absent, null or an empty
  // text, and after remembering a fault if it is of another type.
  std::vector<std::string> Texts(const std::string& path);
  // Returns the lists of texts; empty if the setting is absent or null, and after remembering a
  // fault if it is no list of such lists.
  std::vector<std::vector<std::string>> TextLists(const std::string& path);

  // The activation checkpointing that the file chooses.
  TorchtitanRecomputation recomputation() const { return recomputation_; }
  // With selective or default checkpointing: n if whole layers are recomputed, every n-th of those
  // that a rank has, and 0 if operators of all layers are. TOML and classes with a mode, which
  // releases before 0.3.0 have, mean every second layer unless `selective_ac_option` says
  // otherwise.
  int recomputed_interval() const { return recomputed_interval_; }
  // Sections, classes and settings of training that are neither read nor known, joined by commas;
  // may be empty.
  const std::string& unknown() const { return unknown_; }

  // Returns INVALID_ARGUMENT (SPEC_INVALID) with file, setting and rule, and does not remember it.
  absl::Status Fault(absl::string_view path, absl::string_view rule) const;
  // The first fault of the readers above; OK if there is none.
  const absl::Status& status() const { return status_; }

 private:
  // Returns the section that a class, the target of an assignment or a variable stands for, or
  // nothing.
  absl::string_view SectionOf(absl::string_view owner) const;
  // Remembers a variable that stands for a section, or that it no longer does.
  void NoteAlias(const LiteralSetting& setting);
  // Refuses a setting of parallelism or of batches whose section is not known.
  absl::Status CheckOwner(const LiteralSetting& setting) const;
  // Refuses degrees outside of [parallelism], where releases of 2024 had them, unless they are 1 or
  // -1.
  absl::Status CheckDegree(const LiteralSetting& setting) const;
  absl::Status Take(const LiteralSetting& setting, bool last_wins);
  // Takes a value that is assigned to a whole section, or to a name that is none.
  absl::Status TakeWhole(const LiteralSetting& setting, bool last_wins);
  absl::Status TakeRecomputation(const LiteralSetting& setting, const std::string& name);
  absl::Status TakeRecomputationChoice(const LiteralSetting& setting);
  absl::Status NoLiteral(int line, absl::string_view path) const;
  absl::Status SetRecomputation(TorchtitanRecomputation value, int line);
  absl::Status CheckParallelismNames() const;
  // Sets `recomputed_interval_`.
  absl::Status SettleSelective(bool is_toml);
  // Remembers whether a section or class of torchtitan was found, also one that is not kept.
  void NoteSection(const LiteralSetting& setting, bool is_toml);
  // Refuses files without settings of torchtitan, and exported modules whose end is cut off.
  absl::Status CheckIsWhole(bool is_export) const;
  const nlohmann::json* Find(const std::string& path) const;
  void Remember(const std::string& path, absl::string_view rule);

  std::string file_name_;
  std::map<std::string, nlohmann::json> values_;
  bool has_section_ = false;
  // First names of all paths in the file.
  std::set<std::string> roots_;
  // Variables of Python that stand for a section: `p` behind `p = config.parallelism`.
  std::map<std::string, std::string> aliases_;
  TorchtitanRecomputation recomputation_ = TorchtitanRecomputation::kDefault;
  // The option of the selective mode and its line; 0 if there is none.
  nlohmann::json selective_option_;
  int selective_option_line_ = 0;
  // Python chooses checkpointing by the class of earlier releases.
  bool has_mode_ = false;
  int recomputed_interval_ = 0;
  std::string unknown_;
  absl::Status status_;
};

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_TORCHTITAN_SETTINGS_H_
