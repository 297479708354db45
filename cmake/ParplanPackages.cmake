# Debian packages, one a component of cmake/ParplanInstall.cmake: `./parplan-dev package`.
# Dependencies come from the libraries the programs link (dpkg-shlibdeps).

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME parplan)
set(CPACK_PACKAGE_VENDOR "The parplan authors")
set(CPACK_PACKAGE_CONTACT "The parplan authors <parplan@localhost>")
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

# A package: its first line, what `apt show` says besides, its extra dependencies, and the files
# of its control archive.
macro(parplan_package name summary description)
  cmake_parse_arguments(package "" "" "DEPENDS;CONTROL" ${ARGN})
  list(APPEND CPACK_COMPONENTS_ALL ${name})
  string(TOUPPER "${name}" package_key)
  set(CPACK_DEBIAN_${package_key}_PACKAGE_NAME ${name})
  set(CPACK_DEBIAN_${package_key}_DESCRIPTION "${summary}\n${description}")
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
    "parplan-exec verifies a plan and trains a model exactly as it says; a C library
and a Python package tell other frameworks what each rank has to do."
    CONTROL executor/triggers)
endif()
if(TARGET parplan-sidecar)
  parplan_package(parplan-sidecar "brings plans of parplan to jobs of Kubernetes"
    "Fetches and verifies a plan before a job starts, and forwards what the job
measures.")
endif()

include(CPack)
