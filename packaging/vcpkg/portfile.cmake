# Takes the archive of a release, as `scripts/release/dist.py` packs it. Its SHA512 is set when the release is out (RELEASING.md).
if(VCPKG_TARGET_IS_WINDOWS)
  set(_system "pc-windows-msvc")
elseif(VCPKG_TARGET_IS_OSX)
  set(_system "apple-darwin")
else()
  set(_system "unknown-linux-gnu")
endif()
if(VCPKG_TARGET_ARCHITECTURE STREQUAL "arm64")
  set(_triple "aarch64-${_system}")
else()
  set(_triple "x86_64-${_system}")
endif()

set(_sha512_x86_64-unknown-linux-gnu "0")
set(_sha512_aarch64-unknown-linux-gnu "0")
set(_sha512_x86_64-apple-darwin "0")
set(_sha512_aarch64-apple-darwin "0")
set(_sha512_x86_64-pc-windows-msvc "0")

vcpkg_download_distfile(ARCHIVE
  URLS "https://github.com/onnx-cast/onnx-cast/releases/download/v${VERSION}/onnx-cast-${VERSION}-${_triple}.tar.gz"
  FILENAME "onnx-cast-${VERSION}-${_triple}.tar.gz"
  SHA512 "${_sha512_${_triple}}")
vcpkg_extract_source_archive(SOURCE ARCHIVE "${ARCHIVE}")

set(VCPKG_POLICY_MISMATCHED_NUMBER_OF_BINARIES enabled)
file(INSTALL "${SOURCE}/include/" DESTINATION "${CURRENT_PACKAGES_DIR}/include")
file(INSTALL "${SOURCE}/lib/" DESTINATION "${CURRENT_PACKAGES_DIR}/lib" PATTERN "cmake" EXCLUDE)
file(INSTALL "${SOURCE}/lib/cmake/onnx_cast/" DESTINATION "${CURRENT_PACKAGES_DIR}/share/onnx_cast")
if(VCPKG_TARGET_IS_WINDOWS)
  file(INSTALL "${SOURCE}/bin/" DESTINATION "${CURRENT_PACKAGES_DIR}/bin")
endif()
# The paths of the CMake file are those of lib/cmake/onnx_cast; vcpkg has it two folders higher.
vcpkg_replace_string("${CURRENT_PACKAGES_DIR}/share/onnx_cast/onnx_castConfig.cmake"
  "\${CMAKE_CURRENT_LIST_DIR}/../../.." "\${CMAKE_CURRENT_LIST_DIR}/../..")
vcpkg_install_copyright(FILE_LIST
  "${SOURCE}/share/doc/onnx-cast/LICENSE-MIT" "${SOURCE}/share/doc/onnx-cast/LICENSE-APACHE")
