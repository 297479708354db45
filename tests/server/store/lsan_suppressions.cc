// Suppressions for LeakSanitizer. Debian's libpqxx leaks the result of a statement during which the
// connection breaks, some kilobytes, because it asks the broken connection for its encoding before
// it takes over the result.
//
// List this file among the sources of a test; the sanitizer finds the function by name.
extern "C" const char* __lsan_default_suppressions();

extern "C" const char* __lsan_default_suppressions() { return "leak:libpqxx-6\n"; }
