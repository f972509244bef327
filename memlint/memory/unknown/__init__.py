"""What a run leaves open, and what is not modelled: several readings, lower bounds, figures per number of GPUs."""
