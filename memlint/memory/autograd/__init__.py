"""A tape of the tensors that autograd saves, and the walk over forward and backward that finds the peak."""
