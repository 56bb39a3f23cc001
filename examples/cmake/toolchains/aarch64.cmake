# The program will run on AArch64: the images then carry host code for it (add_tile_kernel reads CMAKE_SYSTEM_PROCESSOR).
# Name the cross compiler by CC and CXX, or here.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
