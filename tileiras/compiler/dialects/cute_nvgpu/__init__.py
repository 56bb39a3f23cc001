"""The cute_nvgpu dialect: copy, MMA and TMA atoms."""
