// What ThreadSanitizer cannot see. Debian's Abseil is not instrumented: the counts
// of references to a shared absl::Status, and to the absl::Cord of its payload, are
// changed inside its libraries, so the tool believes that the last owner frees what
// another still reads. Only that release is left out, not what else the owners do.
//
// To be listed among the sources of a test; the tool asks for it by name.
extern "C" const char* __tsan_default_suppressions();

extern "C" const char* __tsan_default_suppressions() {
  return "race:Status::Unref\n"
         "called_from_lib:libabsl_status.so\n"
         "called_from_lib:libabsl_cord.so\n";
}
