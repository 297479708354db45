#include "base/service/shell/duration_flag.h"

#include <string>

namespace parplan {

void AddDurationFlag(CLI::App& app, const char* name, absl::Duration& target, const char* help) {
  const auto read = [&target, name](const std::string& text) {
    absl::Duration duration;
    if (!absl::ParseDuration(text, &duration)) {
      throw CLI::ValidationError(name, "`" + text + "` is not a duration; write 30s or 24h");
    }
    if (duration <= absl::ZeroDuration()) {
      throw CLI::ValidationError(name, "`" + text + "` is not above 0; write 30s or 24h");
    }
    target = duration;
  };
  app.add_option_function<std::string>(name, read, help)->type_name("DURATION");
}

}  // namespace parplan
