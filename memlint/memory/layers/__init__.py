"""What the forward of each kind of layer allocates, and what autograd saves for its backward."""
