// A library that a fake plugin needs and does not find.
extern "C" int fake_library_function() { return 1; }
