# Headers that are read once for all targets. Reading headers took 60 to 100 % of the compilation
# of eight sources timed one by one with -O1, with and without -fsyntax-only.
# Only headers of others and generated ones are precompiled, so that a change of our own headers
# rebuilds what includes them and nothing else.
#
# There are three levels, each with the headers of those before it:
#
#   0  values     the standard library and Abseil
#   1  messages   the generated messages, and JSON
#   2  services   gRPC and the generated services
#
# and each of them once for libraries (position-independent code) and once for tests, with
# GoogleTest. A target gets the level of what it links. Sources still include what they use:
# clang-tidy and a build with PARPLAN_PRECOMPILED_HEADERS=OFF read them without.

set(PARPLAN_PRECOMPILED_LEVELS values messages services)

set(parplan_headers_values
  <algorithm> <array> <cmath> <cstddef> <cstdint> <functional> <limits> <map> <memory> <numeric>
  <optional> <set> <string> <tuple> <utility> <variant> <vector>
  <absl/status/status.h> <absl/status/statusor.h> <absl/strings/ascii.h> <absl/strings/match.h>
  <absl/strings/numbers.h> <absl/strings/str_cat.h> <absl/strings/str_format.h>
  <absl/strings/str_join.h> <absl/strings/str_split.h> <absl/strings/string_view.h>
  <absl/time/time.h> <absl/types/span.h>)
set(parplan_headers_messages ${parplan_headers_values} <nlohmann/json.hpp>)
foreach(stem topology model profile plan calibration hardware execution error_info)
  list(APPEND parplan_headers_messages <parplan/v1/${stem}.pb.h>)
endforeach()
set(parplan_headers_services ${parplan_headers_messages} <grpcpp/grpcpp.h>)
foreach(stem agent calibration execution plan profile)
  list(APPEND parplan_headers_services <parplan/v1/${stem}_service.grpc.pb.h>)
endforeach()

# Declares the precompiled header of a level for `use`, `library` or `test`.
function(parplan_add_precompiled level use)
  if(NOT PARPLAN_PRECOMPILED_HEADERS)
    return()
  endif()
  set(name parplan_precompiled_${level}_${use})
  set(source "${PROJECT_BINARY_DIR}/precompiled/${name}.cc")
  file(CONFIGURE OUTPUT "${source}" CONTENT
    "// Empty on purpose: the target exists for its precompiled header.\n")
  add_library(${name} OBJECT EXCLUDE_FROM_ALL "${source}")
  set(headers ${parplan_headers_${level}})
  if(use STREQUAL "library")
    list(FIND PARPLAN_PRECOMPILED_LEVELS ${level} number)
    parplan_optimize_under_sanitizer(${name} ${number})
  endif()
  if(use STREQUAL "test")
    # GCC takes a precompiled header only where the flags agree: neither side says anything about
    # position independence, and both get the compiler's default.
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_link_libraries(${name} PRIVATE GTest::gmock Threads::Threads)
    list(APPEND headers <gmock/gmock.h> <gtest/gtest.h>)
  endif()
  if(NOT level STREQUAL "values")
    target_link_libraries(${name} PRIVATE parplan_proto)
  endif()
  if(level STREQUAL "services")
    target_link_libraries(${name} PRIVATE parplan_proto_grpc)
  endif()
  target_precompile_headers(${name} PRIVATE ${headers})
endfunction()

# Sets `out` to the level of what the named targets let their users include.
function(parplan_level_of out)
  set(level 0)
  foreach(dependency IN LISTS ARGN)
    set(own 0)
    if(dependency STREQUAL "parplan_proto")
      set(own 1)
    elseif(dependency MATCHES "^(parplan_proto_grpc|gRPC::grpc\\+\\+)$")
      set(own 2)
    elseif(TARGET ${dependency})
      get_target_property(found ${dependency} PARPLAN_LEVEL)
      if(found)
        set(own ${found})
      endif()
    endif()
    if(own GREATER level)
      set(level ${own})
    endif()
  endforeach()
  set(${out} ${level} PARENT_SCOPE)
endfunction()

# Lets a target use the precompiled header for what it links.
function(parplan_use_precompiled name use)
  parplan_level_of(level ${ARGN})
  list(GET PARPLAN_PRECOMPILED_LEVELS ${level} level_name)
  if(TARGET parplan_precompiled_${level_name}_${use})
    if(use STREQUAL "test")
      set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    endif()
    target_precompile_headers(${name} REUSE_FROM parplan_precompiled_${level_name}_${use})
  endif()
endfunction()
