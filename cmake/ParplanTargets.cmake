# The few ways a target is declared here. A name comes first, then lists:
#
#   parplan_add_library(parplan_base
#     SOURCES error.h error.cc units.h
#     DEPS absl::status absl::time)          # public
#     PRIVATE_DEPS OpenSSL::Crypto           # optional
#     OWN_FLAGS                              # optional: compiled with flags of its own, so
#                                            # without the precompiled headers
#     ALONE)                                 # optional: each source by itself in every build,
#                                            # because helpers of several have the same names
#   parplan_add_executable(planctl SOURCES main.cc DEPS parplan_planctl)
#   parplan_add_test(planner_test
#     SOURCES base/units_test.cc
#     DEPS parplan_base
#     LABELS planner  TIMEOUT 60             # optional; seconds for one test case
#     SHARDS 2                               # TESTs share so many processes, for those whose
#                                            # surroundings take longer to set up than they
#     THREADED)                              # what ThreadSanitizer runs as well
#
# Includes are written from the root of the repository ("base/units.h")
# or, for generated messages, from the generated root ("parplan/v1/plan.pb.h").

set(PARPLAN_GENERATED_DIR "${PROJECT_BINARY_DIR}/gen")

# What the tests need that do not run under the sanitizers: programs, and test binaries
# with the label `slow`.
add_custom_target(parplan_unsanitized)

# What the tests need that run under the sanitizer of this build: all others, or under
# ThreadSanitizer those that are THREADED, since one thread has no races.
add_custom_target(parplan_sanitized)

# Lets builds with PARPLAN_UNITY_BUILD compile up to sixteen sources of a target as one, which takes
# about half as long: our own headers and their templates are then read once for all of them.
# Names in unnamed namespaces must therefore differ within a target. Daily builds compile each
# source by itself, which also shows that it includes what it uses.
function(parplan_use_unity name)
  if(PARPLAN_UNITY_BUILD)
    # At the end of the folder, where its sources have their properties.
    cmake_language(EVAL CODE "cmake_language(DEFER CALL parplan_batch_sources ${name})")
  endif()
endfunction()

# Replaces the sources of a target by files that include up to sixteen of them each. CMake's own
# UNITY_BUILD writes absolute paths into such files, so that a compiler cache would have nothing for
# another clone. Sources that are generated or have flags of their own are compiled by themselves.
function(parplan_batch_sources name)
  get_target_property(sources ${name} SOURCES)
  set(alone "")
  set(batched "")
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source NORMALIZE OUTPUT_VARIABLE path)
    cmake_path(IS_PREFIX PROJECT_BINARY_DIR "${path}" is_generated)
    set(own_flags "")
    foreach(property COMPILE_OPTIONS COMPILE_DEFINITIONS COMPILE_FLAGS INCLUDE_DIRECTORIES)
      get_source_file_property(value "${source}" ${property})
      if(value)
        list(APPEND own_flags "${value}")
      endif()
    endforeach()
    if(path MATCHES "\\.cc$" AND NOT is_generated AND NOT own_flags)
      list(APPEND batched "${path}")
    else()
      list(APPEND alone "${source}")
    endif()
  endforeach()
  list(LENGTH batched count)
  if(count LESS 2)
    return()
  endif()
  set(batches "")
  math(EXPR last "${count} - 1")
  foreach(begin RANGE 0 ${last} 16)
    list(SUBLIST batched ${begin} 16 batch)
    set(includes "")
    foreach(path IN LISTS batch)
      cmake_path(RELATIVE_PATH path BASE_DIRECTORY "${PROJECT_SOURCE_DIR}")
      string(APPEND includes "#include \"${path}\"\n")
    endforeach()
    list(LENGTH batches index)
    set(file "${CMAKE_CURRENT_BINARY_DIR}/batches/${name}_${index}.cc")
    file(CONFIGURE OUTPUT "${file}" CONTENT "${includes}" @ONLY)
    list(APPEND batches "${file}")
  endforeach()
  set_target_properties(${name} PROPERTIES SOURCES "${alone};${batches}")
