"""From tensor bytes to what the GPU shows: allocator, CUDA context, calibration, and the interval around a peak."""
