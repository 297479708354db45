# Compiler settings of the whole project: warnings, sanitizers, ccache, and the
# one floating-point rule that makes the planner's answers the same everywhere.

# Options of the C and C++ compiler, which nvcc does not know.
macro(parplan_add_compile_options)
  foreach(option ${ARGN})
    add_compile_options("$<$<NOT:$<COMPILE_LANGUAGE:CUDA>>:${option}>")
  endforeach()
endmacro()

parplan_add_compile_options(-Wall -Wextra -Wno-missing-field-initializers)
# gRPC asks for it; a precompiled header serves all targets only where all agree.
parplan_add_compile_options(-pthread)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # False alarms of GCC 12: std::string's operator+ (its bug 105651), and values
  # that only the sanitizers' own branches leave unset.
  parplan_add_compile_options(-Wno-restrict)
  if(PARPLAN_SANITIZER)
    parplan_add_compile_options(-Wno-maybe-uninitialized)
  endif()
  if(PARPLAN_UNITY_BUILD)
    # A unity source includes sources, whose classes are then taken for a header's.
    parplan_add_compile_options(-Wno-subobject-linkage)
  endif()
endif()
if(PARPLAN_WARNINGS_AS_ERRORS)
  parplan_add_compile_options(-Werror)
endif()

# A fused multiply-add rounds once where two instructions round twice; the same
# problem must give the same plan on any machine.
parplan_add_compile_options(-ffp-contract=off)

if(PARPLAN_SANITIZER)
  parplan_add_compile_options(-fsanitize=${PARPLAN_SANITIZER} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${PARPLAN_SANITIZER})
  if(PARPLAN_SANITIZER MATCHES "undefined")
    parplan_add_compile_options(-fno-sanitize-recover=undefined)
  endif()
  if(PARPLAN_SANITIZER MATCHES "thread" AND PARPLAN_WITH_GRPC)
    message(FATAL_ERROR "ThreadSanitizer reports false races inside gRPC, which Debian ships "
                        "uninstrumented; add -DPARPLAN_WITH_GRPC=OFF")
  endif()
endif()

# What is shipped is hardened: stack protectors and checks of lengths in the C library turn a write
# beyond the end of an array into the end of the program; no page of a table of functions can be
# written once the program runs; and programs lie at another address at each start. Debian's
# compilers do the last by themselves, others may not. Other builds have no attackers and are quicker
# to compile. cmake/check_hardening.py looks at the result.
if(NOT PARPLAN_SANITIZER)
  foreach(option -fstack-protector-strong -fstack-clash-protection -D_FORTIFY_SOURCE=2)
    parplan_add_compile_options("$<$<CONFIG:Release>:${option}>")
  endforeach()
  add_link_options(
    "$<$<CONFIG:Release>:LINKER:-z,relro,-z,now,-z,noexecstack>"
    "$<$<AND:$<CONFIG:Release>,$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>>:-pie>")
endif()

# Another linker, if the compiler can use it. LLVM's takes 1.4 s of processor time for a test
# program of 190 MB under AddressSanitizer, the default one 3.5 s.
if(PARPLAN_LINKER)
  include(CheckLinkerFlag)
  check_linker_flag(CXX -fuse-ld=${PARPLAN_LINKER} PARPLAN_HAS_LINKER)
  if(PARPLAN_HAS_LINKER)
    add_link_options(-fuse-ld=${PARPLAN_LINKER})
  endif()
endif()

# What nothing refers to is left out of programs, and addresses that the loader adds up are
# packed: 0.3 MB of each. The other linkers know another word for the second.
set(PARPLAN_PROGRAM_LINK_OPTIONS "")
if(NOT PARPLAN_SANITIZER)
  set(PARPLAN_PROGRAM_LINK_OPTIONS LINKER:--gc-sections)
  if(NOT PARPLAN_HAS_LINKER)
    list(APPEND PARPLAN_PROGRAM_LINK_OPTIONS LINKER:-z,pack-relative-relocs)
  endif()
endif()

# For what is mostly glue, such as generated code: half the size in releases, and calls take no
# longer for it.
function(parplan_optimize_for_size)
  foreach(target IN LISTS ARGN)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-Os>)
  endforeach()
endfunction()

if(PARPLAN_FUZZERS AND NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  message(FATAL_ERROR "PARPLAN_FUZZERS needs Clang; use `cmake --preset asan`")
endif()

# Under sanitizers a library that links no gRPC is optimized, so that fuzzers see many inputs and
# the searches of tests are quick. What links gRPC, and the tests, are compiled as the preset says:
# without optimization, which takes a third of the time (6.5 s of processor time instead of 20.9 for
# sixteen sources of proto/wire).
function(parplan_optimize_under_sanitizer name level)
  if(PARPLAN_SANITIZER AND level LESS 2)
    target_compile_options(${name} PRIVATE -O1)
  endif()
endfunction()

# Gives libraries of the project, and what they link of it, the coverage that steers a fuzz target:
# that of -fsanitize=fuzzer-no-link, which Clang takes for another language than that of the
# precompiled headers. Others go without: it takes a quarter of the time of a search.
function(parplan_cover)
  foreach(name IN LISTS ARGN)
    if(NOT TARGET ${name})
      continue()
    endif()
    get_target_property(type ${name} TYPE)
    get_target_property(imported ${name} IMPORTED)
    get_property(covered TARGET ${name} PROPERTY PARPLAN_COVERED)
    if(covered OR imported)
      continue()
    endif()
    set_target_properties(${name} PROPERTIES PARPLAN_COVERED TRUE)
    if(type STREQUAL "STATIC_LIBRARY")
      target_compile_options(${name} PRIVATE
        -fsanitize-coverage=inline-8bit-counters,indirect-calls,trace-cmp,pc-table,stack-depth)
      get_target_property(linked ${name} LINK_LIBRARIES)
    else()
      get_target_property(linked ${name} INTERFACE_LINK_LIBRARIES)
    endif()
    if(linked)
      parplan_cover(${linked})
    endif()
  endforeach()
endfunction()

find_program(CCACHE_PROGRAM ccache)
if(PARPLAN_CCACHE AND CCACHE_PROGRAM)
  # The sloppiness is what ccache asks for where headers are precompiled. Another clone
  # of the project may use what this one compiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      "${CMAKE_COMMAND}" -E env
      "CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime"
      "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1 CCACHE_PCH_EXTSUM=1
      "${PROJECT_SOURCE_DIR}/cmake/compile_cached.sh" "${CCACHE_PROGRAM}")
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    parplan_add_compile_options(-fpch-preprocess)
  else()
    # What the cache has was compiled with a precompiled header as good as the one made now, though
    # headers are younger.
    parplan_add_compile_options("SHELL:-Xclang -fno-pch-timestamp")
  endif()
endif()
