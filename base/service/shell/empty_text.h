// Options that were given without a text, as of `--job "$JOB"` in a script without that variable.
// The empty text would read as if the option were not given: `planctl verify` would accept plans of
// all jobs, and a server would ask no caller for a certificate.

#ifndef PARPLAN_BASE_SERVICE_SHELL_EMPTY_TEXT_H_
#define PARPLAN_BASE_SERVICE_SHELL_EMPTY_TEXT_H_

namespace CLI {
class App;
}  // namespace CLI

namespace parplan::shell {

// The mistake of an empty text, as the end of a sentence.
inline constexpr char kEmptyText[] = "must not be empty; leave the flag out for its default";

// Throws CLI::ValidationError, which names the option, if the command line that `app` has read
// gives an option of it, or of a command below that was chosen, an empty text. Its message advises
// to leave the option out unless it is required. Variables of the environment that are empty count
// as not set. For `CommandLine::Parse`, and for programs that use CLI11 themselves.
void RefuseEmptyTexts(const CLI::App& app);

}  // namespace parplan::shell

#endif  // PARPLAN_BASE_SERVICE_SHELL_EMPTY_TEXT_H_
