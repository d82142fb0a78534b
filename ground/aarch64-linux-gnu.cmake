# A toolchain file of CMake: builds for aarch64 on another machine, by Debian's cross compiler. scripts/test-aarch64
# uses it; by hand:
#
#   HARDMETER_AARCH64=FOLDER cmake -S persist -B build/persist-aarch64 --toolchain ground/aarch64-linux-gnu.cmake
#
# FOLDER is where that script has put root/ (libraries of arm64, unpacked) and qemu-aarch64.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

set(root $ENV{HARDMETER_AARCH64}/root)
set(CMAKE_FIND_ROOT_PATH ${root} /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
# Behind the compiler's own: root/ also has the C library's.
set(CMAKE_C_STANDARD_INCLUDE_DIRECTORIES ${root}/usr/include)
set(CMAKE_CXX_STANDARD_INCLUDE_DIRECTORIES ${root}/usr/include)
set(CMAKE_CROSSCOMPILING_EMULATOR $ENV{HARDMETER_AARCH64}/qemu-aarch64 -L ${root})