endfunction()

# Adds each named folder that has a CMakeLists.txt.
function(parplan_add_folders)
  foreach(folder IN LISTS ARGN)
    if(EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/CMakeLists.txt")
      add_subdirectory("${folder}")
    endif()
  endforeach()
endfunction()

# A library. With headers only among its sources it becomes an INTERFACE library.
function(parplan_add_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "OWN_FLAGS;ALONE" "" "SOURCES;DEPS;PRIVATE_DEPS")
  parplan_refuse_unparsed(${name} "${arg_UNPARSED_ARGUMENTS}")
  parplan_expect_sources(${arg_SOURCES})
  set(compiled ${arg_SOURCES})
  list(FILTER compiled INCLUDE REGEX "\\.(cc|c|cu)$")
  if(compiled)
    add_library(${name} STATIC ${arg_SOURCES})
    if(NOT arg_OWN_FLAGS)
      parplan_level_of(level ${arg_DEPS} ${arg_PRIVATE_DEPS})
      parplan_optimize_under_sanitizer(${name} ${level})
      parplan_use_precompiled(${name} library ${arg_DEPS} ${arg_PRIVATE_DEPS})
      if(NOT arg_ALONE)
        parplan_use_unity(${name})
      endif()
    endif()
    target_include_directories(${name} PUBLIC "${PROJECT_SOURCE_DIR}")
    target_link_libraries(${name} PUBLIC ${arg_DEPS} PRIVATE ${arg_PRIVATE_DEPS})
  else()
    add_library(${name} INTERFACE ${arg_SOURCES})
    target_include_directories(${name} INTERFACE "${PROJECT_SOURCE_DIR}")
    target_link_libraries(${name} INTERFACE ${arg_DEPS} ${arg_PRIVATE_DEPS})
  endif()
  parplan_level_of(level ${arg_DEPS})
  set_target_properties(${name} PROPERTIES PARPLAN_LEVEL ${level})
endfunction()

# A program, in ${build}/bin.
function(parplan_add_executable name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPS")
  parplan_refuse_unparsed(${name} "${arg_UNPARSED_ARGUMENTS}")
  parplan_expect_sources(${arg_SOURCES})
  add_executable(${name} ${arg_SOURCES})
  parplan_use_unity(${name})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE ${arg_DEPS})
  target_link_options(${name} PRIVATE ${PARPLAN_PROGRAM_LINK_OPTIONS})
  add_dependencies(parplan_unsanitized ${name})
endfunction()

# One GoogleTest binary, in ${build}/tests; each TEST becomes a test of CTest when
# CTest starts, so a build of other targets does not need this one. Under a sanitizer a
# program takes longer to start than most TESTs to run: there a binary is a few tests of
# CTest, which share its TESTs.
function(parplan_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "THREADED;ALONE" "TIMEOUT;SHARDS" "SOURCES;DEPS;LABELS")
  parplan_refuse_unparsed(${name} "${arg_UNPARSED_ARGUMENTS}")
  parplan_expect_sources(${arg_SOURCES})
  if(NOT arg_TIMEOUT)
    # Some 10 times what the slowest takes, since the machine may have other work.
    set(arg_TIMEOUT 600)
  endif()
  if(NOT arg_LABELS)
    set(arg_LABELS ${name})
  endif()
  add_executable(${name} ${arg_SOURCES})
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE
    ${arg_DEPS} parplan_test_support GTest::gmock GTest::gtest_main Threads::Threads)
  parplan_use_precompiled(${name} test ${arg_DEPS})
  if(NOT arg_ALONE)
    parplan_use_unity(${name})
  endif()
  if("slow" IN_LIST arg_LABELS)
    add_dependencies(parplan_unsanitized ${name})
  endif()
  if(PARPLAN_SANITIZER)
    if(arg_THREADED)
      list(APPEND arg_LABELS threaded)
    endif()
    if(NOT "slow" IN_LIST arg_LABELS AND (NOT PARPLAN_SANITIZER MATCHES "thread" OR arg_THREADED))
      add_dependencies(parplan_sanitized ${name})
    endif()
    if(NOT arg_SHARDS)
      set(arg_SHARDS 4)
    endif()
  endif()
  if(arg_SHARDS)
    parplan_add_shards(${name} ${arg_SHARDS} "${arg_LABELS}")
    return()
  endif()
  # One label, since `gtest_discover_tests` takes the second of a list for the name of a property;
  # the steps of `./parplan-dev test` look for their words in it.
  list(JOIN arg_LABELS "." labels)
  gtest_discover_tests(${name}
    DISCOVERY_MODE PRE_TEST
    DISCOVERY_TIMEOUT 60
    PROPERTIES
      LABELS "${labels}" TIMEOUT ${arg_TIMEOUT}
      ENVIRONMENT "TEST_TMPDIR=${PARPLAN_TEST_FOLDER}")
