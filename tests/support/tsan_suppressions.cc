// Suppressions for ThreadSanitizer. Debian's Abseil is not instrumented: its libraries change the
// reference counts of a shared absl::Status and of the absl::Cord of its payload, so the sanitizer
// believes that the last owner frees what another still reads. Only that release is suppressed,
// nothing else that the owners do.
//
// List this file among the sources of a test; the sanitizer finds the function by name.
extern "C" const char* __tsan_default_suppressions();

extern "C" const char* __tsan_default_suppressions() {
  return "race:Status::Unref\n"
         "called_from_lib:libabsl_status.so\n"
         "called_from_lib:libabsl_cord.so\n";
}
