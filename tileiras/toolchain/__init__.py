"""Everything that touches NVIDIA's tools and their files: finding them, running them, reading what they
write.

Nothing in here imports the compiler, so PTX from anywhere can be assembled and packaged, and the compiler
works on a machine without CUDA.  This file imports nothing, because the compile path loads ``locate`` and
``ptxas`` alone.
"""
