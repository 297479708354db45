# Debian packages, one a component of cmake/ParplanInstall.cmake: `./parplan-dev package`.
# Dependencies come from the libraries the programs link (dpkg-shlibdeps).

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME parplan)
set(CPACK_PACKAGE_VENDOR "The parplan authors")
set(CPACK_PACKAGE_CONTACT "The parplan authors <parplan@example.org>" CACHE STRING
  "Who maintains the packages")
# Each package has its own.
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")
set(CPACK_PACKAGE_VERSION "${PROJECT_VERSION}")
# Some paths are absolute.
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX "${CMAKE_INSTALL_PREFIX}")
set(CPACK_STRIP_FILES ON)
# Groups and the defaults of the machine that builds must not show.
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1 CACHE STRING "Debian's revision of the packages")

set(CPACK_COMPONENTS_ALL "")

# A package: its first line, what `apt show` says besides, its extra dependencies, the files of its
# control archive, and where it is not net, its section.
macro(parplan_package name summary description)
  cmake_parse_arguments(package "ALL" "SECTION" "DEPENDS;CONTROL" ${ARGN})
  list(APPEND CPACK_COMPONENTS_ALL ${name})
  string(TOUPPER "${name}" package_key)
  set(CPACK_DEBIAN_${package_key}_PACKAGE_NAME ${name})
  set(CPACK_DEBIAN_${package_key}_DESCRIPTION "${summary}\n${description}")
  if(package_SECTION)
    set(CPACK_DEBIAN_${package_key}_PACKAGE_SECTION ${package_SECTION})
  endif()
  if(package_ALL)
    set(CPACK_DEBIAN_${package_key}_PACKAGE_ARCHITECTURE all)
    set(CPACK_DEBIAN_${package_key}_PACKAGE_SHLIBDEPS OFF)
  endif()
  list(JOIN package_DEPENDS ", " package_depends)
  set(CPACK_DEBIAN_${package_key}_PACKAGE_DEPENDS "${package_depends}")
  list(TRANSFORM package_CONTROL PREPEND "${PROJECT_SOURCE_DIR}/deploy/packages/"
    OUTPUT_VARIABLE package_control)
  set(CPACK_DEBIAN_${package_key}_PACKAGE_CONTROL_EXTRA "${package_control}")
  install(FILES "${PROJECT_SOURCE_DIR}/deploy/packages/copyright"
    DESTINATION share/doc/${name} COMPONENT ${name})
  install(FILES "${parplan_manual_dir}/changelog.Debian.gz"
    DESTINATION share/doc/${name} COMPONENT ${name} OPTIONAL)
endmacro()

set(parplan_full_version "${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}")
set(parplan_sysusers "systemd-standalone-sysusers | systemd-sysusers")

if(TARGET parplan-server)
  parplan_package(parplan-server "plans how to parallelise training, as a service"
    "Takes measurements of nodes and models in, gives signed plans out, over gRPC.
The service is not started before it is told to: see parplan-server(1) and the
operator's guide."
    DEPENDS "${parplan_sysusers}"
    CONTROL server/conffiles server/postinst server/prerm server/postrm)
endif()
if(TARGET planctl)
  parplan_package(parplan-client "command line of parplan"
    "planctl plans how to parallelise the training of a model, with a server or
without, and verifies and explains plans.")
endif()
if(TARGET parplan-agent)
  parplan_package(parplan-agent "measures nodes for parplan"
    "Times collectives and layers on a free node and brings the measurements to a
parplan server; with a plugin by which NCCL tells of running jobs.
The service is not started before it is told to."
    DEPENDS "${parplan_sysusers}" "systemd-standalone-tmpfiles | systemd-tmpfiles"
    CONTROL agent/conffiles agent/postinst agent/prerm agent/postrm)
endif()
if(TARGET parplan-exec)
  parplan_package(parplan-executor "runs training plans of parplan"
    "parplan-exec verifies a plan and trains a model exactly as it says, on cores or
GPUs.")
endif()
if(TARGET parplan_executor)
  parplan_package(libparplan-executor1 "plans of parplan for training frameworks"
    "A library with a C interface that verifies a plan and tells what each layer and
rank has to do."
    SECTION libs CONTROL executor/shlibs executor/triggers)
  parplan_package(libparplan-executor-dev "plans of parplan for frameworks, development files"
    "The header of libparplan_executor, and the link by which compilers find it."
    SECTION libdevel DEPENDS "libparplan-executor1 (= ${parplan_full_version})")
  parplan_package(python3-parplan-executor "plans of parplan for frameworks in Python"
    "The C interface in Python, and a plan in the words of torch." ALL
    SECTION python DEPENDS "python3:any" "libparplan-executor1 (>= ${PROJECT_VERSION})"
    CONTROL python/postinst python/prerm)
endif()
if(TARGET parplan-sidecar)
  parplan_package(parplan-sidecar "brings plans of parplan to jobs of Kubernetes"
    "Fetches and verifies a plan before a job starts, and forwards what the job
measures.")
endif()

if(TARGET spank_parplan)
  parplan_package(parplan-slurm "plans of parplan for jobs of Slurm"
    "Options of jobs and the environment of tasks, as a plugin of Slurm, and
examples of its configuration; what asks for plans is planctl."
    DEPENDS "parplan-client (>= ${PROJECT_VERSION})" slurm-wlm-basic-plugins)
endif()

include(CPack)
