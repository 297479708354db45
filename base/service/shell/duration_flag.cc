#include "base/service/shell/duration_flag.h"

#include <string>

namespace parplan {

void AddDurationFlag(shell::Command command, const char* name, absl::Duration& target,
                     const char* help) {
  const auto read = [&target](const std::string& text) -> std::string {
    absl::Duration duration;
    if (!absl::ParseDuration(text, &duration)) {
      return "`" + text + "` is not a duration; write 30s or 24h";
    }
    if (duration <= absl::ZeroDuration()) {
      return "`" + text + "` is not above 0; write 30s or 24h";
    }
    target = duration;
    return "";
  };
  command.AddTextOption(name, read, help).TypeName("DURATION");
}

}  // namespace parplan
