// Selects the runs of a file that are fitted by a reproducible rule, so that the other runs can
// test the fit. `planctl calibrate` reads `--time-slice` and `--memory-slice` with it.

#ifndef PARPLAN_CLIENTS_CALIBRATE_RUN_SLICE_H_
#define PARPLAN_CLIENTS_CALIBRATE_RUN_SLICE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace parplan::planctl {

// A set of runs. `SOURCE: sha256(id) % MODULUS == REMAINDER` has the runs of one source whose id,
// hashed and read as a number of 256 bits, leaves that remainder; `SOURCE: all` has every run of
// the source, `none` has no run.
class RunSlice {
 public:
  // MODULUS is 2 to 1000, REMAINDER below it. Returns INVALID_ARGUMENT (SPEC_INVALID) with `field`
  // and the forms above for other texts.
  static absl::StatusOr<RunSlice> Parse(absl::string_view text, absl::string_view field);

  bool Holds(absl::string_view source, absl::string_view id) const;

  // Returns the rule, for example `sha256(id) % 5 == 0`; empty for `all` and `none`.
  const std::string& rule() const { return rule_; }
  // Returns the source; empty for `none`.
  const std::string& source() const { return source_; }

 private:
  std::string source_;
  std::string rule_;
  int modulus_ = 1;
  int remainder_ = 0;
};

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_CALIBRATE_RUN_SLICE_H_
