#include "clients/planctl/commands/command.h"

#include <cstdio>

#include "clients/planctl/files.h"

namespace parplan::planctl {

absl::Status Print(const Session& session, absl::string_view text) {
  session.answered = true;
  return WriteFile("-", text);
}

void Note(const Session& session, absl::string_view text) {
  if (session.quiet) return;
  std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
}

}  // namespace parplan::planctl
