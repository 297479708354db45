// What ThreadSanitizer cannot see. Debian's Abseil is not instrumented: the
// count of references to a shared absl::Status is changed inside its library, so
// the tool believes that the last owner frees it while another still reads. Only
// the release of a Status is left out, not what else its owners do.
//
// To be listed among the sources of a test; the tool asks for it by name.
extern "C" const char* __tsan_default_suppressions();

extern "C" const char* __tsan_default_suppressions() {
  return "race:Status::Unref\ncalled_from_lib:libabsl_status.so\n";
}