endfunction()

# So many tests of CTest, each of which runs its share of a binary's TESTs.
function(parplan_add_shards name count labels)
  foreach(shard RANGE 1 ${count})
    math(EXPR index "${shard} - 1")
    add_test(NAME ${name}.${shard} COMMAND ${name})
    set_tests_properties(${name}.${shard} PROPERTIES
      LABELS "${labels}" TIMEOUT 900
      ENVIRONMENT
        "GTEST_TOTAL_SHARDS=${count};GTEST_SHARD_INDEX=${index};TEST_TMPDIR=${PARPLAN_TEST_FOLDER}")
  endforeach()
endfunction()

# One libFuzzer binary, in ${build}/fuzz. The folder `corpus/<name>` beside the
# source, where present, holds its seeds.
function(parplan_add_fuzzer name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPS")
  parplan_refuse_unparsed(${name} "${arg_UNPARSED_ARGUMENTS}")
  parplan_expect_sources(${arg_SOURCES})
  add_executable(${name} ${arg_SOURCES})
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/fuzz")
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE ${arg_DEPS})
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  parplan_cover(${arg_DEPS})
endfunction()

# One Google Benchmark binary or load generator, in ${build}/benchmarks, where
# `./parplan-dev bench` runs it.
function(parplan_add_benchmark name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPS")
  parplan_refuse_unparsed(${name} "${arg_UNPARSED_ARGUMENTS}")
  parplan_expect_sources(${arg_SOURCES})
  add_executable(${name} ${arg_SOURCES})
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/benchmarks")
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE ${arg_DEPS})
endfunction()

# A source that is listed and absent stops the build of its own target, where
# CMake would refuse to configure all of them.
function(parplan_expect_sources)
  foreach(source IN LISTS ARGN)
    cmake_path(ABSOLUTE_PATH source OUTPUT_VARIABLE path)
    # Made by the build itself.
    cmake_path(IS_PREFIX PARPLAN_GENERATED_DIR "${path}" is_generated)
    if(NOT is_generated AND NOT EXISTS "${path}")
      message(WARNING "${CMAKE_CURRENT_SOURCE_DIR} lists ${source}, which does not exist")
      set_source_files_properties("${source}" PROPERTIES GENERATED ON)
    endif()
  endforeach()
endfunction()

function(parplan_refuse_unparsed name unparsed)
  if(NOT "${unparsed}" STREQUAL "")
    message(FATAL_ERROR "${name}: unknown arguments: ${unparsed}")
  endif()
endfunction()

if(PARPLAN_TESTS)
  include(GoogleTest)
  # Where tests make their folders: what a test that is killed leaves goes with the build.
  set(PARPLAN_TEST_FOLDER "${PROJECT_BINARY_DIR}/Testing/folders")
  file(MAKE_DIRECTORY "${PARPLAN_TEST_FOLDER}")
endif()
